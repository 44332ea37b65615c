/* Which stream of a device a thread uses.
 *
 * A short list of each thread; devices that were never set have their default stream, NULL. Streams
 * are the caller's, who unsets one before he frees it. */
#include <tvm/runtime/c_runtime_api.h>

#include "../base/error.h"
#include "memory_device.h"

/* Of devices that have another stream than their default; it bounds a list that is searched from
 * the front. */
enum { MAX_STREAMS = 16 };

static _Thread_local struct {
  int type, id;
  TVMStreamHandle stream; /* never NULL: a device that is not here has its default stream */
} streams[MAX_STREAMS];
static _Thread_local int count;

/* Where a device is, or would be. */
static int find(int device_type, int device_id) {
  int i = 0;
  while (i < count && (streams[i].type != device_type || streams[i].id != device_id)) ++i;
  return i;
}

/* What functions of other libraries ask for, which have no argument for it. */
TVMStreamHandle tvmrt_current_stream(int device_type, int device_id) {
  const int i = find(device_type, device_id);
  return i < count ? streams[i].stream : NULL;
}

/* `old` may be NULL. Without room nothing changes. */
int tvmrt_swap_stream(int device_type, int device_id, TVMStreamHandle stream,
                      TVMStreamHandle* old) {
  const int i = find(device_type, device_id);
  if (old != NULL) *old = i < count ? streams[i].stream : NULL;
  if (stream == NULL) {
    /* the last one takes its place: the order means nothing */
    if (i < count) streams[i] = streams[--count];
    return 0;
  }
  if (i == MAX_STREAMS) {
    return tvmrt__fail("a thread has streams of %d devices at most.", MAX_STREAMS);
  }
  if (i == count) ++count;
  streams[i].type = device_type;
  streams[i].id = device_id;
  streams[i].stream = stream;
  return 0;
}

/* Copies and regions get their stream as an argument; functions of other libraries ask for this one. */
int TVMSetStream(int device_type, int device_id, TVMStreamHandle stream) {
  if (tvmrt__memory_device(device_type) == NULL) return -1;
  return tvmrt_swap_stream(device_type, device_id, stream, NULL);
}
