/* Transfers a thread's current stream to the other side for the duration of a call.
 *
 * Each side has its own current stream per device and thread. A call sets the caller's stream for
 * the device of its first tensor and restores the old one afterwards, also on failure. NULL is the
 * default stream, which is not transferred. */
#include "streams.h"

#include "raise.h"

/* Borrowed; NULL for a value that is not a tensor, and for a NULL tensor. */
static const DLTensor* tensor_in(const FfiAny* value) {
  if (value->type_index == kFfiTensor) return ffi_body(value->u.v_obj);
  return value->type_index == kFfiDLTensorPtr ? value->u.v_ptr : NULL;
}

/* Find the device of the first tensor outside the CPU; return whether there is one. */
static int find_device(const FfiAny* args, int count, DLDevice* out) {
  for (int i = 0; i < count; i++) {
    const DLTensor* tensor = tensor_in(&args[i]);
    if (tensor == NULL || tensor->device.device_type == kDLCPU) continue;
    *out = tensor->device;
    return 1;
  }
  return 0;
}

/* `before` is tvm-ffi's stream for the device, restored at the end of the call. */
int bridge_stream_to_ffi(BridgeStream* stream, const FfiAny* args, int count) {
  void* current;
  stream->is_changed = 0;
  if (!find_device(args, count, &stream->device)) return 0;
  current = tvmrt_current_stream((int)stream->device.device_type, stream->device.device_id);
  if (current == NULL) return 0;
  if (ffi.env_set_stream((int32_t)stream->device.device_type, stream->device.device_id, current,
                         &stream->before) != 0) {
    return bridge_catch();
  }
  stream->is_changed = 1;
  return 0;
}

/* Called on every return, also if nothing was changed. */
void bridge_stream_back_to_ffi(const BridgeStream* stream) {
  /* cannot fail: the device already has a slot */
  if (stream->is_changed) {
    (void)ffi.env_set_stream((int32_t)stream->device.device_type, stream->device.device_id,
                             stream->before, NULL);
  }
}

/* Inverse of bridge_stream_to_ffi(): sets tvm-ffi's stream on the classic side. */
int bridge_stream_to_classic(BridgeStream* stream, const FfiAny* args, int count) {
  void* current;
  stream->is_changed = 0;
  if (!find_device(args, count, &stream->device)) return 0;
  current = ffi.env_get_stream((int32_t)stream->device.device_type, stream->device.device_id);
  if (current == NULL) return 0;
  if (tvmrt_swap_stream((int)stream->device.device_type, stream->device.device_id, current,
                        &stream->before) != 0) {
    return -1;
  }
  stream->is_changed = 1;
  return 0;
}

/* Cannot fail either: the device already has a slot. */
void bridge_stream_back_to_classic(const BridgeStream* stream) {
  if (stream->is_changed) {
    (void)tvmrt_swap_stream((int)stream->device.device_type, stream->device.device_id,
                            stream->before, NULL);
  }
}
