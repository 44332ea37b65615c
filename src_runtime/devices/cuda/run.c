/* Runs of a plan. A tensor that lies on the GPU is worked on where it is; one of the host goes
 * by way of pinned memory, so that neither its copy nor the kernels are waited for. */
#include <string.h>

#include "plan.h"

static moved_bytes moved;

/* Counted for the process; numbers only grow. */
moved_bytes* cuda_moved(void) { return &moved; }

/* Of a border only once bind() has said where it lies in this run. Nothing is read through it
 * here: it is the GPU's. */
CUdeviceptr cuda_address(const cuda_plan* p, int32_t tensor) {
  const region_place* at = &p->plan.places[tensor];
  if (at->kind == PLACE_CONSTANT) return p->weights + p->weight_offsets[tensor];
  if (at->kind == PLACE_BORDER) return p->bound[at->number];
  return p->arena + p->buffer_offsets[at->number];
}

/* Borders ------------------------------------------------------------------------------------- */

/* Without what rounds places up: as much is copied. */
static size_t bytes_of(const cuda_plan* p, int32_t tensor) {
  return (size_t)p->region->tensors[tensor].num_bytes;
}

/* Told by this call's tensor: the next call may bring one of the host. */
static bool on_gpu(const cuda_plan* p, int32_t tensor) {
  return p->region->data[tensor]->device.device_type == kDLCUDA;
}

static CUdeviceptr gpu_address(const cuda_plan* p, int32_t tensor) {
  return (CUdeviceptr)(uintptr_t)region_memory(p->region, tensor);
}

/* At the first run that brings a tensor of the host; both parts or, on failure, what was there
 * before. Pinned memory is dear to the system, so it is taken where it is needed alone. */
static int create_staging(cuda_plan* p) {
  const cuda_driver* d = &p->context->driver;
  void* memory = NULL;
  int status;
  if (p->pinned != NULL || p->staging_bytes == 0) return 0;
  if (p->staging == 0) {
    status = d->cuMemAlloc_v2(&p->staging, p->staging_bytes);
    if (status != CUDA_SUCCESS) p->staging = 0;
    if (cuda_check(p->context, status, "cuMemAlloc") != 0) return -1;
  }
  status = d->cuMemAllocHost_v2(&memory, p->staging_bytes);
  if (status == CUDA_SUCCESS) p->pinned = memory;
  return cuda_check(p->context, status, "cuMemAllocHost");
}

/* An output that shares memory with another border is computed aside and copied when all is read.
 * Before anything is queued, as kernels are given addresses by value. */
static int bind(cuda_plan* p) {
  const tvmrt_region* r = p->region;
  int32_t i;
  for (i = 0; i < r->num_inputs + r->num_outputs; ++i) {
    const int32_t tensor = region_border(r, i);
    const bool in_place = on_gpu(p, tensor) && (i < r->num_inputs || !region_is_shared(r, tensor));
    if (!in_place && create_staging(p) != 0) return -1;
    p->bound[tensor] = in_place ? gpu_address(p, tensor) : p->staging + p->staged[tensor];
  }
  return 0;
}

/* By way of pinned memory: the caller's may change as soon as this returns. Each input has a
 * place of its own in pinned memory, so one copy need not wait for another. */
static int bring_inputs(cuda_plan* p) {
  const tvmrt_region* r = p->region;
  int32_t i;
  for (i = 0; i < r->num_inputs; ++i) {
    const int32_t tensor = r->inputs[i];
    const size_t bytes = bytes_of(p, tensor);
    char* const pinned = p->pinned + p->staged[tensor];
    if (on_gpu(p, tensor) || bytes == 0) continue;
    memcpy(pinned, region_memory(p->region, tensor), bytes);
    if (cuda_check(
            p->context,
            p->context->driver.cuMemcpyHtoDAsync_v2(p->bound[tensor], pinned, bytes, p->stream),
            "copying an input") != 0) {
      return -1;
    }
    atomic_fetch_add(&moved.to, bytes);
  }
  return 0;
}

/* Queued behind the kernels; what goes to the host is given to the caller by give_outputs(). */
static int send_output(cuda_plan* p, int32_t tensor) {
  const size_t bytes = bytes_of(p, tensor);
  const CUdeviceptr from = cuda_address(p, tensor);
  int status = CUDA_SUCCESS;
  if (bytes == 0) return 0;
  if (!on_gpu(p, tensor)) {
    status = p->context->driver.cuMemcpyDtoHAsync_v2(p->pinned + p->staged[tensor], from, bytes,
                                                     p->stream);
    atomic_fetch_add(&moved.from, bytes);
  } else if (from != gpu_address(p, tensor)) {
    status =
        p->context->driver.cuMemcpyDtoDAsync_v2(gpu_address(p, tensor), from, bytes, p->stream);
    atomic_fetch_add(&moved.within, bytes);
  }
  return cuda_check(p->context, status, "copying an output");
}

/* From pinned memory to the caller's, when the run has ended. Only now, so that a run which fails
 * leaves the caller's memory as it was. */
static void give_outputs(const cuda_plan* p) {
  const tvmrt_region* r = p->region;
  int32_t i;
  for (i = 0; i < r->num_outputs; ++i) {
    const int32_t tensor = r->outputs[i];
    if (on_gpu(p, tensor) || bytes_of(p, tensor) == 0) continue;
    memcpy(region_memory(p->region, tensor), p->pinned + p->staged[tensor], bytes_of(p, tensor));
  }
}

/* Runs ---------------------------------------------------------------------------------------- */

/* Addresses are read when the kernel is queued: the values may change after that. The error is of
 * the queue; what the kernel does wrong shows at the run's end. */
static int launch(cuda_plan* p, const step* s) {
  int32_t i;
  p->region->failed_node = s->node;
  if (s->kernel == NULL) return cuda_product_launch(p, s);
  for (i = 0; i < s->num_tensors; ++i) s->values[i].address = cuda_address(p, s->tensors[i]);
  return cuda_check(p->context,
                    p->context->driver.cuLaunchKernel(s->kernel, s->groups, 1, 1, s->group_size, 1,
                                                      1, 0, p->stream, s->parameters, NULL),
                    tvmrt_node_text(&p->region->nodes[s->node], "function", "a kernel"));
}

/* Copies in, kernels, copies out: the stream is in order, so the event is behind all of them.
 * Nothing is waited for: the host returns while the GPU works. */
static int enqueue(cuda_plan* p) {
  const tvmrt_region* r = p->region;
  int32_t i;
  if (bind(p) != 0 || bring_inputs(p) != 0) return -1;
  for (i = 0; i < p->num_steps; ++i) {
    if (launch(p, &p->steps[i]) != 0) return -1;
  }
  p->region->failed_node = -1;
  for (i = 0; i < r->num_outputs; ++i) {
    if (send_output(p, r->outputs[i]) != 0) return -1;
  }
  return cuda_check(p->context, p->context->driver.cuEventRecord(p->done, p->stream),
                    "cuEventRecord");
}

/* Where it fails all that was queued has ended: the caller's memory is his again. */
int cuda_plan_start(cuda_plan* p, tvmrt_region* region) {
  p->region = region;
  p->runs = true;
  if (enqueue(p) == 0) return 0;
  cuda_plan_stop(p);
  return -1;
}

/* Nothing touches the caller's memory any more. */
void cuda_plan_stop(cuda_plan* p) {
  if (p->runs) (void)p->context->driver.cuStreamSynchronize(p->stream);
  p->runs = false;
}

/* An error of any kernel of the run is told here, by the driver's words. */
int cuda_plan_wait(cuda_plan* p, int try_wait) {
  const cuda_driver* d = &p->context->driver;
  const int status = try_wait ? d->cuEventQuery(p->done) : d->cuEventSynchronize(p->done);
  int rc;
  if (try_wait && status == CUDA_ERROR_NOT_READY) return TVMRT_DEVICE_BUSY;
  rc = cuda_check(p->context, status, "running a region");
  if (rc == 0) {
    give_outputs(p);
    p->runs = false;
  } else {
    cuda_plan_stop(p);
  }
  return rc;
}
