/* Profiling reports as objects, from which TVM's frontends make tables. */
#ifndef TVMRT_PLUGINS_PROFILING_REPORT_H_
#define TVMRT_PLUGINS_PROFILING_REPORT_H_

#include "sdk/values.h"

/* Metrics: tvmrt_box of TVMRT_TYPE_DURATION, PERCENT, RATIO, COUNT (integer), or text. */
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

/* Parse the output of tvmrt__report_json(); *out is owned. */
int tvmrt__report_from_json(const char* text, size_t size, tvmrt_object** out);

/* Name of a metric's JSON member; NULL if the value is not a metric. */
const char* tvmrt__metric_member(const tvmrt_object* value);
tvmrt_box* tvmrt__metric_new(tvmrt_type type, double value);
static inline double tvmrt__metric_value(const tvmrt_object* metric) {
  const tvmrt_box* box = (const tvmrt_box*)(const void*)metric;
  return metric->type_index == TVMRT_TYPE_COUNT ? (double)box->as.integer : box->as.real;
}

/* Append the report as text; -1 with the error text set if it contains an invalid value. */
int tvmrt__report_json(const tvmrt_report* report, tvmrt_buf* out);
int tvmrt__report_csv(const tvmrt_report* report, tvmrt_buf* out);
int tvmrt__report_table(const tvmrt_report* report, bool sort, bool aggregate, bool sums,
                        tvmrt_buf* out);

/* ---- for the writers ---- */

/* Text of a String object, whose type the caller has checked. */
static inline const char* tvmrt__text_of(const tvmrt_object* string) {
  return ((const tvmrt_string*)(const void*)string)->data;
}
/* Append the number of a metric, whose type the caller has checked. Style and digits are those of
 * tvmrt__write_real(); a count is printed as an integer. */
int tvmrt__metric_number(const tvmrt_object* value, char style, int digits, tvmrt_buf* out);
/* Report an invalid value by its type; returns -1. */
int tvmrt__report_refuse(const tvmrt_object* value);
/* Text of a map's key; replaces the content of `out`. */
int tvmrt__report_key(const tvmrt_object* key, tvmrt_buf* out);
/* Value of a key, borrowed; NULL if there is none. */
tvmrt_object* tvmrt__report_get(const tvmrt_map* map, const char* key);
/* Names of all columns of the maps, without duplicates; an array of texts, owned. Existing columns
 * of `first`, a NULL-terminated list, come first, the others by name. */
tvmrt_array* tvmrt__report_columns(tvmrt_map* const* maps, size_t count, const char* const* first);

#endif
