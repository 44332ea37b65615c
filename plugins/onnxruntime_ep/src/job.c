#include "job.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sdk/system.h"

enum { MAX_TEXT = 4096 };

typedef struct block {
  struct block* next;
  _Alignas(max_align_t) char data[];
} block;

ort_status* job_end(job* j) {
  for (block *next, *at = j->memory; at != NULL; at = next) {
    next = at->next;
    free(at);
  }
  if (j->folder != NULL) tvmrt__remove_folder(j->folder);
  free(j->folder);
  j->memory = j->folder = NULL;
  return j->status;
}

bool job_check(job* j, ort_status* status) {
  if (status != NULL) {
    j->status = status; /* the first: nothing is called after it */
    j->has_failed = true;
  }
  return !j->has_failed;
}

bool job_fail(job* j, int code, const char* format, ...) {
  static const char prefix[] = "tvmrt: ";
  char text[MAX_TEXT];
  va_list values;
  if (j->has_failed) return false;
  memcpy(text, prefix, sizeof(prefix));
  va_start(values, format);
  (void)vsnprintf(text + sizeof(prefix) - 1, sizeof(text) - sizeof(prefix), format, values);
  va_end(values);
  if (j->note != NULL) {
    const size_t size = strlen(text);
    (void)snprintf(text + size, sizeof(text) - size, "%s", j->note);
  }
  j->status = j->ort->api.CreateStatus(code, text);
  j->has_failed = true;
  return false;
}

bool job_check_tvm(job* j, int rc, int code) {
  return rc == 0 ? !j->has_failed : job_fail(j, code, "%s", TVMGetLastError());
}

void* own_new(job* j, size_t bytes, const ort_slot slots[ORT_OWN_SLOTS]) {
  ort_own* made = j->has_failed ? NULL : tvmrt__calloc(1, bytes);
  if (made == NULL) {
    TVM(j, -1);
    return NULL;
  }
  memcpy(made->slots, slots, sizeof(made->slots));
  made->version = ORT_VERSION_NEEDED; /* in the place of slot 0 */
  return made;
}

void* job_alloc(job* j, size_t count, size_t bytes) {
  block* made = NULL;
  if (j->has_failed) return NULL;
  if (bytes == 0 || count < (SIZE_MAX / 2) / bytes) made = calloc(1, sizeof(*made) + count * bytes);
  if (made == NULL) {
    job_fail(j, ORT_FAIL, "out of memory; close other programs, or use a smaller network");
    return NULL;
  }
  made->next = j->memory;
  j->memory = made;
  return made->data;
}

char* job_text(job* j, const char* format, ...) {
  char* text = NULL;
  int size;
  va_list values;
  va_start(values, format);
  size = vsnprintf(NULL, 0, format, values);
  va_end(values);
  if (size >= 0) text = job_alloc(j, (size_t)size + 1, 1);
  if (text == NULL) return NULL;
  va_start(values, format);
  (void)vsnprintf(text, (size_t)size + 1, format, values);
  va_end(values);
  return text;
}

char* job_file(job* j, const char* name) {
  if (j->folder == NULL && !j->has_failed) {
    char* base = tvmrt__temporary_folder();
    char* path = job_text(j, "%s/tvmrt-ep-XXXXXX", base == NULL ? "/tmp" : base);
    if (base != NULL && is_open_to_others(base)) {
      job_fail(j, ORT_FAIL,
               "the temporary folder %s is unsafe, since other users can replace files in it; set "
               "TMPDIR to another one",
               base);
    }
    free(base);
    if (!j->has_failed && tvmrt__make_unique_folder(path) != 0) {
      job_fail(j, ORT_FAIL,
               "no temporary folder can be made as %s (%s); set TMPDIR to a folder that can be "
               "written",
               path, strerror(errno));
    }
    if (!j->has_failed) TVM(j, (j->folder = tvmrt__strdup(path)) == NULL ? -1 : 0);
  }
  return j->has_failed ? NULL : job_text(j, "%s/%s", j->folder, name);
}

list job_list(job* j, const void* of, ort_status* (*count)(const void*, size_t*),
              ort_status* (*items)(const void*, const void**, size_t)) {
  list found = {NULL, 0};
  if (!j->has_failed) job_check(j, count(of, &found.count));
  found.items = job_alloc(j, found.count + 1, sizeof(*found.items));
  if (found.count > 0 && found.items != NULL) job_check(j, items(of, found.items, found.count));
  if (j->has_failed) found.count = 0;
  return found;
}

const char** job_names(job* j, list infos) {
  const char** names = job_alloc(j, infos.count + 1, sizeof(*names));
  for (size_t i = 0; names != NULL && i < infos.count; ++i) {
    names[i] = "";
    if (infos.items[i] != NULL) ORT(j, api.GetValueInfoName, infos.items[i], &names[i]);
  }
  return names;
}

char* job_attribute(job* j, const ort_attribute* attribute, int type, size_t* bytes) {
  char* data;
  ort_status* too_small;
  if (j->has_failed) return NULL;
  *bytes = 0;
  too_small = j->ort->api.ReadOpAttr(attribute, type, NULL, 0, bytes);
  if (too_small != NULL) j->ort->api.ReleaseStatus(too_small);
  data = job_alloc(j, *bytes + 1, 1);
  if (data != NULL && *bytes > 0) ORT(j, api.ReadOpAttr, attribute, type, data, *bytes, bytes);
  return j->has_failed ? NULL : data;
}
