/* Reports of profiling as JSON, as comma-separated values and as a table.
 *
 * A report is maps from names to metrics, which profilers of all kinds fill: names are TVM's,
 * values boxed numbers or texts. What is no metric fails with its type. Texts grow in the caller's
 * buffer, who frees it also on failure. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "../base/json.h"
#include "../tensors/memory_device.h"
#include "report.h"

static const char name_column[] = "Name";
static const char time_column[] = "Duration (us)";

/* Devices are keys as well, in reports that front ends make. */
int tvmrt__report_key(const tvmrt_object* key, tvmrt_buf* out) {
  out->size = 0;
  if (key->type_index == TVMRT_TYPE_STRING) {
    return tvmrt__buf_puts(out, ((const tvmrt_string*)(const void*)key)->data);
  }
  if (key->type_index == TVMRT_TYPE_DEVICE_WRAPPER) {
    const DLDevice dev = ((const tvmrt_device_wrapper*)(const void*)key)->device;
    return tvmrt__buf_printf(out, "%s%d", tvmrt__memory_device_name(dev.device_type),
                             (int)dev.device_id);
  }
  return tvmrt__fail_type("a report names things by text or by device, got a %s.",
                          tvmrt__type_key(key->type_index));
}

/* By the map's table of texts, without making a String to ask by. Borrowed; NULL where there is
 * none. */
tvmrt_object* tvmrt__report_get(const tvmrt_map* map, const char* key) {
  const tvmrt_strmap_slot* slot = tvmrt__strmap_find(&map->by_text, key);
  return slot == NULL ? NULL : map->entries[(uintptr_t)slot->value - 1].value;
}

/* Always -1. */
static int refuse(const tvmrt_object* value) {
  const char* key = tvmrt__type_key(value->type_index);
  return tvmrt__fail_type("a report holds durations, percents, ratios, counts and texts, not a %s.",
                          key == NULL ? "thing" : key);
}

/* ---- JSON ---- */

static int write_metric(tvmrt_buf* out, const tvmrt_object* value) {
  const char* member = tvmrt__metric_member(value);
  if (value->type_index == TVMRT_TYPE_STRING) {
    TVMRT_RETURN_IF_ERROR(tvmrt__buf_puts(out, "{\"string\":"));
    TVMRT_RETURN_IF_ERROR(
        tvmrt__json_write_string(out, ((const tvmrt_string*)(const void*)value)->data));
    return tvmrt__buf_puts(out, "}");
  }
  if (member == NULL) return refuse(value);
  if (value->type_index == TVMRT_TYPE_COUNT) {
    return tvmrt__buf_printf(out, "{\"%s\":%" PRId64 "}", member,
                             ((const tvmrt_box*)(const void*)value)->as.integer);
  }
  return tvmrt__buf_printf(out, "{\"%s\":%.17f}", member,
                           ((const tvmrt_box*)(const void*)value)->as.real);
}

/* One walk for metrics and for maps of them: `write` writes a value. */
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

static int write_metrics(tvmrt_buf* out, const tvmrt_object* map) {
  if (map->type_index != TVMRT_TYPE_MAP) return refuse(map);
  return write_map(out, (const tvmrt_map*)(const void*)map, write_metric);
}

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

/* For qsort() over pointers to texts. */
static int by_text(const void* a, const void* b) {
  return strcmp(*(char* const*)a, *(char* const*)b);
}

/* The names of all columns in one map, each with a number that says nothing. */
static int gather(tvmrt_map* const* maps, size_t count, tvmrt_strmap* names, tvmrt_buf* list) {
  size_t i;
  size_t k;
  for (i = 0; i < count; ++i) {
    for (k = 0; k < maps[i]->size; ++k) {
      const tvmrt_object* key = maps[i]->entries[k].key;
      const char* text = ((const tvmrt_string*)(const void*)key)->data;
      tvmrt_strmap_slot* slot;
      if (key->type_index != TVMRT_TYPE_STRING) return refuse(key);
      slot = tvmrt__strmap_insert(names, text);
      if (slot == NULL) return -1;
      if (slot->value != NULL) continue;
      slot->value = list;
      TVMRT_RETURN_IF_ERROR(tvmrt__buf_append(list, &text, sizeof(text)));
    }
  }
  return 0;
}

/* Those that come first change places with what stands there; the others are sorted after. */
static void put_in_order(const char** names, size_t count, const char* const* first) {
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

/* Owned; NULL with the error text set. Those of `first` come first, as far as there are such
 * columns. */
tvmrt_array* tvmrt__report_columns(tvmrt_map* const* maps, size_t count, const char* const* first) {
  tvmrt_strmap names = {0};
  tvmrt_buf list = {NULL, 0, 0};
  tvmrt_array* columns = NULL;
  if (gather(maps, count, &names, &list) == 0) {
    const char** texts = (const char**)(void*)list.data;
    const size_t n = list.size / sizeof(*texts);
    if (n != 0) put_in_order(texts, n, first);
    columns = tvmrt__array_of_texts(texts, n);
  }
  tvmrt__strmap_free(&names);
  tvmrt__buf_free(&list);
  return columns;
}

/* ---- comma-separated values ---- */

static int write_field(tvmrt_buf* out, const tvmrt_object* value) {
  const char* c;
  if (value == NULL) return 0;
  if (value->type_index == TVMRT_TYPE_COUNT) {
    return tvmrt__buf_printf(out, "%" PRId64, ((const tvmrt_box*)(const void*)value)->as.integer);
  }
  if (tvmrt__metric_member(value) != NULL) {
    return tvmrt__buf_printf(out, "%g", ((const tvmrt_box*)(const void*)value)->as.real);
  }
  if (value->type_index != TVMRT_TYPE_STRING) return refuse(value);
  TVMRT_RETURN_IF_ERROR(tvmrt__buf_puts(out, "\""));
  for (c = ((const tvmrt_string*)(const void*)value)->data; *c != '\0'; ++c) {
    if (*c == '"') TVMRT_RETURN_IF_ERROR(tvmrt__buf_puts(out, "\""));
    TVMRT_RETURN_IF_ERROR(tvmrt__buf_append(out, c, 1));
  }
  return tvmrt__buf_puts(out, "\"");
}

static const char* column_name(const tvmrt_array* columns, size_t i) {
  return ((const tvmrt_string*)(const void*)columns->items[i])->data;
}

static int write_fields(const tvmrt_report* report, const tvmrt_array* columns, tvmrt_buf* out) {
  size_t i;
  size_t k;
  for (k = 0; k < columns->size; ++k) {
    if (k != 0) TVMRT_RETURN_IF_ERROR(tvmrt__buf_puts(out, ","));
    TVMRT_RETURN_IF_ERROR(tvmrt__buf_puts(out, column_name(columns, k)));
  }
  TVMRT_RETURN_IF_ERROR(tvmrt__buf_puts(out, "\n"));
  for (i = 0; i < report->calls->size; ++i) {
    const tvmrt_map* call = (const tvmrt_map*)(const void*)report->calls->items[i];
    for (k = 0; k < columns->size; ++k) {
      if (k != 0) TVMRT_RETURN_IF_ERROR(tvmrt__buf_puts(out, ","));
      TVMRT_RETURN_IF_ERROR(write_field(out, tvmrt__report_get(call, column_name(columns, k))));
    }
    TVMRT_RETURN_IF_ERROR(tvmrt__buf_puts(out, "\n"));
  }
  return 0;
}

int tvmrt__report_csv(const tvmrt_report* report, tvmrt_buf* out) {
  static const char* const none[] = {NULL};
  tvmrt_map* const* calls = (tvmrt_map* const*)(const void*)report->calls->items;
  tvmrt_array* columns = tvmrt__report_columns(calls, report->calls->size, none);
  int rc = columns == NULL ? -1 : write_fields(report, columns, out);
  if (columns != NULL) tvmrt__release(&columns->base);
  return rc;
}

/* ---- the table ---- */

/* Two digits are enough for people; JSON has the others. */
int tvmrt__metric_text(const tvmrt_object* value, tvmrt_buf* out) {
  if (value == NULL) return 0;
  if (value->type_index == TVMRT_TYPE_STRING) {
    return tvmrt__buf_puts(out, ((const tvmrt_string*)(const void*)value)->data);
  }
  if (tvmrt__metric_member(value) == NULL) return refuse(value);
  if (value->type_index == TVMRT_TYPE_COUNT) {
    return tvmrt__buf_printf(out, "%" PRId64, ((const tvmrt_box*)(const void*)value)->as.integer);
  }
  return tvmrt__buf_printf(out, "%.2f", ((const tvmrt_box*)(const void*)value)->as.real);
}

/* Rows are maps of their own; NULL is a line. */
typedef struct rows {
  tvmrt_map** maps;
  size_t* merged; /* how many calls are in each */
  size_t count;
} rows;

static void free_rows(rows* r) {
  size_t i;
  for (i = 0; i < r->count; ++i) {
    if (r->maps[i] != NULL) tvmrt__release(&r->maps[i]->base);
  }
  free(r->maps);
  free(r->merged);
}

static bool same_text(const tvmrt_map* a, const tvmrt_map* b, const char* key) {
  const tvmrt_object* x = tvmrt__report_get(a, key);
  const tvmrt_object* y = tvmrt__report_get(b, key);
  if (x == NULL || y == NULL) return x == y;
  return x->type_index == TVMRT_TYPE_STRING && y->type_index == TVMRT_TYPE_STRING &&
         strcmp(((const tvmrt_string*)(const void*)x)->data,
                ((const tvmrt_string*)(const void*)y)->data) == 0;
}

/* Calls are one row if they are of one function, of the same shapes, on the same device. A hash,
 * where there is one, is of the function and of its shapes. */
static bool same_row(const tvmrt_map* a, const tvmrt_map* b) {
  const char* name = tvmrt__report_get(a, "Hash") != NULL ? "Hash" : name_column;
  return same_text(a, b, name) && same_text(a, b, "Argument Shapes") && same_text(a, b, "Device");
}

/* What a row of `merged` calls says with one more; ratios are means, texts that differ say nothing. */
static tvmrt_object* combine(const tvmrt_object* old, tvmrt_object* value, size_t merged) {
  double sum;
  if (old != NULL && value->type_index == TVMRT_TYPE_STRING) {
    const char* text = ((const tvmrt_string*)(const void*)value)->data;
    const bool same = old->type_index == TVMRT_TYPE_STRING &&
                      strcmp(((const tvmrt_string*)(const void*)old)->data, text) == 0;
    return (tvmrt_object*)tvmrt__string_new(text, same ? strlen(text) : 0);
  }
  /* The first of its name, or what cannot be added, is taken as it is. */
  if (old == NULL || old->type_index != value->type_index || tvmrt__metric_member(value) == NULL) {
    tvmrt__retain(value);
    return value;
  }
  sum = tvmrt__metric_value((const tvmrt_box*)(const void*)old);
  if (value->type_index == TVMRT_TYPE_RATIO) sum *= (double)merged;
  sum += tvmrt__metric_value((const tvmrt_box*)(const void*)value);
  if (value->type_index == TVMRT_TYPE_RATIO) sum /= (double)merged + 1;
  return (tvmrt_object*)tvmrt__metric_new((tvmrt_type)value->type_index, sum);
}

/* `merged` is how many calls the row has already; 0 for a new one. */
static int merge(tvmrt_map* row, const tvmrt_map* call, size_t merged) {
  size_t i;
  for (i = 0; i < call->size; ++i) {
    const tvmrt_map_entry* e = &call->entries[i];
    const tvmrt_object* old = merged == 0 ? NULL : tvmrt__map_get(row, e->key);
    tvmrt_object* value = combine(old, e->value, merged);
    /* The key is kept for the map, which takes both over. */
    if (value == NULL) return -1;
    tvmrt__retain(e->key);
    TVMRT_RETURN_IF_ERROR(tvmrt__map_set(row, e->key, value));
  }
  return 0;
}

/* The row is counted as soon as it is there, for free_rows(); `maps` has room for all calls. */
static int add_row(rows* r, const tvmrt_map* call, bool aggregate) {
  size_t i = r->count;
  if (aggregate) {
    for (i = 0; i < r->count && !same_row(r->maps[i], call); ++i) continue;
  }
  if (i == r->count) {
    r->maps[i] = tvmrt__map_new();
    if (r->maps[i] == NULL) return -1;
    ++r->count;
  }
  return merge(r->maps[i], call, r->merged[i]++);
}

static double time_of(const tvmrt_map* row) {
  const tvmrt_object* value = tvmrt__report_get(row, time_column);
  return value == NULL || tvmrt__metric_member(value) == NULL
             ? 0
             : tvmrt__metric_value((const tvmrt_box*)(const void*)value);
}

/* The slowest first; equal ones stay in their order. Insertion is enough for as many rows as a
 * network has operators. */
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

/* What adds up, of all rows, under the name "Sum". */
static int add_sums(rows* r) {
  const size_t calls = r->count;
  tvmrt_map* sum = tvmrt__map_new();
  size_t i;
  size_t k;
  if (sum == NULL) return -1;
  /* The line between calls and sums is a row without a map. */
  r->maps[r->count++] = NULL;
  r->maps[r->count++] = sum;
  TVMRT_RETURN_IF_ERROR(
      tvmrt__map_set_text(sum, name_column, (tvmrt_object*)tvmrt__string_new("Sum", 3)));
  for (i = 0; i < calls; ++i) {
    for (k = 0; k < r->maps[i]->size; ++k) {
      const tvmrt_map_entry* e = &r->maps[i]->entries[k];
      tvmrt_object* value;
      /* Ratios have no sum, and texts none either. */
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

/* A row for each device with what the report says of it as a whole, below the sums. */
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
    /* Front ends make reports, too: what is no map is refused here, since nobody has looked
     * before. */
    if (rc == 0 && metrics->type_index != TVMRT_TYPE_MAP) rc = refuse(metrics);
    if (rc == 0) rc = merge(total, (const tvmrt_map*)(const void*)metrics, 0);
  }
  tvmrt__buf_free(&key);
  return rc;
}

/* A text in so many places, and two more before the next one. Columns are counted in bytes, as
 * names of functions are ASCII. */
static int pad(tvmrt_buf* out, size_t from, size_t width) {
  size_t used = out->size - from;
  for (; used < width + 2; ++used) TVMRT_RETURN_IF_ERROR(tvmrt__buf_puts(out, " "));
  return 0;
}

static int column_width(const rows* r, const char* name, size_t* out) {
  tvmrt_buf text = {NULL, 0, 0};
  int rc = 0;
  size_t i;
  *out = strlen(name);
  for (i = 0; i < r->count && rc == 0; ++i) {
    text.size = 0;
    if (r->maps[i] != NULL) rc = tvmrt__metric_text(tvmrt__report_get(r->maps[i], name), &text);
    if (text.size > *out) *out = text.size;
  }
  tvmrt__buf_free(&text);
  return rc;
}

static void end_line(tvmrt_buf* out, size_t from) {
  while (out->size > from && out->data[out->size - 1] == ' ') out->data[--out->size] = '\0';
}

static int write_rows(const rows* r, const tvmrt_array* columns, const size_t* widths,
                      tvmrt_buf* out) {
  size_t i;
  size_t k;
  for (i = 0; i <= r->count; ++i) { /* the head, then the rows */
    const size_t line = out->size;
    if (i != 0 && r->maps[i - 1] == NULL) {
      TVMRT_RETURN_IF_ERROR(tvmrt__buf_puts(out, "----------\n"));
      continue;
    }
    for (k = 0; k < columns->size; ++k) {
      const size_t from = out->size;
      const char* name = column_name(columns, k);
      if (i == 0) {
        TVMRT_RETURN_IF_ERROR(tvmrt__buf_puts(out, name));
      } else {
        TVMRT_RETURN_IF_ERROR(tvmrt__metric_text(tvmrt__report_get(r->maps[i - 1], name), out));
      }
      TVMRT_RETURN_IF_ERROR(pad(out, from, widths[k]));
    }
    end_line(out, line);
    TVMRT_RETURN_IF_ERROR(tvmrt__buf_puts(out, "\n"));
  }
  return 0;
}

/* Widths first, from all rows: two passes over the same texts. All rows have the same columns; a
 * row that lacks one shows blanks there. */
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
  /* one more, so that no columns are not an empty allocation */
  if (columns != NULL) widths = tvmrt__calloc(columns->size + 1, sizeof(*widths));
  if (widths != NULL) {
    rc = 0;
    for (i = 0; i < columns->size && rc == 0; ++i) {
      rc = column_width(r, column_name(columns, i), &widths[i]);
    }
    if (rc == 0) rc = write_rows(r, columns, widths, out);
  }
  free(widths);
  if (columns != NULL) tvmrt__release(&columns->base);
  free((void*)all);
  return rc;
}

static int write_configuration(const tvmrt_map* configuration, tvmrt_buf* out) {
  tvmrt_buf key = {NULL, 0, 0};
  int rc = tvmrt__buf_puts(out, "\nConfiguration\n-------------\n");
  size_t i;
  for (i = 0; i < configuration->size && rc == 0; ++i) {
    rc = tvmrt__report_key(configuration->entries[i].key, &key);
    if (rc == 0) rc = tvmrt__buf_printf(out, "%s: ", key.data);
    if (rc == 0) rc = tvmrt__metric_text(configuration->entries[i].value, out);
    if (rc == 0) rc = tvmrt__buf_puts(out, "\n");
  }
  tvmrt__buf_free(&key);
  return rc;
}

/* Room for a row of each call, the line, the sums, and a total of each device. */
int tvmrt__report_table(const tvmrt_report* report, bool sort, bool aggregate, bool sums,
                        tvmrt_buf* out) {
  const size_t calls = report->calls->size;
  const size_t room = calls + 2 + report->device_metrics->size;
  rows r = {(tvmrt_map**)tvmrt__calloc(room, sizeof(*r.maps)),
            tvmrt__calloc(room, sizeof(*r.merged)), 0};
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
