/* Inputs and outputs that may lie in the memory of a device. */
#include "executor.h"

/* The host's memory is the default: only other devices are recorded. */
static int set_port_devices(const tvmrt_ports* side, const DLDevice* devices, int32_t num_devices) {
  int32_t i;
  TVMRT_RETURN_IF_ERROR(tvmrt__check_described(side, "devices", num_devices));
  for (i = 0; i < num_devices; ++i) {
    if (devices[i].device_type == kDLCPU) continue;
    /* Device of the executor's own memory for the port, which a caller's tensor may also use. */
    side->items[i].home_device = side->items[i].bound->dl.device;
    side->items[i].other_device = devices[i];
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

int tvmrt__executor_set_placement(tvmrt_executor* e, const tvmrt_placement* placement) {
  if (placement == NULL) return 0;
  TVMRT_RETURN_IF_ERROR(set_port_devices(&e->inputs, placement->inputs, placement->num_inputs));
  return set_port_devices(&e->outputs, placement->outputs, placement->num_outputs);
}

static bool same_device(DLDevice a, DLDevice b) {
  return a.device_type == b.device_type && a.device_id == b.device_id;
}

bool tvmrt__port_accepts_device(const tvmrt_port* port, DLDevice device) {
  /* Nothing was recorded: tensors must be on the device of the tensor in use. */
  if (port->other_device.device_type == 0) return same_device(device, port->bound->dl.device);
  return same_device(device, port->home_device) || same_device(device, port->other_device);
}
