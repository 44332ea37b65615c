/* Reports of time per operator. */
#ifndef TVMRT_SRC_RUNTIME_EXECUTORS_PROFILE_H_
#define TVMRT_SRC_RUNTIME_EXECUTORS_PROFILE_H_

#include <stdbool.h>
#include <stdint.h>

#include "../core/region_request.h"

/*
 * Time per operator, as the JSON text of runtime.profiling.AsJSON:
 * {"calls": [{"Name": {"string": ...}, "Count": {"count": n}, "Duration (us)": {"microseconds": t},
 *   "Percent": {"percent": p}, "Device": {"string": "cpu0"}}, ...],
 *  "device_metrics": {"cpu0": {"Duration (us)": ...}}, "configuration": {"Executor": {...}},
 *  "events": [{"device": ..., "region": ..., "name": ..., "start": s, "end": s}, ...]}
 */
typedef struct tvmrt_op_time {
  const char* name;
  int64_t count;
  double seconds; /* of all calls together */
} tvmrt_op_time;

int tvmrt__profile_json(const tvmrt_op_time* ops, size_t count, double total_seconds,
                        const char* executor, tvmrt_run_events* events, tvmrt_buf* out);

/* From here to tvmrt__events_end() the thread collects what devices report; free the rows. */
void tvmrt__events_begin(tvmrt_run_events* events);
void tvmrt__events_end(void);

/* Return a report (`profile`) or its text (`profile_rpc`) if rc is 0; frees the text. */
int tvmrt__profile_return(int rc, tvmrt_buf* text, bool as_report, TVMValue* out, int* out_code);

#endif
