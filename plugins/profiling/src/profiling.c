/* Profiling reports as objects: read from JSON, and written as JSON or as a table. */
#include <stdlib.h>
#include <string.h>
#include <tvm/runtime/plugin.h>

#include "sdk/base.h"
#include "sdk/values.h"

enum { NAME, DEVICE, NUM_TEXTS };
enum { TIME, PERCENT, COUNT, NUM_NUMBERS };
static const char* const text_keys[] = {"Name", "Device"};
static const char* const number_keys[] = {"Duration (us)", "Percent", "Count"};
static const char* const number_kinds[] = {"microseconds", "percent", "count"};

/* One operator; the table has all calls of it in one row. */
typedef struct {
  tvmrt_buf texts[NUM_TEXTS];
  double numbers[NUM_NUMBERS];
} row;

typedef struct {
  tvmrt_object base;
  tvmrt_buf json;
  tvmrt_buf rows; /* of calls, in the order of the JSON */
} report;

/* ---- from JSON ---- */

typedef struct {
  row* row;
  const char* key;
} metric;

/* Members that the table does not show are skipped; the JSON has them. */
static int read_value(tvmrt_parser* in, void* into, const char* kind) {
  const metric* m = into;
  int i;
  for (i = 0; i < NUM_TEXTS; ++i) {
    if (strcmp(m->key, text_keys[i]) != 0 || strcmp(kind, "string") != 0) continue;
    return tvmrt__parse_string(in, &m->row->texts[i]);
  }
  for (i = 0; i < NUM_NUMBERS; ++i) {
    if (strcmp(m->key, number_keys[i]) != 0 || strcmp(kind, number_kinds[i]) != 0) continue;
    return tvmrt__parse_real(in, &m->row->numbers[i]);
  }
  return tvmrt__parse_skip(in);
}

static int read_metric(tvmrt_parser* in, void* into, const char* key) {
  metric m = {into, key};
  return tvmrt__parse_members(in, read_value, &m);
}

/* The row is entered in the list first, which frees it. */
static int read_call(tvmrt_parser* in, void* into) {
  static const row empty = {0};
  tvmrt_buf* rows = into;
  TVMRT_RETURN_IF_ERROR(tvmrt__buf_append(rows, &empty, sizeof(empty)));
  return tvmrt__parse_members(in, read_metric, rows->data + rows->size - sizeof(row));
}

static int read_part(tvmrt_parser* in, void* into, const char* key) {
  if (strcmp(key, "calls") == 0) return tvmrt__parse_items(in, read_call, into);
  return tvmrt__parse_skip(in);
}

static void free_report(tvmrt_object* object) {
  report* r = (report*)(void*)object;
  row* rows = (row*)(void*)r->rows.data;
  size_t i;
  for (i = 0; i < r->rows.size / sizeof(row); ++i) {
    tvmrt__buf_free(&rows[i].texts[NAME]);
    tvmrt__buf_free(&rows[i].texts[DEVICE]);
  }
  tvmrt__buf_free(&r->rows);
  tvmrt__buf_free(&r->json);
  free(r);
}

/* (text) -> report. */
TVMRT_NATIVE(from_json) {
  TVMByteArray text;
  tvmrt_parser parser;
  report* r;
  int rc;
  TVMRT_COUNTED_ARGS(1, 1);
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_bytes(&in, 0, &text));
  r = tvmrt__calloc(1, sizeof(*r));
  if (r == NULL) return -1;
  tvmrt__object_init(&r->base, TVMRT_TYPE_REPORT, free_report);
  rc = tvmrt__buf_append(&r->json, text.data, text.size);
  tvmrt__parse_init(&parser, "the report", text.data, text.size);
  if (rc == 0) rc = tvmrt__parse_members(&parser, read_part, &r->rows);
  if (rc == 0) return tvmrt__ret_object(out, out_code, &r->base);
  tvmrt__release(&r->base);
  return rc;
}

/* (report) -> the JSON text. */
TVMRT_NATIVE(as_json) {
  report* r;
  TVMRT_COUNTED_ARGS(1, 1);
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_object(&in, 0, TVMRT_TYPE_REPORT, &r));
  return tvmrt__ret_str(out, out_code, r->json.data);
}

/* ---- table ---- */

static const char* text_of(const row* r, int i) {
  return r->texts[i].data == NULL ? "" : r->texts[i].data;
}

static void add(row* sum, const row* r) {
  int i;
  for (i = 0; i < NUM_NUMBERS; ++i) sum->numbers[i] += r->numbers[i];
}

static int slower_first(const void* a, const void* b) {
  const double x = ((const row*)a)->numbers[TIME], y = ((const row*)b)->numbers[TIME];
  return (x < y) - (x > y);
}

static bool is_same(const row* a, const row* b) {
  return strcmp(text_of(a, NAME), text_of(b, NAME)) == 0 &&
         strcmp(text_of(a, DEVICE), text_of(b, DEVICE)) == 0;
}

/* Rows of all calls, or one for the calls of each function on a device; texts are borrowed. */
static size_t merge(const row* calls, size_t count, bool aggregate, row* rows) {
  size_t i, k, merged = 0;
  for (i = 0; i < count; ++i) {
    for (k = aggregate ? 0 : merged; k < merged && !is_same(&rows[k], &calls[i]); ++k) continue;
    if (k < merged) {
      add(&rows[k], &calls[i]);
    } else {
      rows[merged++] = calls[i];
    }
  }
  return merged;
}

static int write_row(const row* r, const char* name, int width, tvmrt_buf* out) {
  static const int widths[] = {15, 9, 7};
  tvmrt_buf number = {NULL, 0, 0};
  int rc = tvmrt__buf_printf(out, "%-*s", width, name), i;
  for (i = 0; i < NUM_NUMBERS && rc == 0; ++i) {
    number.size = 0;
    rc = tvmrt__write_real(&number, 'f', i == COUNT ? 0 : 2, r->numbers[i]);
    if (rc == 0) rc = tvmrt__buf_printf(out, "%*s", widths[i], number.data);
  }
  tvmrt__buf_free(&number);
  if (rc == 0 && text_of(r, DEVICE)[0] != 0)
    rc = tvmrt__buf_printf(out, "  %s", text_of(r, DEVICE));
  return rc == 0 ? tvmrt__buf_puts(out, "\n") : rc;
}

static int write_rows(const row* rows, size_t count, bool sums, tvmrt_buf* out) {
  row sum = {0};
  int width = 4;
  size_t i;
  for (i = 0; i < count; ++i) {
    const int length = (int)strlen(text_of(&rows[i], NAME));
    if (length > width) width = length;
    add(&sum, &rows[i]);
  }
  TVMRT_RETURN_IF_ERROR(
      tvmrt__buf_printf(out, "%-*s  Duration (us)  Percent  Count  Device\n", width, "Name"));
  for (i = 0; i < count; ++i) {
    TVMRT_RETURN_IF_ERROR(write_row(&rows[i], text_of(&rows[i], NAME), width, out));
  }
  return sums ? write_row(&sum, "Sum", width, out) : 0;
}

/* (report, whether to sort by time, whether to merge calls of one function, whether to add sums) */
TVMRT_NATIVE(as_table) {
  tvmrt_buf text = {NULL, 0, 0};
  int64_t flags[3] = {1, 1, 1};
  report* r;
  row* rows;
  size_t count;
  int i, rc;
  TVMRT_COUNTED_ARGS(1, 4);
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_object(&in, 0, TVMRT_TYPE_REPORT, &r));
  for (i = 1; i < num_args; ++i) TVMRT_RETURN_IF_ERROR(tvmrt__arg_int(&in, i, &flags[i - 1]));
  rows = tvmrt__calloc(r->rows.size / sizeof(row) + 1, sizeof(row));
  if (rows == NULL) return -1;
  count = merge((const row*)(void*)r->rows.data, r->rows.size / sizeof(row), flags[1] != 0, rows);
  if (flags[0] != 0) qsort(rows, count, sizeof(row), slower_first);
  rc = write_rows(rows, count, flags[2] != 0, &text);
  free(rows);
  return tvmrt__ret_buf(rc, kTVMStr, &text, out, out_code);
}

static const tvmrt_plugin_function functions[] = {{"runtime.profiling.AsJSON", as_json},
                                                  {"runtime.profiling.AsTable", as_table},
                                                  {"runtime.profiling.FromJSON", from_json},
                                                  {NULL, NULL}};

TVMRT_PLUGIN_TABLE = {sizeof(tvmrt_plugin), TVMRT_PLUGIN_ABI, "profiling", functions, NULL, NULL,
                      TVMRT_SDK_VERSION};
