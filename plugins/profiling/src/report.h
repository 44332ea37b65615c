/* Reports of profiling as objects: what TVM's front ends make tables of. */
#ifndef TVMRT_PLUGINS_PROFILING_REPORT_H_
#define TVMRT_PLUGINS_PROFILING_REPORT_H_

#include "sdk/values.h"

/* Metrics are tvmrt_box of TVMRT_TYPE_DURATION, PERCENT, RATIO (real) or COUNT (integer), or text. */
typedef struct tvmrt_report {
  tvmrt_object base;
  tvmrt_array* calls;        /* maps from text to metrics */
  tvmrt_map* device_metrics; /* from text or TVMRT_TYPE_DEVICE_WRAPPER to such maps */
  tvmrt_map* configuration;  /* from text to metrics */
} tvmrt_report;

typedef struct tvmrt_device_wrapper {
  tvmrt_object base;
  DLDevice device;
} tvmrt_device_wrapper;

/* A report of the text that tvmrt__report_json() writes; *out is owned. */
int tvmrt__report_from_json(const char* text, size_t size, tvmrt_object** out);

/* The name of a metric's JSON member, NULL for what is none. */
const char* tvmrt__metric_member(const tvmrt_object* value);
tvmrt_box* tvmrt__metric_new(tvmrt_type type, double value);
static inline double tvmrt__metric_value(const tvmrt_object* metric) {
  const tvmrt_box* box = (const tvmrt_box*)(const void*)metric;
  return metric->type_index == TVMRT_TYPE_COUNT ? (double)box->as.integer : box->as.real;
}

/* Append the report as text. -1 with the error text set where it holds what no report holds. */
int tvmrt__report_json(const tvmrt_report* report, tvmrt_buf* out);
int tvmrt__report_csv(const tvmrt_report* report, tvmrt_buf* out);
int tvmrt__report_table(const tvmrt_report* report, bool sort, bool aggregate, bool sums,
                        tvmrt_buf* out);

/* ---- for those who write them ---- */

/* The text of a String, whose type the caller has looked at. */
static inline const char* tvmrt__text_of(const tvmrt_object* string) {
  return ((const tvmrt_string*)(const void*)string)->data;
}
/* Append the number of a metric, whose type the caller has looked at, with style and digits as
 * tvmrt__write_real() has them; a count is printed whole. */
int tvmrt__metric_number(const tvmrt_object* value, char style, int digits, tvmrt_buf* out);
/* Fails with the type of what no report holds. Always -1. */
int tvmrt__report_refuse(const tvmrt_object* value);
/* The text of a map's key, replacing what is in `out`. */
int tvmrt__report_key(const tvmrt_object* key, tvmrt_buf* out);
/* The value of a key, borrowed; NULL if there is none. */
tvmrt_object* tvmrt__report_get(const tvmrt_map* map, const char* key);
/* Names of all columns of the maps, each once; an array of texts, owned. Those of `first`, a list that
 * NULL ends, come first where they are there, the others by name. */
tvmrt_array* tvmrt__report_columns(tvmrt_map* const* maps, size_t count, const char* const* first);

#endif
