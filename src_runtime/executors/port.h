/* Inputs and outputs of a network: memory of its own, or tensors that users bind in its place. */
#ifndef TVMRT_SRC_RUNTIME_EXECUTORS_PORT_H_
#define TVMRT_SRC_RUNTIME_EXECUTORS_PORT_H_

#include <tvm/runtime/dims.h>
#include <tvm/runtime/placement.h>

#include "../core/container.h"
#include "../modules/module.h"
#include "../tensors/tensor.h"

typedef struct tvmrt_port {
  const char* name;    /* borrowed from the executor, or `own_name` */
  char* own_name;      /* where another port has the name that it should have; else NULL */
  tvmrt_tensor* own;   /* NULL while the port stands on a tensor that others share */
  tvmrt_tensor* bound; /* the tensor in use, retained; may be `own` */
  /* Where runs choose extents: the library's word on them and on its dimensions, and those that the memory of `bound` is
   * for, which its shape may go below. Else NULL. */
  const tvmrt_dims_tensor* about;
  const tvmrt_dims* dims;
  int64_t* room;
  /* Where tensors that users bind may lie: at home, or in the memory of the device that alone uses the
   * port. Of type 0 where `bound` tells. */
  DLDevice home;
  DLDevice elsewhere;
} tvmrt_port;

void tvmrt__port_free(tvmrt_port* port);

/* Let each name mean one port: where an earlier one has it, ":<number of the port>" is appended. */
int tvmrt__ports_distinguish(tvmrt_port* ports, size_t count);

/* Copy a tensor of the same shape and type in; the port goes back to its own memory first, which is
 * made if there is none yet. `kind` is "input" or "output", for messages. */
int tvmrt__port_copy_in(tvmrt_port* port, const char* kind, const DLTensor* from);

/* What a library says of a network: the pointer that its function `<network>_<name>` returns, or where
 * there is none the one that `name` returns, which speaks for one network alone. NULL where it has
 * neither. `network` is NULL where nobody has told it. */
int tvmrt__network_pointer(tvmrt_module* library, const char* network, const char* name,
                           void** out);

/* Ask a library in which memory of devices its tensors may lie. *out is NULL where all lie in the
 * host's; else it lives as long as the library. */
int tvmrt__read_placement(tvmrt_module* library, const char* network, const tvmrt_placement** out);

/* Whether a tensor there can be bound. */
bool tvmrt__port_may_lie(const tvmrt_port* port, DLDevice device);

/* Whether a tensor's extents are among those of a run. */
bool tvmrt__port_admits(const tvmrt_port* port, const DLTensor* given);
/* Fails with what the port is, and what was given. */
int tvmrt__port_fail_fit(const tvmrt_port* port, const char* kind, const DLTensor* given);

/* Where runs choose extents: give the tensor in use these; note what its memory is for. The first is part
 * of each run: extents that differ are few, and a call of memcpy takes longer than to compare them. */
static inline void tvmrt__port_resize(tvmrt_port* port, const int64_t* shape) {
  int64_t* extents = port->bound->dl.shape;
  int32_t i;
  if (port->about == NULL) return;
  for (i = 0; i < port->about->rank; ++i) {
    if (extents[i] != shape[i]) extents[i] = shape[i];
  }
}
void tvmrt__port_note_room(tvmrt_port* port);

/* Use argument i in place of the port's own memory. An NDArray is retained, a view is borrowed: it
 * must outlive its use. Checks shape, type, device, alignment and strides. */
int tvmrt__port_bind(tvmrt_port* port, const char* kind, const tvmrt_args* in, int i);

/* Stand on a tensor that others hold too, without a copy; it must fit. The port's own memory goes. */
int tvmrt__port_share(tvmrt_port* port, const char* kind, tvmrt_tensor* shared);

/* Before users get the tensor to write to: copy it if others hold it as well. */
int tvmrt__port_unshare(tvmrt_port* port);

/* Zero the port's own memory, if it is the host's: an input that nobody sets has a known value. */
void tvmrt__port_clear(tvmrt_port* port);

/* (which) -> the tensor in use; (which, tensor) copies into the tensor. */
int tvmrt__port_give(const tvmrt_port* port, const tvmrt_args* in, TVMValue* out, int* out_code);

/* Whether the library's network leaves tensors in its workspace for the next run. These are begun anew
 * where the workspace is zero. */
int tvmrt__library_has_state(tvmrt_module* library, const char* network, bool* out);

#endif
