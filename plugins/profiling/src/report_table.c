/* Profiling reports as a text table: calls of one function are merged into one row, the slowest
 * rows come first, sums are at the bottom.
 *
 * Rows are maps made from the calls, which stay unchanged. The text grows in the caller's buffer,
 * which the caller frees, also on failure. */
#include <stdlib.h>
#include <string.h>

#include "report.h"

static const char name_column[] = "Name";
static const char time_column[] = "Duration (us)";

/* Two digits are enough for a table; JSON has all digits. */
static int metric_text(const tvmrt_object* value, tvmrt_buf* out) {
  if (value == NULL) return 0;
  if (value->type_index == TVMRT_TYPE_STRING) {
    return tvmrt__buf_puts(out, tvmrt__text_of(value));
  }
  if (tvmrt__metric_member(value) == NULL) return tvmrt__report_refuse(value);
  return tvmrt__metric_number(value, 'f', 2, out);
}

/* Rows are separate maps; NULL is a separator line. */
typedef struct rows {
  tvmrt_map** maps;
  size_t* merged; /* number of calls merged into each row */
  size_t count;
} rows;

/* Also frees partly built rows. */
static void free_rows(rows* r) {
  size_t i;
  for (i = 0; i < r->count; ++i) {
    if (r->maps[i] != NULL) tvmrt__release(&r->maps[i]->base);
  }
  free(r->maps);
  free(r->merged);
}

/* Both lack the key, or both have equal texts. */
static bool same_text(const tvmrt_map* a, const tvmrt_map* b, const char* key) {
  const tvmrt_object* x = tvmrt__report_get(a, key);
  const tvmrt_object* y = tvmrt__report_get(b, key);
  if (x == NULL || y == NULL) return x == y;
  return x->type_index == TVMRT_TYPE_STRING && y->type_index == TVMRT_TYPE_STRING &&
         strcmp(tvmrt__text_of(x), tvmrt__text_of(y)) == 0;
}

/* Calls are merged if function, shapes and device are equal. A hash, if present, identifies the
 * function with its shapes. */
static bool is_same_call(const tvmrt_map* a, const tvmrt_map* b) {
  const char* name = tvmrt__report_get(a, "Hash") != NULL ? "Hash" : name_column;
  return same_text(a, b, name) && same_text(a, b, "Argument Shapes") && same_text(a, b, "Device");
}

/* Combine a row of `merged` calls with one more call. Ratios are averaged; differing texts become
 * empty. */
static tvmrt_object* combine(const tvmrt_object* old, tvmrt_object* value, size_t merged) {
  double sum;
  if (old != NULL && value->type_index == TVMRT_TYPE_STRING) {
    const char* text = tvmrt__text_of(value);
    const bool same =
        old->type_index == TVMRT_TYPE_STRING && strcmp(tvmrt__text_of(old), text) == 0;
    return (tvmrt_object*)tvmrt__string_new(text, same ? strlen(text) : 0);
  }
  /* The first value of a name, or a value that cannot be added, is taken unchanged. */
  if (old == NULL || old->type_index != value->type_index || tvmrt__metric_member(value) == NULL) {
    tvmrt__retain(value);
    return value;
  }
  sum = tvmrt__metric_value(old);
  if (value->type_index == TVMRT_TYPE_RATIO) sum *= (double)merged;
  sum += tvmrt__metric_value(value);
  if (value->type_index == TVMRT_TYPE_RATIO) sum /= (double)merged + 1;
  return (tvmrt_object*)tvmrt__metric_new((tvmrt_type)value->type_index, sum);
}

/* `merged` is the number of calls already in the row; 0 for a new one. */
static int merge(tvmrt_map* row, const tvmrt_map* call, size_t merged) {
  size_t i;
  for (i = 0; i < call->size; ++i) {
    const tvmrt_map_entry* e = &call->entries[i];
    const tvmrt_object* old = merged == 0 ? NULL : tvmrt__map_get(row, e->key);
    tvmrt_object* value = combine(old, e->value, merged);
    /* The map takes over the key and the value. */
    if (value == NULL) return -1;
    tvmrt__retain(e->key);
    TVMRT_RETURN_IF_ERROR(tvmrt__map_set(row, e->key, value));
  }
  return 0;
}

/* The row is counted immediately, for free_rows(). `maps` is large enough for all calls. */
static int add_row(rows* r, const tvmrt_map* call, bool aggregate) {
  size_t i = r->count;
  if (aggregate) {
    for (i = 0; i < r->count && !is_same_call(r->maps[i], call); ++i) continue;
  }
  if (i == r->count) {
    r->maps[i] = tvmrt__map_new();
    if (r->maps[i] == NULL) return -1;
    ++r->count;
  }
  return merge(r->maps[i], call, r->merged[i]++);
}

/* 0 if the time is missing or a text, so such rows are sorted to the end. */
static double time_of(const tvmrt_map* row) {
  const tvmrt_object* value = tvmrt__report_get(row, time_column);
  return value == NULL || tvmrt__metric_member(value) == NULL ? 0 : tvmrt__metric_value(value);
}

/* Sort by descending time; stable. Insertion sort is sufficient for the number of operators of a
 * network. */
static void sort_rows(rows* r) {
  size_t i;
  size_t k;
  for (i = 1; i < r->count; ++i) {
    tvmrt_map* row = r->maps[i];
    const double time = time_of(row);
    for (k = i; k > 0 && time_of(r->maps[k - 1]) < time; --k) r->maps[k] = r->maps[k - 1];
    r->maps[k] = row;
  }
}

/* Add a row "Sum" with the sums of all rows. */
static int add_sums(rows* r) {
  const size_t calls = r->count;
  tvmrt_map* sum = tvmrt__map_new();
  size_t i;
  size_t k;
  if (sum == NULL) return -1;
  /* The separator line is a row without a map. */
  r->maps[r->count++] = NULL;
  r->maps[r->count++] = sum;
  TVMRT_RETURN_IF_ERROR(
      tvmrt__map_set_text(sum, name_column, (tvmrt_object*)tvmrt__string_new("Sum", 3)));
  for (i = 0; i < calls; ++i) {
    for (k = 0; k < r->maps[i]->size; ++k) {
      const tvmrt_map_entry* e = &r->maps[i]->entries[k];
      tvmrt_object* value;
      /* Ratios and texts have no sum. */
      if (e->value->type_index == TVMRT_TYPE_RATIO || tvmrt__metric_member(e->value) == NULL) {
        continue;
      }
      value = combine(tvmrt__map_get(sum, e->key), e->value, 1);
      if (value == NULL) return -1;
      tvmrt__retain(e->key);
      TVMRT_RETURN_IF_ERROR(tvmrt__map_set(sum, e->key, value));
    }
  }
  return 0;
}

/* Add a row for each device with its total metrics, below the sums. */
static int add_totals(rows* r, const tvmrt_map* devices) {
  tvmrt_buf key = {NULL, 0, 0};
  int rc = 0;
  size_t i;
  for (i = 0; i < devices->size && rc == 0; ++i) {
    const tvmrt_object* metrics = devices->entries[i].value;
    tvmrt_map* total = tvmrt__map_new();
    if (total == NULL) {
      rc = -1;
      break;
    }
    r->maps[r->count++] = total;
    rc = tvmrt__map_set_text(total, name_column, (tvmrt_object*)tvmrt__string_new("Total", 5));
    if (rc == 0) rc = tvmrt__report_key(devices->entries[i].key, &key);
    if (rc == 0) {
      rc = tvmrt__map_set_text(total, "Device",
                               (tvmrt_object*)tvmrt__string_new(key.data, key.size));
    }
    /* Reports may be made by frontends, so the value's type is checked here. */
    if (rc == 0 && metrics->type_index != TVMRT_TYPE_MAP) rc = tvmrt__report_refuse(metrics);
    if (rc == 0) rc = merge(total, (const tvmrt_map*)(const void*)metrics, 0);
  }
  tvmrt__buf_free(&key);
  return rc;
}

/* Pad a text to the column width and two more blanks. Widths are in bytes, since function names are
 * ASCII. */
static int pad(tvmrt_buf* out, size_t from, size_t width) {
  size_t used = out->size - from;
  for (; used < width + 2; ++used) TVMRT_RETURN_IF_ERROR(tvmrt__buf_puts(out, " "));
  return 0;
}

/* Width of the longest text in the column, including its name. */
static int column_width(const rows* r, const char* name, size_t* out) {
  tvmrt_buf text = {NULL, 0, 0};
  int rc = 0;
  size_t i;
  *out = strlen(name);
  for (i = 0; i < r->count && rc == 0; ++i) {
    text.size = 0;
    if (r->maps[i] != NULL) rc = metric_text(tvmrt__report_get(r->maps[i], name), &text);
    if (text.size > *out) *out = text.size;
  }
  tvmrt__buf_free(&text);
  return rc;
}

/* Remove the trailing blanks of a line. */
static void end_line(tvmrt_buf* out, size_t from) {
  while (out->size > from && out->data[out->size - 1] == ' ') out->data[--out->size] = '\0';
}

/* Lines have no trailing blanks, so that texts can be compared. */
static int write_rows(const rows* r, const tvmrt_array* columns, const size_t* widths,
                      tvmrt_buf* out) {
  size_t i;
  size_t k;
  for (i = 0; i <= r->count; ++i) { /* the header, then the rows */
    const size_t line = out->size;
    if (i != 0 && r->maps[i - 1] == NULL) {
      TVMRT_RETURN_IF_ERROR(tvmrt__buf_puts(out, "----------\n"));
      continue;
    }
    for (k = 0; k < columns->size; ++k) {
      const size_t from = out->size;
      const char* name = tvmrt__text_of(columns->items[k]);
      if (i == 0) {
        TVMRT_RETURN_IF_ERROR(tvmrt__buf_puts(out, name));
      } else {
        TVMRT_RETURN_IF_ERROR(metric_text(tvmrt__report_get(r->maps[i - 1], name), out));
      }
      TVMRT_RETURN_IF_ERROR(pad(out, from, widths[k]));
    }
    end_line(out, line);
    TVMRT_RETURN_IF_ERROR(tvmrt__buf_puts(out, "\n"));
  }
  return 0;
}

/* First compute the widths from all rows, then write. A missing value is shown as blanks. */
static int write_table(const rows* r, tvmrt_buf* out) {
  static const char* const first[] = {name_column, time_column,       "Percent", "Device",
                                      "Count",     "Argument Shapes", NULL};
  tvmrt_map** all = tvmrt__calloc(r->count + 1, sizeof(*all));
  tvmrt_array* columns = NULL;
  size_t* widths = NULL;
  size_t count = 0;
  size_t i;
  int rc = -1;
  for (i = 0; all != NULL && i < r->count; ++i) {
    if (r->maps[i] != NULL) all[count++] = r->maps[i];
  }
  if (all != NULL) columns = tvmrt__report_columns(all, count, first);
  /* one more, so that the allocation is never empty */
  if (columns != NULL) widths = tvmrt__calloc(columns->size + 1, sizeof(*widths));
  if (widths != NULL) {
    rc = 0;
    for (i = 0; i < columns->size && rc == 0; ++i) {
      rc = column_width(r, tvmrt__text_of(columns->items[i]), &widths[i]);
    }
    if (rc == 0) rc = write_rows(r, columns, widths, out);
  }
  free(widths);
  if (columns != NULL) tvmrt__release(&columns->base);
  free((void*)all);
  return rc;
}

/* One line per member, in insertion order. */
static int write_configuration(const tvmrt_map* configuration, tvmrt_buf* out) {
  tvmrt_buf key = {NULL, 0, 0};
  int rc = tvmrt__buf_puts(out, "\nConfiguration\n-------------\n");
  size_t i;
  for (i = 0; i < configuration->size && rc == 0; ++i) {
    rc = tvmrt__report_key(configuration->entries[i].key, &key);
    if (rc == 0) rc = tvmrt__buf_printf(out, "%s: ", key.data);
    if (rc == 0) rc = metric_text(configuration->entries[i].value, out);
    if (rc == 0) rc = tvmrt__buf_puts(out, "\n");
  }
  tvmrt__buf_free(&key);
  return rc;
}

/* Allocate for a row per call, the separator, the sums, and a total per device. */
int tvmrt__report_table(const tvmrt_report* report, bool sort, bool aggregate, bool sums,
                        tvmrt_buf* out) {
  const size_t calls = report->calls->size;
  const size_t padding = calls + 2 + report->device_metrics->size;
  rows r = {(tvmrt_map**)tvmrt__calloc(padding, sizeof(*r.maps)),
            tvmrt__calloc(padding, sizeof(*r.merged)), 0};
  int rc = r.maps == NULL || r.merged == NULL ? -1 : 0;
  size_t i;
  for (i = 0; i < calls && rc == 0; ++i) {
    rc = add_row(&r, (const tvmrt_map*)(const void*)report->calls->items[i], aggregate);
  }
  if (rc == 0 && sort) sort_rows(&r);
  if (rc == 0 && sums) rc = add_sums(&r);
  if (rc == 0) rc = add_totals(&r, report->device_metrics);
  if (rc == 0) rc = write_table(&r, out);
  if (rc == 0) rc = write_configuration(report->configuration, out);
  free_rows(&r);
  return rc;
}
