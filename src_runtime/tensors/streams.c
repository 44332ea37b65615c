/* The current stream of each device, per thread.
 *
 * Each thread has a short list; devices without an entry use their default stream, NULL. The caller
 * owns the streams and unsets one before freeing it. */
#include <tvm/runtime/c_runtime_api.h>

#include "../base/error.h"
#include "memory_device.h"

/* Maximum number of devices with a non-default stream; the list is searched linearly. */
enum { MAX_STREAMS = 16 };

static _Thread_local struct {
  int type, id;
  TVMStreamHandle stream; /* never NULL: devices without an entry have their default stream */
} streams[MAX_STREAMS];
static _Thread_local int count;

/* Index of a device's entry, or `count`. */
static int find(int device_type, int device_id) {
  int i = 0;
  while (i < count && (streams[i].type != device_type || streams[i].id != device_id)) ++i;
  return i;
}

/* For functions of other libraries, which have no stream argument. */
TVMStreamHandle tvmrt_current_stream(int device_type, int device_id) {
  const int i = find(device_type, device_id);
  return i < count ? streams[i].stream : NULL;
}

/* `old` may be NULL. On failure nothing changes. */
int tvmrt_swap_stream(int device_type, int device_id, TVMStreamHandle stream,
                      TVMStreamHandle* old) {
  const int i = find(device_type, device_id);
  if (old != NULL) *old = i < count ? streams[i].stream : NULL;
  if (stream == NULL) {
    /* replaced by the last one: the order is irrelevant */
    if (i < count) streams[i] = streams[--count];
    return 0;
  }
  if (i == MAX_STREAMS) {
    return tvmrt__fail("a thread can set the streams of at most %d devices.", MAX_STREAMS);
  }
  if (i == count) ++count;
  streams[i].type = device_type;
  streams[i].id = device_id;
  streams[i].stream = stream;
  return 0;
}

/* Copies and regions receive their stream as an argument; functions of other libraries read this
 * one. */
int TVMSetStream(int device_type, int device_id, TVMStreamHandle stream) {
  if (tvmrt__memory_device(device_type) == NULL) return -1;
  return tvmrt_swap_stream(device_type, device_id, stream, NULL);
}
