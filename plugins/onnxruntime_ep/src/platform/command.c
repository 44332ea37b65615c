/* The compiler is a function of the host, or another process, for hosts without Python. */
#include <errno.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../provider.h"
#include "sdk/system.h"

enum { MAX_ERROR_BYTES = 2048 };
static tvmrt_onnxruntime_ep_compiler host_compiler;

void tvmrt_onnxruntime_ep_set_compiler(tvmrt_onnxruntime_ep_compiler compiler) {
  host_compiler = compiler;
}

/* 0, or an error number; *code is the exit status. For a host that ignores SIGCHLD the system keeps
 * no status: then *code is 0, and only a missing result shows a failure. */
static int run_words(char* const* words, int* code) {
  pid_t process;
  const int rc = posix_spawn(&process, "/bin/sh", NULL, NULL, words, environ);
  if (rc != 0) return rc;
  while (waitpid(process, code, 0) < 0) {
    if (errno == EINTR) continue;
    if (errno != ECHILD) return errno;
    *code = 0;
    break;
  }
  return 0;
}

/* Set the error of an option, which the session fails with. */
static void fail_option(job* j, provider* p, const char* text) {
  free(p->wrong_option);
  p->wrong_option = tvmrt__strdup(text);
  job_fail(j, ORT_INVALID_ARGUMENT, "%s", text);
}

/* The last lines of the output are the error. A command that ends by itself without an
 * error of tvmrt is another program; one that was killed may work the next time. */
static void fail_command(job* j, provider* p, const char* command, const char* output,
                         bool was_killed) {
  static const char prefix[] = "tvmrt: error: ", OPTION_ERROR[] = "the provider option ";
  static const char remedy[] = "or load a model that has been compiled with ep.context_enable";
  tvmrt_buf printed = {NULL, 0, 0};
  const char* text = was_killed ? "it was killed" : "it ended without a message";
  if (tvmrt__read_file(output, &printed) == 0 && printed.size > 0) {
    while (printed.size > 0 && printed.data[printed.size - 1] == '\n') {
      printed.data[--printed.size] = '\0';
    }
    text = printed.data + (printed.size > MAX_ERROR_BYTES ? printed.size - MAX_ERROR_BYTES : 0);
  }
  if (strncmp(text, prefix, sizeof(prefix) - 1) == 0) {
    text += sizeof(prefix) - 1;
    if (strncmp(text, OPTION_ERROR, sizeof(OPTION_ERROR) - 1) == 0) {
      fail_option(j, p, text);
    } else {
      job_fail(j, ORT_EP_FAIL, "%s", text);
    }
  } else if (p->options[OPTION_COMMAND] != NULL && !was_killed) {
    const char* error = job_text(j,
                                 "%scommand has the value '%s': this command failed (%s); give the "
                                 "command of an installed tvmrt, %s",
                                 OPTION_ERROR, command, text, remedy);
    if (error != NULL) fail_option(j, p, error);
  } else {
    job_fail(j, ORT_EP_FAIL,
             "the command '%s' failed (%s); install tvmrt, give its command by the provider option "
             "command, %s",
             command, text, remedy);
  }
  tvmrt__buf_free(&printed);
}

/* Compile by a command, in a process of its own. */
static void run_command(job* j, provider* p, const char* command, char* input, char* result,
                        char* output, bool parts) {
  static char* const flags[NUM_OPTIONS] = {
      [OPTION_DIMS] = "--dims", [OPTION_MIN_NODES] = "--min-nodes", [OPTION_TARGET] = "--target"};
  char* script = job_text(j, "exec %s onnxruntime-ep \"$@\" > \"$0\" 2>&1 < /dev/null", command);
  char* words[10 + 2 * NUM_OPTIONS] = {"sh", "-c", script, output, input, "-o", result, "--quiet"};
  size_t count = 8;
  int code = 0, rc;
  if (parts) words[count++] = "--parts";
  for (size_t i = 0; i < NUM_OPTIONS; ++i) {
    if (flags[i] == NULL || p->options[i] == NULL) continue;
    words[count++] = flags[i];
    words[count++] = p->options[i];
  }
  if (j->has_failed) return;
  rc = run_words(words, &code);
  if (rc != 0) {
    job_fail(j, ORT_EP_FAIL, "/bin/sh cannot be started (%s)", strerror(rc));
  } else if (!WIFEXITED(code) || WEXITSTATUS(code) != 0 || !tvmrt__is_readable(result)) {
    fail_command(j, p, command, output, WIFSIGNALED(code));
  }
}

char* run_compiler(job* j, provider* p, const tvmrt_buf* model, bool parts) {
  const char* command = p->options[OPTION_COMMAND];
  char *input = job_file(j, "model.onnx"), *output = job_file(j, "output.txt");
  char* result = job_file(j, parts ? "parts.txt" : "network.so");
  if (!TVM(j, tvmrt__write_file(input, model->data, model->size))) return NULL;
  if (command != NULL || host_compiler == NULL) {
    run_command(j, p, command != NULL ? command : "tvmrt", input, result, output, parts);
  } else if (host_compiler(input, result, output, parts, p->options[OPTION_DIMS],
                           p->options[OPTION_MIN_NODES], p->options[OPTION_TARGET]) != 0 ||
             !tvmrt__is_readable(result)) {
    fail_command(j, p, "tvmrt", output, false);
  }
  return j->has_failed ? NULL : result;
}
