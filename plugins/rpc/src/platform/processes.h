/*
 * Processes that do a part of this one's work, each with two streams and a text from it.
 *
 * On systems with fork() (POSIX), the new process continues after tvmrt__process_start(). On
 * Windows the program is started again with its command line and gets its task from
 * tvmrt__process_task().
 */
#ifndef TVMRT_PLUGINS_RPC_PLATFORM_PROCESSES_H_
#define TVMRT_PLUGINS_RPC_PLATFORM_PROCESSES_H_

#include <stdbool.h>
#include <stdint.h>

#include "sockets.h"

typedef intptr_t tvmrt_process; /* 0: none; owned until the process has been waited for */

/* Task of a process. */
typedef struct tvmrt_task {
  int streams[2];
  char* text; /* owned, by free() */
} tvmrt_task;

/* Start a process. `key` distinguishes the tasks of a program. Return 0 with *out, which is 0 in a
 * forked copy, or -1. The caller keeps the streams as well. */
int tvmrt__process_start(const char* key, const tvmrt_task* task, tvmrt_process* out,
                         tvmrt_why* why);
/* Whether another process of this program has started this one for a task with that key. *out gets
 * the task, once. Always false on systems with fork(). */
bool tvmrt__process_task(const char* key, tvmrt_task* out);

/* In a task's process: leave Ctrl-C at a terminal to the starting process. */
void tvmrt__process_begin_task(void);
/* In a task's process: exit without the program's exit handlers. */
void tvmrt__process_leave(int status);

/* The process id. */
long tvmrt__process_number(tvmrt_process process);
void tvmrt__process_kill(tvmrt_process process);
/* Wait for the process and invalidate it; return its status, or -1 with the reason in `why`. */
int tvmrt__process_wait(tvmrt_process process, tvmrt_why* why);

#endif
