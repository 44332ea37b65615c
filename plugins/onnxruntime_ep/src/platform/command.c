#include "../command.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "posix.h"

enum { MAX_WORDS = 32, ERROR_BYTES = 2048 };
extern char** environ;

static mutex lock = MUTEX_INIT;
static char command_of_host[4096]; /* empty: none */

EXPORT int tvmrt_onnxruntime_ep_set_command(const char* command) {
  const size_t size = command == NULL ? 0 : strlen(command);
  if (size >= sizeof(command_of_host)) return -1;
  mutex_lock(&lock);
  memcpy(command_of_host, command == NULL ? "" : command, size + 1);
  mutex_unlock(&lock);
  return 0;
}

char* new_default_command(void) {
  char* copy;
  mutex_lock(&lock);
  copy = strdup(command_of_host[0] != '\0' ? command_of_host : "tvmrt");
  mutex_unlock(&lock);
  return copy;
}

/* Files in the temporary folder of one call. */
typedef struct folder {
  char *path, *model, *result, *errors;
} folder;

static void folder_free(folder* of) {
  char* files[] = {of->model, of->result, of->errors};
  for (size_t i = 0; i < 3; ++i) {
    if (files[i] != NULL) (void)unlink(files[i]);
    free(files[i]);
  }
  if (of->path != NULL) (void)rmdir(of->path);
  free(of->path);
  *of = (folder){NULL, NULL, NULL, NULL};
}

static ort_status* folder_new(const ort_functions* ort, const char* result, folder* out) {
  char* path = text_new("%s/tvmrt-ep-XXXXXX", temporary_folder());
  *out = (folder){NULL, NULL, NULL, NULL};
  if (path == NULL) return fail_memory(ort);
  if (mkdtemp(path) == NULL) {
    ort_status* status = fail(ort, ORT_FAIL,
                              "tvmrt: no temporary folder can be made as %s (%s); set TMPDIR to a "
                              "folder that can be written",
                              path, strerror(errno));
    free(path);
    return status;
  }
  out->path = path;
  out->model = text_new("%s/model.onnx", path);
  out->result = text_new("%s/%s", path, result);
  out->errors = text_new("%s/errors.txt", path);
  if (out->model != NULL && out->result != NULL && out->errors != NULL) return NULL;
  folder_free(out);
  return fail_memory(ort);
}

static size_t split(char* text, char** words, size_t most) {
  const char* separator = strchr(text, '\n') != NULL ? "\n" : " ";
  char *rest = NULL, *word = strtok_r(text, separator, &rest);
  size_t count = 0;
  for (; word != NULL && count < most; word = strtok_r(NULL, separator, &rest)) {
    words[count++] = word;
  }
  return count;
}

/* 0, or an error number; *code is the exit status. */
static int run(char* const* words, const char* errors, int* code) {
  posix_spawn_file_actions_t actions;
  pid_t process;
  int rc = posix_spawn_file_actions_init(&actions);
  if (rc != 0) return rc;
  rc = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  if (rc == 0) {
    rc = posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, errors,
                                          O_WRONLY | O_CREAT | O_TRUNC, 0600);
  }
  if (rc == 0) rc = posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  if (rc == 0) rc = posix_spawnp(&process, words[0], &actions, NULL, words, environ);
  (void)posix_spawn_file_actions_destroy(&actions);
  if (rc != 0) return rc;
  while (waitpid(process, code, 0) < 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

static ort_status* run_in(const ort_functions* ort, const compiler* with, const folder* in,
                          bool parts, bytes* result) {
  char *words[MAX_WORDS + 12], *text = strdup(with->command);
  size_t count;
  int code = 0, rc;
  if (text == NULL) return fail_memory(ort);
  count = split(text, words, MAX_WORDS);
  words[count++] = "onnxruntime-ep";
  words[count++] = in->model;
  words[count++] = "-o";
  words[count++] = in->result;
  if (parts) words[count++] = "--parts";
  if (with->dims != NULL) words[count++] = "--dims", words[count++] = with->dims;
  if (with->min_nodes != NULL) words[count++] = "--min-nodes", words[count++] = with->min_nodes;
  if (with->target != NULL) words[count++] = "--target", words[count++] = with->target;
  words[count] = NULL;
  rc = run(words, in->errors, &code);
  free(text);
  if (rc != 0) {
    return fail(ort, ORT_EP_FAIL,
                "tvmrt: the command '%s' of the provider option command cannot be started (%s); "
                "install tvmrt, or load a model that has been compiled with ep.context_enable",
                with->command, strerror(rc));
  }
  if (!WIFEXITED(code) || WEXITSTATUS(code) != 0) {
    static const char prefix[] = "tvmrt: error: ";
    bytes said = {NULL, 0, 0, false};
    const char* text_of = "";
    ort_status* status;
    (void)read_tail(in->errors, ERROR_BYTES, &said);
    while (said.size > 0 && (said.data[said.size - 1] == '\n')) --said.size;
    bytes_add(&said, "", 1);
    if (!said.failed && said.data != NULL) text_of = said.data;
    if (strncmp(text_of, prefix, sizeof(prefix) - 1) == 0) text_of += sizeof(prefix) - 1;
    if (text_of[0] != '\0') {
      status = fail(ort, ORT_EP_FAIL, "tvmrt: %s", text_of);
    } else {
      status = fail(ort, ORT_EP_FAIL,
                    "tvmrt: the command '%s' ended without a message; run it in a terminal",
                    with->command);
    }
    bytes_free(&said);
    return status;
  }
  if (read_tail(in->result, SIZE_MAX / 2, result) == 0) return NULL;
  return fail(ort, ORT_EP_FAIL, "tvmrt: the command '%s' wrote no result; check its version",
              with->command);
}

ort_status* run_compiler(const ort_functions* ort, const compiler* with, const bytes* model,
                         bool parts, bytes* result) {
  folder in;
  ort_status* status;
  ORT_TRY(folder_new(ort, parts ? "parts.txt" : "network.so", &in));
  if (in.path == NULL) return fail_memory(ort); /* there was no memory for a status either */
  status = write_file(ort, in.model, model->data, model->size);
  if (status == NULL) status = run_in(ort, with, &in, parts, result);
  folder_free(&in);
  return status;
}
