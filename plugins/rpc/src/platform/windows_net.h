/* Windows functions for tcp.c. */
#ifndef TVMRT_PLUGINS_RPC_PLATFORM_WINDOWS_NET_H_
#define TVMRT_PLUGINS_RPC_PLATFORM_WINDOWS_NET_H_

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "sdk/system.h"
#include "sdk/windows.h"
#include "sockets.h"
/* after windows.h, which must exclude its older version */
#include <winsock2.h>
#include <ws2tcpip.h>

/* The library is initialised once and stays until the process ends. */
static int start_error;

static void start_library(void) {
  WSADATA data;
  start_error = WSAStartup(MAKEWORD(2, 2), &data);
}

static inline int net_start(void) {
  static tvmrt_once once = TVMRT_ONCE_INIT;
  tvmrt__call_once(&once, start_library);
  return start_error;
}

static inline int net_error(void) { return WSAGetLastError(); }
static inline bool net_is_timeout(int error) {
  return error == WSAETIMEDOUT || error == WSAEWOULDBLOCK;
}
static inline bool net_is_disconnected(int error) {
  return error == WSAECONNRESET || error == WSAECONNABORTED;
}
static inline void net_close(int fd) { (void)closesocket((SOCKET)fd); }
static inline void net_shut_down(int fd) { (void)shutdown((SOCKET)fd, SD_BOTH); }
static inline int net_open(const struct addrinfo* a) {
  return (int)socket(a->ai_family, a->ai_socktype, a->ai_protocol);
}

static inline void net_explain(int error, tvmrt_why* why) {
  wchar_t text[sizeof(why->text)];
  size_t end;
  const DWORD count =
      FormatMessageW(FORMAT_MESSAGE_FROM_SYSTEM | FORMAT_MESSAGE_IGNORE_INSERTS, NULL, (DWORD)error,
                     0, text, (DWORD)(sizeof(why->text) / 3), NULL);
  if (count == 0 || !tvmrt__wide_to_utf8(text, why->text, sizeof(why->text))) {
    (void)snprintf(why->text, sizeof(why->text), "Windows error %d", error);
  }
  for (end = strlen(why->text); end != 0 && strchr(" .\r\n", why->text[end - 1]) != NULL; --end) {
    why->text[end - 1] = '\0';
  }
}

static inline void net_explain_name(int error, tvmrt_why* why) { net_explain(error, why); }

static inline void net_close_on_exec(int fd) {
  (void)SetHandleInformation((HANDLE)(intptr_t)fd, HANDLE_FLAG_INHERIT, 0);
}

static inline void net_set_blocking(int fd, bool blocking) {
  u_long off = blocking ? 0 : 1;
  (void)ioctlsocket((SOCKET)fd, (long)FIONBIO, &off);
}

static inline void net_set_limit(int fd, int direction, double seconds) {
  DWORD limit = seconds >= 4e6 ? 4000000000u : seconds > 0 ? (DWORD)(seconds * 1000) : 0;
  if (limit == 0 && seconds > 0) limit = 1; /* 0: no limit */
  (void)setsockopt((SOCKET)fd, SOL_SOCKET, direction, (const char*)&limit, sizeof(limit));
}

static inline int net_connect(int fd, const struct addrinfo* where, double seconds) {
  fd_set done;
  fd_set failed;
  struct timeval limit;
  int error = 0;
  int size = sizeof(error);
  int count;
  if (connect((SOCKET)fd, where->ai_addr, (int)where->ai_addrlen) == 0) return 0;
  if (net_error() != WSAEWOULDBLOCK) return net_error();
  FD_ZERO(&done);
  FD_SET((SOCKET)fd, &done);
  failed = done; /* WSAPoll() does not report failed connections before Windows 10 version 2004 */
  limit.tv_sec = tvmrt__floor_seconds(seconds);
  limit.tv_usec = tvmrt__nanoseconds(seconds) / 1000;
  count = select(0, NULL, &done, &failed, seconds <= 0 ? NULL : &limit);
  if (count == 0) return WSAETIMEDOUT;
  if (count < 0) return net_error();
  (void)getsockopt((SOCKET)fd, SOL_SOCKET, SO_ERROR, (char*)&error, &size);
  return error;
}

static inline ptrdiff_t net_send(int fd, const tvmrt_part parts[2]) {
  WSABUF rows[2];
  DWORD sent = 0;
  DWORD count = 0;
  int i;
  for (i = 0; i < 2; ++i) {
    const bool is_long = parts[i].size > INT_MAX;
    if (parts[i].size == 0) continue;
    rows[count].buf = (char*)(uintptr_t)parts[i].data;
    rows[count++].len = is_long ? INT_MAX : (ULONG)parts[i].size;
    if (is_long) break;
  }
  return WSASend((SOCKET)fd, rows, count, &sent, 0, NULL, NULL) == 0 ? (ptrdiff_t)sent : -1;
}

static inline ptrdiff_t net_receive(int fd, void* out, size_t capacity) {
  return recv((SOCKET)fd, out, capacity > INT_MAX ? INT_MAX : (int)capacity, 0);
}

#endif
