/*
 * Processes that do a part of this one's work, each with two streams and a text from it.
 *
 * Where the system can split a process (POSIX), the new one goes on behind tvmrt__process_start().
 * Elsewhere (Windows) the program is started again with its command line, and finds by
 * tvmrt__process_task() what it is there for.
 */
#ifndef TVMRT_PLUGINS_RPC_PLATFORM_PROCESSES_H_
#define TVMRT_PLUGINS_RPC_PLATFORM_PROCESSES_H_

#include <stdbool.h>
#include <stdint.h>

#include "sockets.h"

typedef intptr_t tvmrt_process; /* 0: none; owned, until it was waited for */

/* What a process is there for. */
typedef struct tvmrt_task {
  int streams[2];
  char* text; /* owned, by free() */
} tvmrt_task;

/* `key` names the task among others of a program. 0 with *out, which is 0 in a process that was split
 * off; or -1. The streams stay the caller's as well. */
int tvmrt__process_start(const char* key, const tvmrt_task* task, tvmrt_process* out,
                         tvmrt_why* why);
/* Whether another process of this program has started this one for a task of that key: then *out has
 * it, once. Never on systems that split. */
bool tvmrt__process_task(const char* key, tvmrt_task* out);

/* In the process of a task: Ctrl-C at a terminal is for the process that started it. */
void tvmrt__process_begin_task(void);
/* In the process of a task: end, without what the program does at its end. */
void tvmrt__process_leave(int status);

/* The number that the system shows. */
long tvmrt__process_number(tvmrt_process process);
void tvmrt__process_kill(tvmrt_process process);
/* Wait for its end: its status, or -1 with what ended it in `why`. It is none after that. */
int tvmrt__process_wait(tvmrt_process process, tvmrt_why* why);

#endif
