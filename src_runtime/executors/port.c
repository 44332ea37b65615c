/* Inputs and outputs of a network.
 *
 * A port has one tensor in use (`bound`, retained) and optionally its own memory; executors update
 * their arguments from `bound` after each call that may change it. Nothing is locked: the caller
 * has taken the executor. On failure the port keeps its tensor. */
#include "port.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_GROWING_RANK = 8 };

/* Accepts zeroed ports, of partly built executors. */
void tvmrt__port_free(tvmrt_port* port) {
  tvmrt__tensor_release(port->own);
  tvmrt__tensor_release(port->bound);
  tvmrt__tensor_release(port->spare);
  free(port->own_name);
  free(port->capacity);
  port->capacity = NULL;
  port->own = NULL;
  port->bound = NULL;
  port->spare = NULL;
  port->own_name = NULL;
}

/* Give a port a unique name. */
static int rename_port(tvmrt_port* port, size_t number, tvmrt_strmap* taken) {
  tvmrt_buf name = {NULL, 0, 0};
  /* Derived from its original name: if "x:1" is taken too, it becomes "x:1:1". */
  int rc = tvmrt__buf_puts(&name, port->name);
  do {
    if (rc == 0) rc = tvmrt__buf_printf(&name, ":%zu", number);
  } while (rc == 0 && tvmrt__strmap_find(taken, name.data) != NULL);
  if (rc == 0 && tvmrt__strmap_insert(taken, name.data) == NULL) rc = -1;
  port->own_name = name.data;
  if (rc == 0) port->name = name.data;
  return rc;
}

/* On failure some are renamed; their names are freed with the ports. */
int tvmrt__ports_make_names_unique(tvmrt_port* ports, size_t count) {
  tvmrt_strmap taken = {NULL, 0, 0};
  size_t i;
  int rc = 0;
  /* All names are collected before ports are renamed, so that a new name does not collide with a
   * later port's. */
  for (i = 0; rc == 0 && i < count; ++i) {
    tvmrt_strmap_slot* slot = tvmrt__strmap_insert(&taken, ports[i].name);
    if (slot == NULL) rc = -1;
    if (slot != NULL && slot->value == NULL)
      slot->value = &ports[i]; /* the first port with its
                                                                       * name */
  }
  for (i = 0; rc == 0 && i < count; ++i) {
    if (tvmrt__strmap_find(&taken, ports[i].name)->value == &ports[i]) continue;
    rc = rename_port(&ports[i], i, &taken);
  }
  tvmrt__strmap_free(&taken);
  return rc;
}

/* The type must be equal; extents too, unless they are dynamic. */
static int check_fit(const tvmrt_port* port, const char* kind, const DLTensor* given) {
  const bool fits =
      tvmrt__port_accepts(port, given) && tvmrt__same_dtype(port->bound->dl.dtype, given->dtype);
  return fits ? 0 : tvmrt__port_type_error(port, kind, given);
}

/* Retained before the old one is released, which may hold the last reference to it. */
static void bind_tensor(tvmrt_port* port, tvmrt_tensor* t) {
  if (port->bound == t) return;
  tvmrt__retain(&t->base);
  tvmrt__tensor_release(port->bound);
  port->bound = t;
}

void tvmrt__port_replace_own(tvmrt_port* port, tvmrt_tensor* own) {
  tvmrt__tensor_release(port->own);
  port->own = own;
  port->is_taken = false;
  (void)tvmrt__tensor_bytes(&own->dl, &port->own_bytes); /* checked when it was allocated */
  bind_tensor(port, own);
}

static tvmrt_tensor* alloc_own(const tvmrt_port* port, const int64_t* shape) {
  const DLTensor* like = &port->bound->dl;
  return tvmrt__tensor_alloc(
      shape, like->ndim, like->dtype,
      port->other_device.device_type == 0 ? like->device : port->home_device);
}

/* Own memory is allocated on first use, as a port that shares or is bound has none. It is large
 * enough for all values, or, if it grows, for `from`. */
static int make_own(tvmrt_port* port, const DLTensor* from) {
  const DLTensor* like = &port->bound->dl;
  const int64_t* shape = port->desc == NULL ? like->shape : port->desc->max;
  uint64_t bytes = 0;
  tvmrt_tensor* own;
  if (port->grows) {
    shape = from->shape;
    TVMRT_RETURN_IF_ERROR(tvmrt__shape_bytes(shape, like->ndim, like->dtype, &bytes));
  }
  if (port->own != NULL && !(port->grows && tvmrt__is_unsuitable(port->own_bytes, bytes))) return 0;
  own = alloc_own(port, shape);
  if (own == NULL) return -1;
  tvmrt__port_replace_own(port, own);
  return 0;
}

/* `own` and `bound` are references, too. Another thread may release the last one of a caller, whose
 * reads precede the run then. */
bool tvmrt__port_is_held(tvmrt_port* port) {
  port->is_taken = port->is_taken && port->bound == port->own &&
                   (port->own_bytes == 0 ||
                    atomic_load_explicit(&port->own->base.refs, memory_order_acquire) > 2);
  return port->is_taken;
}

tvmrt_tensor* tvmrt__port_other_own(tvmrt_port* port, const int64_t* shape) {
  const DLTensor* like = &port->bound->dl;
  tvmrt_tensor* spare = port->spare;
  int64_t extents[MAX_GROWING_RANK];
  uint64_t bytes;
  if (spare == NULL || tvmrt__shape_bytes(shape, like->ndim, like->dtype, &bytes) != 0) {
    return alloc_own(port, shape);
  }
  if (atomic_load_explicit(&spare->base.refs, memory_order_acquire) == 1 &&
      !tvmrt__is_unsuitable(port->spare_bytes, bytes)) {
    tvmrt__retain(&spare->base);
    return spare;
  }
  if (bytes <= port->spare_bytes || like->ndim < 1 || like->ndim > MAX_GROWING_RANK) {
    return alloc_own(port, shape);
  }
  /* It grows from run to run, as a cache does: with half as much again, few runs allocate. The run
   * sets the extents. */
  memcpy(extents, shape, (size_t)like->ndim * sizeof(*extents));
  extents[0] += (extents[0] + 1) / 2;
  return alloc_own(port, extents);
}

void tvmrt__port_exchange_own(tvmrt_port* port, tvmrt_tensor* own) {
  tvmrt_tensor* old = port->own_bytes == 0 ? NULL : port->own; /* the graph owns its memory */
  const uint64_t old_bytes = port->own_bytes;
  const bool was_spare = own == port->spare;
  if (old != NULL) tvmrt__retain(&old->base);
  tvmrt__port_replace_own(port, own);
  if (was_spare) port->own_bytes = port->spare_bytes; /* its extents may be smaller */
  tvmrt__tensor_release(port->spare);
  port->spare = old;
  port->spare_bytes = old_bytes;
}

/* Checked before anything changes, so that an unsuitable tensor leaves the port unchanged. */
int tvmrt__port_copy_in(tvmrt_port* port, const char* kind, const DLTensor* from) {
  TVMRT_RETURN_IF_ERROR(check_fit(port, kind, from));
  TVMRT_RETURN_IF_ERROR(make_own(port, from));
  bind_tensor(port, port->own);
  /* The capacity is that of the port's own memory, whatever the previous tensor had. */
  tvmrt__port_record_capacity(port);
  tvmrt__port_resize(port, from->shape);
  return tvmrt__tensor_copy(from, &port->own->dl, NULL);
}

#define NOT_BOUND "%s '%s' cannot be bound without a copy: "
#define COPY_IT "; copy it with set_input."

/* Generated code reads contiguous rows at an aligned address in the executor's memory: other
 * tensors must be copied. */
static int check_memory(const tvmrt_port* port, const char* kind, const DLTensor* given,
                        uint64_t align) {
  const DLTensor* expected = &port->bound->dl;
  TVMRT_RETURN_IF_ERROR(check_fit(port, kind, given));
  if (!tvmrt__is_compact(given)) {
    return tvmrt__fail_value(NOT_BOUND "the tensor has strides that are not compact" COPY_IT, kind,
                             port->name);
  }
  if (!tvmrt__port_accepts_device(port, given->device)) {
    return tvmrt__fail_value("%s '%s' is on device %d:%d, the tensor on %d:%d.", kind, port->name,
                             (int)expected->device.device_type, (int)expected->device.device_id,
                             (int)given->device.device_type, (int)given->device.device_id);
  }
  if ((uintptr_t)tvmrt__tensor_data(given) % align == 0) return 0;
  return tvmrt__fail_value(NOT_BOUND "the tensor's data is not aligned to %d bytes" COPY_IT, kind,
                           port->name, (int)align);
}

/* Binding another view in each run, as for camera buffers, must not allocate. */
static bool reuse_view(tvmrt_port* port, const DLTensor* given) {
  tvmrt_tensor* old = port->bound;
  /* the port's own memory is kept, and an NDArray must not be changed */
  if (old == port->own || old->release != NULL) return false;
  /* a holder of a get_output() result must not see it change */
  if (atomic_load_explicit(&old->base.refs, memory_order_relaxed) != 1) return false;
  old->dl.data = tvmrt__tensor_data(given);
  old->dl.device = given->device;
  tvmrt__port_resize(port, given->shape);
  return true;
}

/* An NDArray is shared; a caller's view is borrowed and must outlive the runs. */
static int bind(tvmrt_port* port, const char* kind, const tvmrt_args* in, int i, uint64_t align) {
  DLTensor* given;
  tvmrt_tensor* view;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_tensor(in, i, &given));
  TVMRT_RETURN_IF_ERROR(check_memory(port, kind, given, align));
  /* Generated code expects an offset of 0; a view of the same memory has that. */
  if (in->codes[i] == kTVMNDArrayHandle && given->byte_offset == 0) {
    bind_tensor(port, tvmrt__tensor_of(given));
    return 0;
  }
  if (in->codes[i] == kTVMDLTensorHandle && reuse_view(port, given)) return 0;
  view = tvmrt__tensor_borrow(given);
  if (view == NULL) return -1;
  bind_tensor(port, view);
  /* the port has its own reference by now */
  tvmrt__tensor_release(view);
  return 0;
}

/* On failure the port keeps its tensor. */
int tvmrt__port_bind(tvmrt_port* port, const char* kind, const tvmrt_args* in, int i,
                     uint64_t align) {
  const tvmrt_tensor* before = port->bound;
  TVMRT_RETURN_IF_ERROR(bind(port, kind, in, i, align));
  /* an NDArray that is bound already has the extents of the last run, and a larger capacity */
  if (port->bound != before || in->codes[i] == kTVMDLTensorHandle)
    tvmrt__port_record_capacity(port);
  return 0;
}

/* The shared tensor is retained. It must not be written through this port, see
 * tvmrt__port_unshare(). */
int tvmrt__port_share(tvmrt_port* port, const char* kind, tvmrt_tensor* shared) {
  TVMRT_RETURN_IF_ERROR(check_fit(port, kind, &shared->dl));
  bind_tensor(port, shared);
  tvmrt__tensor_release(port->own); /* executors with shared weights need no memory for them */
  port->own = NULL;
  return 0;
}

/* Called before users write to an input: weights that several executors share are then copied. */
int tvmrt__port_unshare(tvmrt_port* port) {
  tvmrt_tensor* shared = port->bound;
  int rc;
  if (port->own != NULL || shared->release == NULL) return 0; /* own memory, or the user's */
  tvmrt__retain(&shared->base); /* the port may have the last reference */
  rc = tvmrt__port_copy_in(port, "input", &shared->dl);
  tvmrt__tensor_release(shared);
  return rc;
}

/* Returns the tensor that later runs overwrite; to keep a result, pass a tensor to copy to. */
int tvmrt__port_return(const tvmrt_port* port, const tvmrt_args* in, TVMValue* out, int* out_code) {
  DLTensor* to;
  if (in->count == 1) {
    tvmrt__retain(&port->bound->base);
    return tvmrt__ret_object(out, out_code, &port->bound->base);
  }
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_tensor(in, 1, &to));
  return TVMArrayCopyFromTo(&port->bound->dl, to, NULL);
}

/* A port of a graph has no memory of its own until the next run. Memory that is much larger than the
 * result is not given away. */
int tvmrt__port_take(tvmrt_port* port, TVMValue* out, int* out_code) {
  tvmrt_tensor* t = port->bound;
  const int64_t* most = port->desc == NULL || port->grows ? t->dl.shape : port->desc->max;
  uint64_t room;
  uint64_t bytes;
  TVMRT_RETURN_IF_ERROR(tvmrt__tensor_bytes(&t->dl, &bytes));
  TVMRT_RETURN_IF_ERROR(tvmrt__shape_bytes(most, t->dl.ndim, t->dl.dtype, &room));
  if (port->grows) room = port->own_bytes;
  if (t == port->own && !tvmrt__is_unsuitable(room, bytes)) port->is_taken = true;
  if (port->is_taken && port->own_bytes != 0) {
    tvmrt__retain(&t->base);
  } else {
    t = tvmrt__tensor_copied(&t->dl, t->dl.device);
  }
  return tvmrt__ret_object(out, out_code, t == NULL ? NULL : &t->base);
}

/* The tensor moves, if it is the port's own and both are on the same device. */
int tvmrt__port_feed_back(tvmrt_port* from, tvmrt_port* to) {
  tvmrt_tensor* t = from->bound;
  TVMRT_RETURN_IF_ERROR(check_fit(to, "input", &t->dl));
  if (t == to->bound) return 0; /* the run has updated it in place */
  from->is_taken = from->is_taken || t == from->own;
  if (t != from->own || from->own_bytes == 0 || !tvmrt__port_accepts_device(to, t->dl.device)) {
    return tvmrt__port_copy_in(to, "input", &t->dl);
  }
  bind_tensor(to, t);
  tvmrt__port_record_capacity(to);
  return 0;
}

/* Inputs that are never set are zero, so that runs without them are reproducible. */
void tvmrt__port_clear(tvmrt_port* port) {
  uint64_t bytes;
  const DLTensor* t = &port->own->dl;
  if (t->device.device_type != kDLCPU || tvmrt__tensor_bytes(t, &bytes) != 0) return;
  memset(tvmrt__tensor_data(t), 0, (size_t)bytes);
}
