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
static inline int net_accept(int fd) { return (int)accept((SOCKET)fd, NULL, NULL); }

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

/* Windows frees a port at once, but would otherwise let others bind it during use. */
static inline void net_prepare_listener(int fd) {
  const BOOL on = TRUE;
  (void)setsockopt((SOCKET)fd, SOL_SOCKET, SO_EXCLUSIVEADDRUSE, (const char*)&on, sizeof(on));
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

/* Whether the accepted connection comes from the other end rather than from another program. */
static inline bool is_other_end(int accepted, int connected) {
  struct sockaddr_in there;
  struct sockaddr_in bound;
  int sizes[2] = {sizeof(there), sizeof(bound)};
  return getpeername((SOCKET)accepted, (struct sockaddr*)&there, &sizes[0]) == 0 &&
         getsockname((SOCKET)connected, (struct sockaddr*)&bound, &sizes[1]) == 0 &&
         there.sin_port == bound.sin_port;
}

/* Windows has no socketpair(): one end listens for the other. */
static inline int net_pair(int out[2]) {
  struct sockaddr_in name;
  int size = sizeof(name);
  const int listener = (int)socket(AF_INET, SOCK_STREAM, IPPROTO_TCP);
  int error = 0;
  out[0] = -1;
  out[1] = (int)socket(AF_INET, SOCK_STREAM, IPPROTO_TCP);
  memset(&name, 0, sizeof(name));
  name.sin_family = AF_INET;
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (listener >= 0 && out[1] >= 0 &&
      bind((SOCKET)listener, (struct sockaddr*)&name, sizeof(name)) == 0 &&
      listen((SOCKET)listener, 1) == 0 &&
      getsockname((SOCKET)listener, (struct sockaddr*)&name, &size) == 0 &&
      connect((SOCKET)out[1], (struct sockaddr*)&name, sizeof(name)) == 0) {
    out[0] = net_accept(listener);
  }
  if (out[0] < 0) error = net_error();
  if (out[0] >= 0 && !is_other_end(out[0], out[1])) error = WSAECONNREFUSED;
  if (listener >= 0) net_close(listener);
  if (error == 0) return 0;
  if (out[0] >= 0) net_close(out[0]);
  if (out[1] >= 0) net_close(out[1]);
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

static inline int net_wait(tvmrt_stream_event* events, size_t count, int milliseconds) {
  WSAPOLLFD rows[TVMRT_STREAMS_MAX];
  size_t of[TVMRT_STREAMS_MAX];
  ULONG used = 0;
  ULONG i;
  size_t k;
  for (k = 0; k < count; ++k) {
    events[k].ready = false;
    if (events[k].fd < 0) continue;
    of[used] = k;
    rows[used].fd = (SOCKET)events[k].fd;
    rows[used].events = POLLRDNORM;
    rows[used++].revents = 0;
  }
  if (WSAPoll(rows, used, milliseconds) < 0) return net_error();
  for (i = 0; i < used; ++i) events[of[i]].ready = rows[i].revents != 0;
  return 0;
}

#endif
