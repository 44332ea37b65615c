/* processes.h on POSIX systems.
 *
 * A process for a task is a copy of this one: fork() returns in both, and `*out` tells which one
 * this is. Only the server of remote calls starts any. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "processes.h"

/* The copy has the one thread that called: locks that others held stay taken in it, but for those
 * that tvmrt__at_fork() was told of. */
int tvmrt__process_start(const char* key, const tvmrt_task* task, tvmrt_process* out,
                         tvmrt_why* why) {
  const pid_t pid = fork();
  (void)key;
  (void)task; /* the new process has them as this one has */
  *out = 0;
  if (pid < 0) {
    (void)snprintf(why->text, sizeof(why->text), "%s", strerror(errno));
    return -1;
  }
  *out = pid;
  return 0;
}

/* A copy has its task in its variables: nobody has to find one. */
bool tvmrt__process_task(const char* key, tvmrt_task* out) {
  (void)key;
  (void)out;
  return false;
}

/* A key press that ends the server must not end its sessions with a trace: the server ends them.
 * SIGTERM ends it as it would any program: a handler that the server has is for the server. */
void tvmrt__process_begin_task(void) {
  (void)signal(SIGINT, SIG_IGN);
  (void)signal(SIGTERM, SIG_DFL);
}

/* Without functions that run at exit, which belong to the copied program. */
void tvmrt__process_leave(int status) { _exit(status); }

/* For people who read a log. */
long tvmrt__process_number(tvmrt_process process) { return (long)process; }

/* Not by a signal that it could ignore: its time is over. */
void tvmrt__process_kill(tvmrt_process process) { (void)kill((pid_t)process, SIGKILL); }

/* -1 with the signal's number for one that was ended by it. Called once a process: its number may
 * be another's afterwards. A program that ignores SIGCHLD has the system forget how its processes
 * ended; these then count as ended well. */
int tvmrt__process_wait(tvmrt_process process, tvmrt_why* why) {
  int status = 0;
  while (waitpid((pid_t)process, &status, 0) < 0 && errno == EINTR) continue;
  if (!WIFSIGNALED(status)) return WEXITSTATUS(status);
  (void)snprintf(why->text, sizeof(why->text), "signal %d", WTERMSIG(status));
  return -1;
}
