/* Implementation of processes.h on POSIX systems.
 *
 * A task's process is a copy of this one: fork() returns in both, and `*out` identifies the copy.
 * Only the server of remote calls starts such processes. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "processes.h"

/* The copy has only the calling thread: locks held by other threads stay locked in it, except those
 * registered with tvmrt__at_fork(). */
int tvmrt__process_start(const char* key, const tvmrt_task* task, tvmrt_process* out,
                         tvmrt_why* why) {
  const pid_t pid = fork();
  (void)key;
  (void)task; /* the new process inherits them */
  *out = 0;
  if (pid < 0) {
    (void)snprintf(why->text, sizeof(why->text), "%s", strerror(errno));
    return -1;
  }
  *out = pid;
  return 0;
}

/* A forked copy has its task in its variables, so there is nothing to find. */
bool tvmrt__process_task(const char* key, tvmrt_task* out) {
  (void)key;
  (void)out;
  return false;
}

/* Ctrl-C must not end the sessions with a stack trace: the server ends them. SIGTERM gets its
 * default action, since the server's handler must not run here. */
void tvmrt__process_begin_task(void) {
  (void)signal(SIGINT, SIG_IGN);
  (void)signal(SIGTERM, SIG_DFL);
}

/* Skips exit handlers, which belong to the copied program. */
void tvmrt__process_leave(int status) { _exit(status); }

/* For log messages. */
long tvmrt__process_number(tvmrt_process process) { return (long)process; }

/* SIGKILL cannot be ignored. */
void tvmrt__process_kill(tvmrt_process process) { (void)kill((pid_t)process, SIGKILL); }

/* Return -1 with the signal's number if a signal ended the process. Call once per process, since
 * its id may be reused. In a program that ignores SIGCHLD the exit status is lost, and the process
 * counts as successful. */
int tvmrt__process_wait(tvmrt_process process, tvmrt_why* why) {
  int status = 0;
  while (waitpid((pid_t)process, &status, 0) < 0 && errno == EINTR) continue;
  if (!WIFSIGNALED(status)) return WEXITSTATUS(status);
  (void)snprintf(why->text, sizeof(why->text), "signal %d", WTERMSIG(status));
  return -1;
}
