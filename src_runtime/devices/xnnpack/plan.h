/* What pre_run builds of a region and run invokes. */
#ifndef TVMRT_DEVICES_XNNPACK_PLAN_H_
#define TVMRT_DEVICES_XNNPACK_PLAN_H_

#include <tvm/runtime/device.h>
#include <xnnpack.h>

typedef struct plan plan;

/* `out_plan` is owned by the caller. On failure region->failed_node says where. `threads` may be NULL;
 * it is borrowed and outlives the plan. */
int plan_create(tvmrt_region* region, pthreadpool_t threads, plan** out_plan);

/* Compute the outputs of a call from its inputs. */
int plan_run(plan* p, const tvmrt_region* region);

void plan_free(plan* p); /* NULL: nothing */

#endif /* TVMRT_DEVICES_XNNPACK_PLAN_H_ */
