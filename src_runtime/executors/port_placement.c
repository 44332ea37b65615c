/* Inputs and outputs that may lie in the memory of a device. */
#include "port.h"

/* The host's memory is where ports stand anyway: only what lies elsewhere is noted. */
static int note_places(tvmrt_port* ports, size_t count, const DLDevice* places,
                       int32_t num_places) {
  int32_t i;
  if (num_places < 0 || (size_t)num_places > count) {
    return tvmrt__fail_value("the library has places of %d tensors, the network has %zu.",
                             (int)num_places, count);
  }
  for (i = 0; i < num_places; ++i) {
    if (places[i].device_type == kDLCPU) continue;
    /* Where an executor's own memory for the port lies, which a tensor of the caller's may do as
     * well. */
    ports[i].home = ports[i].bound->dl.device;
    ports[i].elsewhere = places[i];
  }
  return 0;
}

int tvmrt__read_placement(tvmrt_module* library, const char* network, const tvmrt_placement** out) {
  void* found;
  /* A library that says nothing has everything where the executor's devices are. */
  TVMRT_RETURN_IF_ERROR(tvmrt__network_pointer(library, network, "get_placement", &found));
  *out = found;
  return 0;
}

int tvmrt__ports_place(const tvmrt_placement* placement, tvmrt_port* inputs, size_t num_inputs,
                       tvmrt_port* outputs, size_t num_outputs) {
  if (placement == NULL) return 0;
  TVMRT_RETURN_IF_ERROR(note_places(inputs, num_inputs, placement->inputs, placement->num_inputs));
  return note_places(outputs, num_outputs, placement->outputs, placement->num_outputs);
}

static bool is_same(DLDevice a, DLDevice b) {
  return a.device_type == b.device_type && a.device_id == b.device_id;
}

bool tvmrt__port_may_lie(const tvmrt_port* port, DLDevice device) {
  /* Nothing was noted: where the tensor in use lies is where others may. */
  if (port->elsewhere.device_type == 0) return is_same(device, port->bound->dl.device);
  return is_same(device, port->home) || is_same(device, port->elsewhere);
}
