/* The stream that a thread uses, on the other side for the time of a call.
 *
 * Each side keeps a stream per device and thread of its own. A call takes the caller's over for the
 * device of its first tensor and puts the old one back afterwards, also after a failure. NULL is
 * the default stream and nothing to hand over. */
#include "streams.h"

#include "raise.h"

/* Borrowed; NULL for a value that is no tensor, and for the NULL of one. */
static const DLTensor* tensor_in(const FfiAny* value) {
  if (value->type_index == kFfiTensor) return ffi_body(value->u.v_obj);
  return value->type_index == kFfiDLTensorPtr ? value->u.v_ptr : NULL;
}

/* The device of the first tensor that is not the CPU's; whether there is one. */
static int find_device(const FfiAny* args, int count, DLDevice* out) {
  for (int i = 0; i < count; i++) {
    const DLTensor* tensor = tensor_in(&args[i]);
    if (tensor == NULL || tensor->device.device_type == kDLCPU) continue;
    *out = tensor->device;
    return 1;
  }
  return 0;
}

/* `before` is what the other side had for the device, which the call's end puts back. */
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

/* Called on every way out of a call, also where nothing was changed. */
void bridge_stream_back_to_ffi(const BridgeStream* stream) {
  /* cannot fail: the device has its place */
  if (stream->is_changed) {
    (void)ffi.env_set_stream((int32_t)stream->device.device_type, stream->device.device_id,
                             stream->before, NULL);
  }
}

/* As bridge_stream_to_ffi(), in the other direction. */
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

/* The place that the device took is free again, so this cannot fail either. */
void bridge_stream_back_to_classic(const BridgeStream* stream) {
  if (stream->is_changed) {
    (void)tvmrt_swap_stream((int)stream->device.device_type, stream->device.device_id,
                            stream->before, NULL);
  }
}
