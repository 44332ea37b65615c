/* Implementation of processes.h on Windows. A task is sent through a pipe whose handle is in the
 * environment. Sockets are duplicated, since not all of them can be inherited. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "processes.h"
#include "sdk/windows.h"
/* after windows.h, which must exclude its older version */
#include <winsock2.h>

static const wchar_t variable[] = L"TVMRT_TASK";
enum { PIPE_BYTES = 16384 }; /* more than any task needs, so writing does not block */
/* Exit status of processes killed by us, and the lowest status of a system exception. */
static const DWORD killed = 0xE0545652u;
static const DWORD first_exception = 0xC0000000u;

/* Call first: other calls change the system's last error. */
static void explain(tvmrt_why* why, const char* what) {
  (void)snprintf(why->text, sizeof(why->text), "%s: Windows error %lu", what, GetLastError());
}

/* Header of a task: the streams in the form for the other process. */
typedef struct head {
  WSAPROTOCOL_INFOW streams[2];
} head;

/* "KEY HANDLE", allocated with malloc(). An inherited handle has an equal value in the new process.
 * Keys are short; a truncated key would only match nothing. */
static wchar_t* write_variable(const char* key, HANDLE from) {
  char text[160];
  (void)snprintf(text, sizeof(text), "%.100s %lld", key, (long long)(intptr_t)from);
  return tvmrt__utf8_to_wide(text);
}

/* Start the program again from its own file, which may differ from its command line's first
 * word. */
static HANDLE start_again(void) {
  STARTUPINFOW startup;
  PROCESS_INFORMATION info;
  wchar_t file[MAX_PATH];
  const DWORD size = GetModuleFileNameW(NULL, file, MAX_PATH);
  wchar_t* command = _wcsdup(GetCommandLineW()); /* the call writes to it */
  bool done = false;
  memset(&startup, 0, sizeof(startup));
  startup.cb = sizeof(startup);
  if (command != NULL && size != 0 && size < MAX_PATH) {
    /* TRUE: inherit handles; only the pipe's end is inheritable */
    done = CreateProcessW(file, command, NULL, NULL, TRUE, 0, NULL, NULL, &startup, &info);
  }
  free(command);
  if (!done) return NULL;
  (void)CloseHandle(info.hThread);
  return info.hProcess;
}

/* Start the program again with the pipe's handle in its environment. This process sets the variable
 * only for that moment. */
static HANDLE start_reader(const char* key, HANDLE from) {
  wchar_t* value = write_variable(key, from);
  HANDLE process = NULL;
  if (value != NULL && SetEnvironmentVariableW(variable, value)) {
    process = start_again();
    (void)SetEnvironmentVariableW(variable, NULL);
  }
  free(value);
  return process;
}

/* Send both streams, duplicated for the process, and the text. */
static bool send_task(HANDLE to, HANDLE process, const tvmrt_task* task) {
  const DWORD bytes = (DWORD)strlen(task->text);
  head first;
  DWORD done = 0;
  int i;
  for (i = 0; i < 2; ++i) {
    /* duplicate the socket for that process; this one keeps its own, as after fork() */
    const SOCKET stream = (SOCKET)task->streams[i];
    if (WSADuplicateSocketW(stream, GetProcessId(process), &first.streams[i]) != 0) return false;
  }
  return WriteFile(to, &first, (DWORD)sizeof(first), &done, NULL) && done == sizeof(first) &&
         WriteFile(to, task->text, bytes, &done, NULL) && done == bytes;
}

/* The pipe's buffer holds the whole task, so writing does not wait for the other process. */
int tvmrt__process_start(const char* key, const tvmrt_task* task, tvmrt_process* out,
                         tvmrt_why* why) {
  SECURITY_ATTRIBUTES inherited = {sizeof(inherited), NULL, TRUE};
  HANDLE ends[2];
  HANDLE process;
  *out = 0;
  if (!CreatePipe(&ends[0], &ends[1], &inherited, PIPE_BYTES)) {
    explain(why, "a pipe");
    return -1;
  }
  (void)SetHandleInformation(ends[1], HANDLE_FLAG_INHERIT, 0);
  process = start_reader(key, ends[0]);
  if (process == NULL) {
    explain(why, "the program cannot be started again");
  } else if (!send_task(ends[1], process, task)) {
    explain(why, "its connection cannot be handed on");
    (void)TerminateProcess(process, killed);
    (void)CloseHandle(process);
    process = NULL;
  }
  (void)CloseHandle(ends[0]);
  (void)CloseHandle(ends[1]);
  *out = (tvmrt_process)process;
  return process == NULL ? -1 : 0;
}

/* Return the handle to read the task from; NULL: no task with this key. A program may have several
 * kinds of tasks, so the key is compared. */
static HANDLE find_task(const char* key) {
  wchar_t wide[160];
  char text[480];
  const size_t size = strlen(key);
  const DWORD length = GetEnvironmentVariableW(variable, wide, sizeof(wide) / sizeof(wide[0]));
  if (length == 0 || length >= sizeof(wide) / sizeof(wide[0])) return NULL;
  if (!tvmrt__wide_to_utf8(wide, text, sizeof(text))) return NULL;
  if (strncmp(text, key, size) != 0 || text[size] != ' ') return NULL;
  (void)SetEnvironmentVariableW(variable, NULL); /* not inherited by child processes */
  return (HANDLE)(intptr_t)strtoll(text + size + 1, NULL, 10);
}

/* Read the whole pipe, NUL-terminated, into malloc() memory; NULL if there is none. */
static char* read_all(HANDLE from, size_t* out_size) {
  char* all = malloc(PIPE_BYTES + 1);
  size_t size = 0;
  DWORD length = 0;
  if (all == NULL) return NULL;
  while (size < PIPE_BYTES &&
         ReadFile(from, all + size, (DWORD)(PIPE_BYTES - size), &length, NULL) && length != 0) {
    size += length;
  }
  all[size] = '\0';
  *out_size = size;
  return all;
}

/* Unpack the task; return whether it is complete. The text is moved to the front of its block, so
 * that free() of the text frees the block. The sockets are not inherited further. */
static bool take_task(char* all, size_t size, tvmrt_task* out) {
  head first;
  WSADATA data;
  int i;
  if (size < sizeof(first) || WSAStartup(MAKEWORD(2, 2), &data) != 0) return false;
  memcpy(&first, all, sizeof(first));
  memmove(all, all + sizeof(first), size - sizeof(first) + 1);
  for (i = 0; i < 2; ++i) {
    out->streams[i] = (int)WSASocketW(FROM_PROTOCOL_INFO, FROM_PROTOCOL_INFO, FROM_PROTOCOL_INFO,
                                      &first.streams[i], 0, WSA_FLAG_OVERLAPPED);
    if (out->streams[i] < 0) return false;
    (void)SetHandleInformation((HANDLE)(intptr_t)out->streams[i], HANDLE_FLAG_INHERIT, 0);
  }
  out->text = all;
  return true;
}

/* Exits if the process has a task that cannot be read. */
bool tvmrt__process_task(const char* key, tvmrt_task* out) {
  HANDLE from = find_task(key);
  char* all;
  size_t size = 0;
  bool done;
  if (from == NULL) return false;
  all = read_all(from, &size);
  (void)CloseHandle(from);
  done = all != NULL && take_task(all, size, out);
  /* a process started for a task is useless without it */
  if (!done) tvmrt__process_leave(1);
  /* a crash ends the process without a dialog */
  (void)SetErrorMode(SEM_FAILCRITICALERRORS | SEM_NOGPFAULTERRORBOX | SEM_NOOPENFILEERRORBOX);
  return true;
}

/* Ctrl-C reaches all processes of the console, so this one ignores it. */
void tvmrt__process_begin_task(void) { (void)SetConsoleCtrlHandler(NULL, TRUE); }

/* Skips exit handlers, but flushes output. */
void tvmrt__process_leave(int status) {
  (void)fflush(NULL);
  (void)TerminateProcess(GetCurrentProcess(), (UINT)status);
}

long tvmrt__process_number(tvmrt_process process) { return (long)GetProcessId((HANDLE)process); }

/* The status differs from those of crashes, which are checked below. */
void tvmrt__process_kill(tvmrt_process process) { (void)TerminateProcess((HANDLE)process, killed); }

/* Closes the handle. Crashes have status values above those of normal exits. */
int tvmrt__process_wait(tvmrt_process process, tvmrt_why* why) {
  DWORD status = 1;
  (void)WaitForSingleObject((HANDLE)process, INFINITE);
  (void)GetExitCodeProcess((HANDLE)process, &status);
  (void)CloseHandle((HANDLE)process);
  if (status < first_exception) return (int)status;
  if (status == killed) {
    (void)snprintf(why->text, sizeof(why->text), "its server");
  } else {
    (void)snprintf(why->text, sizeof(why->text), "exception %#lx", status);
  }
  return -1;
}
