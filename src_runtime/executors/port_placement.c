/* Inputs and outputs that may lie in the memory of a device. */
#include "executor.h"

/* The host's memory is the default: only other devices are recorded. */
static int note_places(const tvmrt_ports* side, const DLDevice* places, int32_t num_places) {
  int32_t i;
  if (num_places < 0 || (size_t)num_places > side->count) {
    return tvmrt__fail_value("the library has places of %d tensors, the network has %zu.",
                             (int)num_places, side->count);
  }
  for (i = 0; i < num_places; ++i) {
    if (places[i].device_type == kDLCPU) continue;
    /* Device of the executor's own memory for the port, which a caller's tensor may also use. */
    side->items[i].home = side->items[i].bound->dl.device;
    side->items[i].elsewhere = places[i];
  }
  return 0;
}

int tvmrt__read_placement(tvmrt_module* library, const char* network, const tvmrt_placement** out) {
  void* found;
  /* A library without this function has all tensors on the executor's devices. */
  TVMRT_RETURN_IF_ERROR(tvmrt__network_pointer(library, network, "get_placement", &found));
  *out = found;
  return 0;
}

int tvmrt__executor_place(tvmrt_executor* e, const tvmrt_placement* placement) {
  if (placement == NULL) return 0;
  TVMRT_RETURN_IF_ERROR(note_places(&e->inputs, placement->inputs, placement->num_inputs));
  return note_places(&e->outputs, placement->outputs, placement->num_outputs);
}

static bool is_same(DLDevice a, DLDevice b) {
  return a.device_type == b.device_type && a.device_id == b.device_id;
}

bool tvmrt__port_may_lie(const tvmrt_port* port, DLDevice device) {
  /* Nothing was recorded: tensors must be on the device of the tensor in use. */
  if (port->elsewhere.device_type == 0) return is_same(device, port->bound->dl.device);
  return is_same(device, port->home) || is_same(device, port->elsewhere);
}
