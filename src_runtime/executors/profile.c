/* Reports of time per operator. */
#include "profile.h"

#include <inttypes.h>
#include <string.h>

#include "../base/json.h"
#include "../core/function.h"
#include "../platform/system.h"

/* Members and their order are those of TVM's reports, which its front ends format as tables. */
static int write_call(tvmrt_buf* out, const tvmrt_op_time* op, double total_seconds) {
  /* If the total is below the clock's resolution, all percentages are 0. */
  double percent = total_seconds > 0 ? 100.0 * op->seconds / total_seconds : 0.0;
  TVMRT_RETURN_IF_ERROR(tvmrt__buf_puts(out, "{\"Name\": {\"string\": "));
  TVMRT_RETURN_IF_ERROR(tvmrt__json_write_string(out, op->name));
  TVMRT_RETURN_IF_ERROR(tvmrt__buf_printf(
      out,
      "}, \"Count\": {\"count\": %" PRId64 "}, \"Duration (us)\": {\"microseconds\": ", op->count));
  TVMRT_RETURN_IF_ERROR(tvmrt__write_real(out, 'f', 3, op->seconds * 1e6));
  TVMRT_RETURN_IF_ERROR(tvmrt__buf_puts(out, "}, \"Percent\": {\"percent\": "));
  TVMRT_RETURN_IF_ERROR(tvmrt__write_real(out, 'f', 3, percent));
  return tvmrt__buf_puts(out, "}, \"Device\": {\"string\": \"cpu0\"}}");
}

void tvmrt__events_begin(tvmrt_run_events* events) {
  tvmrt_thread* thread = tvmrt__thread();
  memset(events, 0, sizeof(*events));
  events->start = tvmrt__seconds();
  if (thread != NULL) thread->events = events;
}

void tvmrt__events_end(void) {
  tvmrt_thread* thread = tvmrt__thread();
  if (thread != NULL) thread->events = NULL;
}

/* Times in microseconds, as in the members' names; `executor` must not need escapes. */
int tvmrt__profile_json(const tvmrt_op_time* ops, size_t count, double total_seconds,
                        const char* executor, tvmrt_run_events* events, tvmrt_buf* out) {
  size_t i;
  TVMRT_RETURN_IF_ERROR(tvmrt__buf_puts(out, "{\"calls\": ["));
  for (i = 0; i < count; ++i) {
    if (i != 0) TVMRT_RETURN_IF_ERROR(tvmrt__buf_puts(out, ", "));
    TVMRT_RETURN_IF_ERROR(write_call(out, &ops[i], total_seconds));
  }
  TVMRT_RETURN_IF_ERROR(tvmrt__buf_puts(
      out, "], \"device_metrics\": {\"cpu0\": {\"Duration (us)\": {\"microseconds\": "));
  TVMRT_RETURN_IF_ERROR(tvmrt__write_real(out, 'f', 3, total_seconds * 1e6));
  return tvmrt__buf_printf(out,
                           "}}}, \"configuration\": {\"Executor\": {\"string\": \"%s\"}, "
                           "\"Number of threads\": {\"count\": 1}}, \"events\": [%s]}",
                           executor, events->rows.data == NULL ? "" : events->rows.data);
}

/* Parse the text into a report object. */
static int return_report(const char* text, TVMValue* out, int* out_code) {
  static const char reader[] = "runtime.profiling.FromJSON";
  TVMValue value = {.v_str = text};
  int type = kTVMStr;
  tvmrt_func* f = NULL;
  int rc;
  TVMRT_RETURN_IF_ERROR(tvmrt__global_get(reader, &f));
  if (f == NULL) {
    return tvmrt__fail(
        "profile: report objects need the plug-in profiling, which is not installed; profile_rpc "
        "returns the report as text.");
  }
  rc = TVMFuncCall(f, &value, &type, 1, out, out_code);
  tvmrt__release(&f->base);
  return rc;
}

/* Takes ownership of the text, also on failure. */
int tvmrt__profile_return(int rc, tvmrt_buf* text, bool as_report, TVMValue* out, int* out_code) {
  if (!as_report) return tvmrt__ret_buf(rc, kTVMStr, text, out, out_code);
  if (rc == 0) rc = return_report(text->data, out, out_code);
  tvmrt__buf_free(text);
  return rc;
}
