/* The prefix table: files `plugins.txt`, read once, and rows that are added later. */
#include "plugin_prefixes.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <tvm/runtime/plugin.h>

#include "../base/error.h"
#include "../platform/files.h"
#include "../platform/loading.h"
#include "../platform/threads.h"

static const char kFile[] = "plugins.txt";
static tvmrt_mutex lock = TVMRT_MUTEX_INIT; /* for adding rows */
static _Atomic(tvmrt_prefix*) first;

/* A string that need not end with a NUL. */
typedef struct piece {
  const char* text;
  size_t size;
} piece;

static tvmrt_prefix* first_row(void) { return atomic_load_explicit(&first, memory_order_acquire); }

/* Called with the lock held. */
static tvmrt_prefix* find_equal(piece prefix) {
  tvmrt_prefix* row = first_row();
  while (row != NULL &&
         (row->size != prefix.size || memcmp(row->text, prefix.text, prefix.size) != 0)) {
    row = tvmrt__prefix_next(row);
  }
  return row;
}

/* Called with the lock held; appends at the end, so that of equal prefixes the first is found. */
static void append_row(tvmrt_prefix* row) {
  _Atomic(tvmrt_prefix*)* at = &first;
  tvmrt_prefix* each;
  while ((each = atomic_load_explicit(at, memory_order_relaxed)) != NULL) at = &each->next;
  atomic_store_explicit(at, row, memory_order_release);
}

/* A library without a folder lies in `folder`, which ends with its separator or is empty. */
static tvmrt_prefix* make_row(piece prefix, piece folder, piece library) {
  const size_t bytes = sizeof(tvmrt_prefix) + prefix.size + 1 + folder.size + library.size + 1;
  tvmrt_prefix* row = tvmrt__calloc(1, bytes);
  char* path;
  if (row == NULL) return NULL;
  row->size = prefix.size;
  memcpy(row->text, prefix.text, prefix.size);
  path = row->text + prefix.size + 1;
  memcpy(path, folder.text, folder.size);
  memcpy(path + folder.size, library.text, library.size);
  row->library = path;
  return row;
}

/* If memory is exhausted, the row is omitted: its functions count as missing. */
static void add_line(piece folder, piece prefix, piece library) {
  tvmrt_prefix* row;
  size_t i;
  for (i = 0; i < library.size; ++i) {
    if (library.text[i] == '/' || library.text[i] == '\\') folder.size = 0;
  }
  tvmrt__lock(&lock);
  if (find_equal(prefix) == NULL) {
    row = make_row(prefix, folder, library);
    if (row != NULL) append_row(row);
  }
  tvmrt__unlock(&lock);
}

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

/* Lines "prefix library"; the library's name may contain blanks. */
static void read_line(piece folder, const char* at, const char* end) {
  piece prefix, library;
  while (at < end && is_blank(*at)) ++at;
  prefix.text = at;
  while (at < end && !is_blank(*at)) ++at;
  prefix.size = (size_t)(at - prefix.text);
  while (at < end && is_blank(*at)) ++at;
  while (end > at && is_blank(end[-1])) --end;
  library.text = at;
  library.size = (size_t)(end - at);
  if (library.size != 0 && *prefix.text != '#') add_line(folder, prefix, library);
}

/* Read the file of a folder, whose path ends with its separator; a missing file has no rows. */
static void read_folder(const tvmrt_buf* folder) {
  const piece where = {folder->data, folder->size};
  tvmrt_buf path = {NULL, 0, 0};
  tvmrt_buf text = {NULL, 0, 0};
  if (tvmrt__buf_printf(&path, "%s%s", folder->data, kFile) == 0 && tvmrt__is_readable(path.data) &&
      tvmrt__read_file(path.data, &text) == 0) {
    const char* at = text.data;
    const char* end = text.data + text.size;
    while (at < end) {
      const char* stop = memchr(at, '\n', (size_t)(end - at));
      if (stop == NULL) stop = end;
      read_line(where, at, stop);
      at = stop + 1;
    }
  }
  tvmrt__buf_free(&path);
  tvmrt__buf_free(&text);
}

/* The user's folders come first, so that their plug-ins override installed ones. */
static void read_path(void) {
  const char* at = getenv("TVMRT_PLUGIN_PATH");
  while (at != NULL && *at != '\0') {
    const char* end = strchr(at, TVMRT_PATH_SEPARATOR);
    const size_t size = end == NULL ? strlen(at) : (size_t)(end - at);
    tvmrt_buf folder = {NULL, 0, 0};
    /* skip empty folder names */
    if (size != 0 && tvmrt__buf_printf(&folder, "%.*s/", (int)size, at) == 0) read_folder(&folder);
    tvmrt__buf_free(&folder);
    at = end == NULL ? NULL : end + 1;
  }
}

int tvmrt__append_own_folder(tvmrt_buf* out, const void* address) {
  const char* path = tvmrt__library_of(address);
  char* real = path == NULL ? NULL : tvmrt__real_path(path);
  int rc = 0;
  if (real != NULL) rc = tvmrt__buf_append(out, real, (size_t)(tvmrt__file_name(real) - real));
  free(real);
  return rc;
}

static void read_files(void) {
  tvmrt_buf folder = {NULL, 0, 0};
  read_path();
  if (tvmrt__append_own_folder(&folder, kFile) == 0 && folder.size != 0) read_folder(&folder);
  tvmrt__buf_free(&folder);
}

tvmrt_prefix* tvmrt__prefixes(void) {
  static tvmrt_once once = TVMRT_ONCE_INIT;
  tvmrt__call_once(&once, read_files);
  return first_row();
}

tvmrt_prefix* tvmrt__prefix_find(const char* name) {
  tvmrt_prefix* row;
  tvmrt_prefix* best = NULL;
  for (row = tvmrt__prefixes(); row != NULL; row = tvmrt__prefix_next(row)) {
    /* most rows differ in the first letter */
    if (*name == *row->text && (best == NULL || row->size > best->size) &&
        strncmp(name, row->text, row->size) == 0) {
      best = row;
    }
  }
  return best;
}

/* The files are read before, so that a conflict with their rows is detected. */
int tvmrt_plugin_add_prefix(const char* prefix, const char* library) {
  const piece no_folder = {"", 0};
  tvmrt_prefix* row;
  int rc = 0;
  if (prefix == NULL || *prefix == '\0' || library == NULL || *library == '\0') {
    return tvmrt__fail_value("tvmrt_plugin_add_prefix: give a prefix and the path of a library.");
  }
  (void)tvmrt__prefixes();
  tvmrt__lock(&lock);
  row = find_equal((piece){prefix, strlen(prefix)});
  if (row == NULL) {
    row = make_row((piece){prefix, strlen(prefix)}, no_folder, (piece){library, strlen(library)});
    if (row != NULL) append_row(row);
    rc = row == NULL ? -1 : 0;
  } else if (strcmp(row->library, library) != 0) {
    rc = tvmrt__fail_value(
        "the prefix '%s' belongs to the plug-in '%.200s' already, not to '%.200s'.", prefix,
        row->library, library);
  }
  tvmrt__unlock(&lock);
  return rc;
}
