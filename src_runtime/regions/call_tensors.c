/* Binding and checking the tensors of one call of a region.
 *
 * A context has a table of tensors: constants are always present, those of a call only during the
 * call. Ranks, types, extents, strides and memory are checked at each call, so that devices need
 * not. */
#include "../tensors/tensor.h"
#include "loaded_region.h"

typedef tvmrt_loaded_region loaded;
typedef tvmrt_region_context context;

/* Always -1. */
static int wrong_tensor(const tvmrt_region* region, int32_t tensor, const char* what) {
  return tvmrt__fail_value("region '%.100s': tensor '%.80s' %s.", region->symbol,
                           region->tensors[tensor].name, what);
}

/* The host's memory, or the device's own. Pinned memory belongs to the host, despite its own
 * type. */
static bool is_accessible(const loaded* self, DLDevice at) {
  const tvmrt_device_memory* own = self->device->memory;
  if (at.device_type == kDLCPU || at.device_type == kDLCUDAHost) return true;
  return own != NULL && own->device.device_type == at.device_type &&
         own->device.device_id == at.device_id;
}

/* Dynamic extents must be within their bounds; for fixed ones the bounds are equal. */
static int bind_tensor(const loaded* self, context* c, int32_t tensor, const TVMValue* value,
                       int code) {
  const tvmrt_region_tensor* expected = &c->region.tensors[tensor];
  DLTensor* t = value->v_handle;
  int32_t i;
  if ((code != kTVMDLTensorHandle && code != kTVMNDArrayHandle && code != kTVMOpaqueHandle) ||
      t == NULL) {
    return wrong_tensor(&c->region, tensor, "is not given as a tensor");
  }
  if (t->ndim != expected->ndim || !tvmrt__same_dtype(t->dtype, expected->dtype)) {
    return wrong_tensor(&c->region, tensor, "comes with another rank or type");
  }
  for (i = 0; i < t->ndim; ++i) {
    if (t->shape[i] > expected->shape[i] || t->shape[i] < tvmrt__min_extents(expected)[i]) {
      return wrong_tensor(
          &c->region, tensor,
          "comes with another shape; compile the network with dynamic dimensions for other sizes");
    }
  }
  /* Devices without a layout of their own require contiguous rows. */
  if (t->strides != NULL && !self->any_layout && !tvmrt__is_compact(t)) {
    return wrong_tensor(&c->region, tensor, "is not compact");
  }
  if (!is_accessible(self, t->device)) {
    return wrong_tensor(&c->region, tensor, "lies in memory that the device does not reach");
  }
  /* Borrowed until the call ends: contexts outlive it. */
  c->data[tensor] = t;
  return 0;
}

/* *out lies in the call's tensor, NULL if the region's sizes are fixed. */
int tvmrt__call_sizes(const loaded* self, const TVMValue* args, const int* codes, int num_args,
                      const int64_t** out) {
  const tvmrt_region* region = &self->initial;
  const int count = region->num_inputs + region->num_outputs;
  *out = NULL;
  if (num_args != count + (self->sizes.count != 0 ? 1 : 0)) {
    return tvmrt__fail_value(
        "region '%.100s' takes %d input%s and %d output%s%s, got %d tensor%s.", region->symbol,
        (int)region->num_inputs, region->num_inputs == 1 ? "" : "s", (int)region->num_outputs,
        region->num_outputs == 1 ? "" : "s", self->sizes.count != 0 ? " and its sizes" : "",
        num_args, num_args == 1 ? "" : "s");
  }
  if (self->sizes.count == 0) return 0;
  return tvmrt__sizes_of_call(&self->sizes, region->symbol, &args[count], codes[count], out);
}

/* On failure some are bound: the caller unbinds all. */
int tvmrt__context_bind(const loaded* self, context* c, const TVMValue* args, const int* codes) {
  const tvmrt_region* region = &c->region;
  int32_t i;
  for (i = 0; i < region->num_inputs; ++i) {
    TVMRT_RETURN_IF_ERROR(bind_tensor(self, c, region->inputs[i], &args[i], codes[i]));
  }
  args += region->num_inputs;
  codes += region->num_inputs;
  for (i = 0; i < region->num_outputs; ++i) {
    TVMRT_RETURN_IF_ERROR(bind_tensor(self, c, region->outputs[i], &args[i], codes[i]));
  }
  return 0;
}

void tvmrt__context_unbind(context* c) {
  const tvmrt_region* region = &c->region;
  int32_t i;
  for (i = 0; i < region->num_inputs; ++i) c->data[region->inputs[i]] = NULL;
  for (i = 0; i < region->num_outputs; ++i) c->data[region->outputs[i]] = NULL;
}

/* Copy a tensor with its shape and strides to `at`; return the address after them. */
static char* copy_tensor(char* at, DLTensor** tensor) {
  const DLTensor* from = *tensor;
  const size_t bytes = (size_t)from->ndim * sizeof(int64_t);
  DLTensor* to = (void*)at;
  int64_t* shape = (void*)(at + sizeof(*to));
  *to = *from;
  to->shape = shape;
  if (bytes != 0) memcpy(shape, from->shape, bytes);
  if (from->strides != NULL) {
    to->strides = shape + from->ndim;
    if (bytes != 0) memcpy(to->strides, from->strides, bytes);
  }
  *tensor = to;
  return at + sizeof(*to) + 2 * bytes;
}

/* Copies the DLTensors, not their data, into memory that the context keeps for later runs. */
int tvmrt__context_copy_tensors(context* c) {
  const tvmrt_region* r = &c->region;
  size_t bytes = 1; /* never 0, since NULL means failure */
  char* at;
  int32_t i;
  for (i = 0; i < r->num_inputs + r->num_outputs; ++i) {
    const int32_t t = i < r->num_inputs ? r->inputs[i] : r->outputs[i - r->num_inputs];
    bytes += sizeof(DLTensor) + 2 * (size_t)r->tensors[t].ndim * sizeof(int64_t);
  }
  if (c->tensor_copies == NULL)
    c->tensor_copies =
        tvmrt__calloc(bytes, 1); /* ranks are constant: it is large enough for all calls */
  at = c->tensor_copies;
  if (at == NULL) return -1;
  /* Constants are not copied: they live as long as the region. */
  for (i = 0; i < r->num_inputs; ++i) at = copy_tensor(at, &c->data[r->inputs[i]]);
  for (i = 0; i < r->num_outputs; ++i) at = copy_tensor(at, &c->data[r->outputs[i]]);
  return 0;
}
