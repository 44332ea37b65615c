/* Profiling reports as JSON and as comma-separated values; report_table.c has the table.
 *
 * A report contains maps from names to metrics, filled by profilers of all kinds: names are TVM's,
 * values are boxed numbers or texts. A value that is not a metric is reported with its type. The
 * text grows in the caller's buffer, which the caller frees, also on failure. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"
#include "sdk/base.h"
#include "sdk/tensors.h"

/* In reports made by frontends, keys may also be devices. */
int tvmrt__report_key(const tvmrt_object* key, tvmrt_buf* out) {
  out->size = 0;
  if (key->type_index == TVMRT_TYPE_STRING) {
    return tvmrt__buf_puts(out, tvmrt__text_of(key));
  }
  if (key->type_index == TVMRT_TYPE_DEVICE_WRAPPER) {
    const DLDevice dev = ((const tvmrt_device_wrapper*)(const void*)key)->device;
    return tvmrt__buf_printf(out, "%s%d", tvmrt__memory_device_name(dev.device_type),
                             (int)dev.device_id);
  }
  return tvmrt__fail_type("an entry of a report must be named by a string or a device, got a %s.",
                          tvmrt__type_key(key->type_index));
}

/* Uses the map's text table, without making a String. Borrowed; NULL if there is none. */
tvmrt_object* tvmrt__report_get(const tvmrt_map* map, const char* key) {
  const tvmrt_strmap_slot* slot = tvmrt__strmap_find(&map->by_text, key);
  return slot == NULL ? NULL : map->entries[(uintptr_t)slot->value - 1].value;
}

int tvmrt__report_refuse(const tvmrt_object* value) {
  const char* key = tvmrt__type_key(value->type_index);
  return tvmrt__fail_type("a metric must be a duration, percent, ratio, count or string, not a %s.",
                          key == NULL ? "thing" : key);
}

int tvmrt__metric_number(const tvmrt_object* value, char style, int digits, tvmrt_buf* out) {
  const tvmrt_box* box = (const tvmrt_box*)(const void*)value;
  if (value->type_index != TVMRT_TYPE_COUNT) {
    return tvmrt__write_real(out, style, digits, box->as.real);
  }
  return tvmrt__buf_printf(out, "%" PRId64, box->as.integer);
}

/* ---- JSON ---- */

/* Seventeen digits after the point, as in TVM's reports. */
static int write_metric(tvmrt_buf* out, const tvmrt_object* value) {
  const char* member = tvmrt__metric_member(value);
  if (value->type_index == TVMRT_TYPE_STRING) {
    TVMRT_RETURN_IF_ERROR(tvmrt__buf_puts(out, "{\"string\":"));
    TVMRT_RETURN_IF_ERROR(tvmrt__json_write_string(out, tvmrt__text_of(value)));
    return tvmrt__buf_puts(out, "}");
  }
  if (member == NULL) return tvmrt__report_refuse(value);
  TVMRT_RETURN_IF_ERROR(tvmrt__buf_printf(out, "{\"%s\":", member));
  TVMRT_RETURN_IF_ERROR(tvmrt__metric_number(value, 'f', 17, out));
  return tvmrt__buf_puts(out, "}");
}

/* Write a map of metrics, or a map of such maps; `write` writes one value. */
static int write_map(tvmrt_buf* out, const tvmrt_map* map,
                     int (*write)(tvmrt_buf*, const tvmrt_object*)) {
  tvmrt_buf key = {NULL, 0, 0};
  int rc = tvmrt__buf_puts(out, "{");
  size_t i;
  for (i = 0; i < map->size && rc == 0; ++i) {
    rc = tvmrt__report_key(map->entries[i].key, &key);
    if (rc == 0 && i != 0) rc = tvmrt__buf_puts(out, ",");
    if (rc == 0) rc = tvmrt__json_write_string(out, key.data);
    if (rc == 0) rc = tvmrt__buf_puts(out, ":");
    if (rc == 0) rc = write(out, map->entries[i].value);
  }
  tvmrt__buf_free(&key);
  return rc != 0 ? rc : tvmrt__buf_puts(out, "}");
}

/* Calls were checked when the report was made; metrics of devices were not. */
static int write_metrics(tvmrt_buf* out, const tvmrt_object* map) {
  if (map->type_index != TVMRT_TYPE_MAP) return tvmrt__report_refuse(map);
  return write_map(out, (const tvmrt_map*)(const void*)map, write_metric);
}

/* TVM's member order and TVM's format without blanks. */
int tvmrt__report_json(const tvmrt_report* report, tvmrt_buf* out) {
  size_t i;
  TVMRT_RETURN_IF_ERROR(tvmrt__buf_puts(out, "{\"calls\":["));
  for (i = 0; i < report->calls->size; ++i) {
    if (i != 0) TVMRT_RETURN_IF_ERROR(tvmrt__buf_puts(out, ","));
    TVMRT_RETURN_IF_ERROR(write_metrics(out, report->calls->items[i]));
  }
  TVMRT_RETURN_IF_ERROR(tvmrt__buf_puts(out, "],\"device_metrics\":"));
  TVMRT_RETURN_IF_ERROR(write_map(out, report->device_metrics, write_metrics));
  TVMRT_RETURN_IF_ERROR(tvmrt__buf_puts(out, ",\"configuration\":"));
  TVMRT_RETURN_IF_ERROR(write_map(out, report->configuration, write_metric));
  return tvmrt__buf_puts(out, "}");
}

/* ---- columns ---- */

/* Comparison of texts for qsort(). */
static int by_text(const void* a, const void* b) {
  return strcmp(*(char* const*)a, *(char* const*)b);
}

/* Collect the names of all columns, without duplicates; the map's values are only marks. */
static int collect_names(tvmrt_map* const* maps, size_t count, tvmrt_strmap* names,
                         tvmrt_buf* list) {
  size_t i;
  size_t k;
  for (i = 0; i < count; ++i) {
    for (k = 0; k < maps[i]->size; ++k) {
      const tvmrt_object* key = maps[i]->entries[k].key;
      const char* text = tvmrt__text_of(key);
      tvmrt_strmap_slot* slot;
      if (key->type_index != TVMRT_TYPE_STRING) return tvmrt__report_refuse(key);
      slot = tvmrt__strmap_insert(names, text);
      if (slot == NULL) return -1;
      if (slot->value != NULL) continue;
      slot->value = list;
      TVMRT_RETURN_IF_ERROR(tvmrt__buf_append(list, &text, sizeof(text)));
    }
  }
  return 0;
}

/* Swap the names of `first` to the front; sort the others. */
static void order_names(const char** names, size_t count, const char* const* first) {
  size_t done = 0;
  size_t i;
  for (; *first != NULL; ++first) {
    for (i = done; i < count && strcmp(names[i], *first) != 0; ++i) continue;
    /* the report has no such column */
    if (i == count) continue;
    names[i] = names[done];
    names[done++] = *first;
  }
  if (count > done) qsort((void*)(names + done), count - done, sizeof(*names), by_text);
}

/* Owned; NULL with the error text set. Existing columns of `first` come first. */
tvmrt_array* tvmrt__report_columns(tvmrt_map* const* maps, size_t count, const char* const* first) {
  tvmrt_strmap names = {0};
  tvmrt_buf list = {NULL, 0, 0};
  tvmrt_array* columns = NULL;
  if (collect_names(maps, count, &names, &list) == 0) {
    const char** texts = (const char**)(void*)list.data;
    const size_t n = list.size / sizeof(*texts);
    if (n != 0) order_names(texts, n, first);
    columns = tvmrt__array_of_texts(texts, n);
  }
  tvmrt__strmap_free(&names);
  tvmrt__buf_free(&list);
  return columns;
}

/* ---- comma-separated values ---- */

/* The field is empty if a call lacks the column. Texts are quoted, with doubled quotes inside. */
static int write_field(tvmrt_buf* out, const tvmrt_object* value) {
  const char* c;
  if (value == NULL) return 0;
  if (tvmrt__metric_member(value) != NULL) return tvmrt__metric_number(value, 'g', 6, out);
  if (value->type_index != TVMRT_TYPE_STRING) return tvmrt__report_refuse(value);
  TVMRT_RETURN_IF_ERROR(tvmrt__buf_puts(out, "\""));
  for (c = tvmrt__text_of(value); *c != '\0'; ++c) {
    if (*c == '"') TVMRT_RETURN_IF_ERROR(tvmrt__buf_puts(out, "\""));
    TVMRT_RETURN_IF_ERROR(tvmrt__buf_append(out, c, 1));
  }
  return tvmrt__buf_puts(out, "\"");
}

/* A header line, then a line per call. */
static int write_fields(const tvmrt_report* report, const tvmrt_array* columns, tvmrt_buf* out) {
  size_t i;
  size_t k;
  for (k = 0; k < columns->size; ++k) {
    if (k != 0) TVMRT_RETURN_IF_ERROR(tvmrt__buf_puts(out, ","));
    TVMRT_RETURN_IF_ERROR(tvmrt__buf_puts(out, tvmrt__text_of(columns->items[k])));
  }
  TVMRT_RETURN_IF_ERROR(tvmrt__buf_puts(out, "\n"));
  for (i = 0; i < report->calls->size; ++i) {
    const tvmrt_map* call = (const tvmrt_map*)(const void*)report->calls->items[i];
    for (k = 0; k < columns->size; ++k) {
      const char* name = tvmrt__text_of(columns->items[k]);
      if (k != 0) TVMRT_RETURN_IF_ERROR(tvmrt__buf_puts(out, ","));
      TVMRT_RETURN_IF_ERROR(write_field(out, tvmrt__report_get(call, name)));
    }
    TVMRT_RETURN_IF_ERROR(tvmrt__buf_puts(out, "\n"));
  }
  return 0;
}

/* Columns are sorted by name, since profilers define no order. */
int tvmrt__report_csv(const tvmrt_report* report, tvmrt_buf* out) {
  static const char* const none[] = {NULL};
  tvmrt_map* const* calls = (tvmrt_map* const*)(const void*)report->calls->items;
  tvmrt_array* columns = tvmrt__report_columns(calls, report->calls->size, none);
  int rc = columns == NULL ? -1 : write_fields(report, columns, out);
  if (columns != NULL) tvmrt__release(&columns->base);
  return rc;
}
