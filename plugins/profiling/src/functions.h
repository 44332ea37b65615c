/* Functions of the profiling plug-in. */
#ifndef TVMRT_PLUGINS_PROFILING_FUNCTIONS_H_
#define TVMRT_PLUGINS_PROFILING_FUNCTIONS_H_

#include "sdk/plugin.h"

#define PROFILING_FUNCTIONS(X)                                       \
  X("runtime.profiling.AsCSV", profiling_as_csv)                     \
  X("runtime.profiling.AsJSON", profiling_as_json)                   \
  X("runtime.profiling.AsTable", profiling_as_table)                 \
  X("runtime.profiling.Count", profiling_make_count)                 \
  X("runtime.profiling.DeviceWrapper", profiling_make_device)        \
  X("runtime.profiling.Duration", profiling_make_duration)           \
  X("runtime.profiling.FromJSON", profiling_from_json)               \
  X("runtime.profiling.Percent", profiling_make_percent)             \
  X("runtime.profiling.ProfileFunction", profiling_profile_function) \
  X("runtime.profiling.Ratio", profiling_make_ratio)                 \
  X("runtime.profiling.Report", profiling_make_report)

PROFILING_FUNCTIONS(TVMRT_PLUGIN_DECLARE)

#endif
