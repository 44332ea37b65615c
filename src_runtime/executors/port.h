/* Inputs and outputs of a network: their own memory, or tensors that users bind instead. */
#ifndef TVMRT_SRC_RUNTIME_EXECUTORS_PORT_H_
#define TVMRT_SRC_RUNTIME_EXECUTORS_PORT_H_

#include <tvm/runtime/dims.h>
#include <tvm/runtime/placement.h>

#include "../core/container.h"
#include "../modules/module.h"
#include "../tensors/tensor.h"

typedef struct tvmrt_port {
  const char* name;    /* borrowed from the executor, or `own_name` */
  char* own_name;      /* if another port has the original name; else NULL */
  tvmrt_tensor* own;   /* NULL while the port uses a shared tensor */
  tvmrt_tensor* bound; /* the tensor in use, retained; may be `own` */
  /* Dynamic dimensions only: the library's description, its dimensions, and the extents that the
   * memory of `bound` is large enough for; its current shape may be smaller. Else NULL. */
  const tvmrt_dims_tensor* desc;
  const tvmrt_dims* dims;
  int64_t* capacity;
  /* Memory is planned for each run: `own` has the extents of the last value or run, and memory of
   * `own_bytes`, and is replaced if those do not suit. */
  bool grows;
  uint64_t own_bytes; /* 0: `own` is part of the graph's memory */
  bool is_taken;      /* callers may hold `own` as a result that later runs must not change */
  /* `own` of the run before, for the time when callers no longer hold it; its bytes; or NULL. */
  tvmrt_tensor* spare;
  uint64_t spare_bytes;
  /* Devices of tensors that users may bind: the executor's, or the memory of the device that alone
   * uses the port. Type 0 if the device of `bound` is the only one. */
  DLDevice home_device;
  DLDevice other_device;
} tvmrt_port;

void tvmrt__port_free(tvmrt_port* port);

/* Make names unique: ":<index of the port>" is appended if an earlier port has the name. */
int tvmrt__ports_make_names_unique(tvmrt_port* ports, size_t count);

/* Copy a tensor of equal shape and type into the port, which returns to its own memory first,
 * allocated if necessary. `kind` is "input" or "output", for messages. */
int tvmrt__port_copy_in(tvmrt_port* port, const char* kind, const DLTensor* from);

/* A network's property in its library: the pointer that the function `<network>_<name>` returns, or
 * if that is missing `name`, which describes a single network. NULL if both are missing. `network`
 * may be NULL. */
int tvmrt__network_pointer(tvmrt_module* library, const char* network, const char* name,
                           void** out);

/* Read the device memory placement of a library's tensors. *out is NULL if all lie in the host's
 * memory; else it lives as long as the library. */
int tvmrt__read_placement(tvmrt_module* library, const char* network, const tvmrt_placement** out);

/* Whether a tensor on this device can be bound. */
bool tvmrt__port_accepts_device(const tvmrt_port* port, DLDevice device);

/* Whether a tensor's extents are valid for a run. */
bool tvmrt__port_accepts(const tvmrt_port* port, const DLTensor* given);
/* Fail with an error text that states the port's and the given type. */
int tvmrt__port_type_error(const tvmrt_port* port, const char* kind, const DLTensor* given);

/* Dynamic dimensions: set the extents of the tensor in use; record the capacity of its memory. The
 * first is part of each run: few extents differ, and comparing is faster than calling memcpy. */
static inline void tvmrt__port_resize(tvmrt_port* port, const int64_t* shape) {
  int64_t* extents = port->bound->dl.shape;
  int32_t i;
  if (port->desc == NULL) return;
  for (i = 0; i < port->desc->rank; ++i) {
    if (extents[i] != shape[i]) extents[i] = shape[i];
  }
}
void tvmrt__port_record_capacity(tvmrt_port* port);

/* Whether memory of `room` bytes is too small, or far too large, for `bytes`. */
static inline bool tvmrt__is_unsuitable(uint64_t room, uint64_t bytes) {
  return bytes > room || (bytes < room && bytes <= room / 4);
}
/* Whether a caller holds the port's own tensor by tvmrt__port_take(), or will, so that a run needs
 * another. */
bool tvmrt__port_is_held(tvmrt_port* port);
/* Memory for a port that is held, owned: the spare tensor or a new one. NULL on failure. */
tvmrt_tensor* tvmrt__port_other_own(tvmrt_port* port, const int64_t* shape);
/* Use it; the present one becomes the spare. */
void tvmrt__port_exchange_own(tvmrt_port* port, tvmrt_tensor* own);

/* Use `own` as the port's own tensor, and take its reference; users keep the old one. */
void tvmrt__port_replace_own(tvmrt_port* port, tvmrt_tensor* own);

/* Use argument i instead of the port's own memory. An NDArray is retained, a view is borrowed: it
 * must outlive its use. Checks shape, type, device, strides, and the alignment in bytes. */
int tvmrt__port_bind(tvmrt_port* port, const char* kind, const tvmrt_args* in, int i,
                     uint64_t align);

/* Use a tensor that others share, without a copy; it must fit. The port's own memory is freed. */
int tvmrt__port_share(tvmrt_port* port, const char* kind, tvmrt_tensor* shared);

/* Call before users write to the tensor: copies it if it is shared. */
int tvmrt__port_unshare(tvmrt_port* port);

/* Zero the port's own memory, if it is on the host: inputs that are never set are defined. */
void tvmrt__port_clear(tvmrt_port* port);

/* (which) -> the tensor in use; (which, tensor) copies into the tensor. */
int tvmrt__port_return(const tvmrt_port* port, const tvmrt_args* in, TVMValue* out, int* out_code);

/* Return the result as a tensor that later runs do not change: the port's own, which the next run
 * does not use while a caller holds it, or a copy. */
int tvmrt__port_take(tvmrt_port* port, TVMValue* out, int* out_code);

/* Use the result of an output as the value of an input, without a copy where that is possible; the
 * next run writes the output to other memory. */
int tvmrt__port_feed_back(tvmrt_port* from, tvmrt_port* to);

/* Whether the library's network keeps state in its workspace between runs. The state is initial if
 * the workspace is zero. */
int tvmrt__library_has_state(tvmrt_module* library, const char* network, bool* out);

#endif
