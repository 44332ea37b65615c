/* Transfers a thread's current stream to the other side for the duration of a call. NULL is the
 * default stream, which is not transferred. */
#include "streams.h"

#include "errors.h"

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

/* `get` reads the caller's stream, `set` sets the callee's. */
static int transfer(BridgeStream* stream, const FfiAny* args, int count,
                    void* (*get)(int32_t type, int32_t id),
                    int (*set)(int32_t type, int32_t id, void* stream, void** old)) {
  const DLDevice* device = &stream->device;
  void* current;
  stream->set = NULL;
  if (!find_device(args, count, &stream->device)) return 0;
  current = get((int32_t)device->device_type, device->device_id);
  if (current == NULL) return 0;
  if (set((int32_t)device->device_type, device->device_id, current, &stream->before) != 0) {
    return -1;
  }
  stream->set = set;
  return 0;
}

int bridge_stream_to_ffi(BridgeStream* stream, const FfiAny* args, int count) {
  const int rc = transfer(stream, args, count, tvmrt_current_stream, ffi.env_set_stream);
  return rc == 0 ? 0 : bridge_catch();
}

int bridge_stream_to_classic(BridgeStream* stream, const FfiAny* args, int count) {
  return transfer(stream, args, count, ffi.env_get_stream, tvmrt_swap_stream);
}

/* Cannot fail: the device already has a slot. */
void bridge_stream_restore(const BridgeStream* stream) {
  if (stream->set == NULL) return;
  (void)stream->set((int32_t)stream->device.device_type, stream->device.device_id, stream->before,
                    NULL);
}
