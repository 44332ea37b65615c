/* The compiler is another process, so that hosts without Python can use it. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../provider.h"
#include "sdk/system.h"

enum { MAX_WORDS = 32, MAX_ERROR_BYTES = 2048, MAX_COMMAND_BYTES = 4096 };
extern char** environ;

static tvmrt_mutex lock = TVMRT_MUTEX_INIT;
static char default_command[MAX_COMMAND_BYTES] = "tvmrt";

int tvmrt_onnxruntime_ep_set_command(const char* command) {
  if (command == NULL) command = "tvmrt";
  if (strlen(command) >= sizeof(default_command)) return -1;
  tvmrt__lock(&lock);
  memcpy(default_command, command, strlen(command) + 1);
  tvmrt__unlock(&lock);
  return 0;
}

/* The words of the command before those of `more`, which ends with NULL. */
static char** words_of(job* j, const char* command, char* const* more) {
  char *text = job_text(j, "%s", command), *rest = NULL;
  char** words = job_alloc(j, MAX_WORDS + NUM_OPTIONS * 2 + 8, sizeof(*words));
  const char* separator = strchr(command, '\n') != NULL ? "\n" : " ";
  size_t count = 0;
  if (words == NULL) return NULL;
  for (char* word = strtok_r(text, separator, &rest); word != NULL;
       word = strtok_r(NULL, separator, &rest)) {
    if (count == MAX_WORDS) {
      job_fail(j, ORT_INVALID_ARGUMENT,
               "the provider option command has more than %d words; give a script that runs them",
               MAX_WORDS);
      return NULL;
    }
    words[count++] = word;
  }
  for (; *more != NULL; ++more) words[count++] = *more;
  return words;
}

/* The process does not inherit that its host ignores SIGCHLD: it waits for a C compiler. */
static int start(char* const* words, const posix_spawn_file_actions_t* actions, pid_t* process) {
  posix_spawnattr_t attributes;
  sigset_t signals;
  int rc = posix_spawnattr_init(&attributes);
  if (rc != 0) return rc;
  (void)sigemptyset(&signals);
  (void)sigaddset(&signals, SIGCHLD);
  rc = posix_spawnattr_setsigdefault(&attributes, &signals);
  if (rc == 0) rc = posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  if (rc == 0) rc = posix_spawnp(process, words[0], actions, &attributes, words, environ);
  (void)posix_spawnattr_destroy(&attributes);
  return rc;
}

/* 0, or an error number; *code is the exit status. The process writes to the file `output`. For a
 * host that ignores SIGCHLD the system keeps no status: then *code is 0, and only a missing result
 * shows a failure. */
static int run(char* const* words, const char* output, int* code) {
  const int flags = O_WRONLY | O_CREAT | O_TRUNC;
  posix_spawn_file_actions_t actions;
  pid_t process;
  int rc = posix_spawn_file_actions_init(&actions);
  if (rc != 0) return rc;
  rc = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  if (rc == 0) {
    rc = posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, output, flags, 0600);
  }
  if (rc == 0) rc = posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  if (rc == 0) rc = start(words, &actions, &process);
  (void)posix_spawn_file_actions_destroy(&actions);
  if (rc != 0) return rc;
  while (waitpid(process, code, 0) < 0) {
    if (errno == EINTR) continue;
    if (errno != ECHILD) return errno;
    *code = 0;
    break;
  }
  return 0;
}

/* The last lines that the command printed are the error. */
static void fail_command(job* j, const char* command, const char* output) {
  static const char prefix[] = "tvmrt: error: ";
  tvmrt_buf said = {NULL, 0, 0};
  const char* text = "";
  if (tvmrt__read_file(output, &said) == 0 && said.size > 0) {
    while (said.size > 0 && said.data[said.size - 1] == '\n') said.data[--said.size] = '\0';
    text = said.data + (said.size > MAX_ERROR_BYTES ? said.size - MAX_ERROR_BYTES : 0);
  }
  if (strncmp(text, prefix, sizeof(prefix) - 1) == 0) text += sizeof(prefix) - 1;
  if (text[0] != '\0') {
    job_fail(j, ORT_EP_FAIL, "%s", text);
  } else {
    job_fail(j, ORT_EP_FAIL,
             "the command '%s' ended without a result or a message; run it in a terminal", command);
  }
  tvmrt__buf_free(&said);
}

char* run_compiler(job* j, const provider* p, const tvmrt_buf* model, bool parts) {
  char *input = job_file(j, "model.onnx"), *output = job_file(j, "output.txt");
  char* result = job_file(j, parts ? "parts.txt" : "network.so");
  char* more[16] = {"onnxruntime-ep", input, "-o", result, "--quiet"};
  char *names[NUM_OPTIONS] =
      {[OPTION_DIMS] = "--dims", [OPTION_MIN_NODES] = "--min-nodes", [OPTION_TARGET] = "--target"},
       **words, *command = p->options[OPTION_COMMAND];
  size_t count = 5;
  int code = 0, rc;
  if (command == NULL) {
    tvmrt__lock(&lock);
    command = job_text(j, "%s", default_command);
    tvmrt__unlock(&lock);
  }
  if (parts) more[count++] = "--parts";
  for (size_t i = 0; i < NUM_OPTIONS; ++i) {
    if (names[i] == NULL || p->options[i] == NULL) continue;
    more[count++] = names[i];
    more[count++] = p->options[i];
  }
  words = command == NULL ? NULL : words_of(j, command, more);
  if (words == NULL || !TVM(j, tvmrt__write_file(input, model->data, model->size))) return NULL;
  rc = run(words, output, &code);
  if (rc != 0) {
    job_fail(j, ORT_EP_FAIL,
             "the command '%s' of the provider option command cannot be started (%s); install "
             "tvmrt, or load a model that has been compiled with ep.context_enable",
             command, strerror(rc));
  } else if (!WIFEXITED(code) || WEXITSTATUS(code) != 0 || !tvmrt__is_readable(result)) {
    fail_command(j, command, output);
  }
  return j->has_failed ? NULL : result;
}
