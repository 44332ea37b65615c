/* One call by onnxruntime: its first error, and the memory and files that are released at its end. */
#ifndef TVMRT_ONNXRUNTIME_EP_JOB_H_
#define TVMRT_ONNXRUNTIME_EP_JOB_H_

#include "abi.h"
#include "sdk/base.h"

/* After an error nothing more is called: each function below does nothing, and returns false, NULL
 * or an empty list. Results of functions that were not called keep their values. */
typedef struct job {
  const ort_functions* ort;
  bool has_failed;
  ort_status* status; /* the error; NULL without memory for it */
  void* memory;       /* blocks, the newest first */
  char* folder;       /* of temporary files; NULL: none yet */
  const char* note;   /* appended to the texts of errors; NULL: none */
} job;

/* The error of the job, or NULL. Releases the job's memory and files. */
ort_status* job_end(job* j);

/* Call a function of onnxruntime or of tvmrt's runtime; whether it and all before succeeded. */
#define ORT(j, function, ...) \
  job_check((j), (j)->has_failed ? NULL : (j)->ort->function(__VA_ARGS__))
#define TVM(j, call) job_check_tvm((j), (j)->has_failed ? 0 : (call), ORT_FAIL)
bool job_check(job* j, ort_status* status);
bool job_check_tvm(job* j, int rc, int code);
/* Set the error "tvmrt: ...". Returns false. */
bool job_fail(job* j, int code, const char* format, ...) TVMRT_PRINTF(3, 4);

/* An object of `bytes`, zeroed, that begins with a table of functions; released by free(). */
void* own_new(job* j, size_t bytes, const ort_slot slots[ORT_OWN_SLOTS]);
/* Zeroed memory of the job. */
void* job_alloc(job* j, size_t count, size_t bytes);
char* job_text(job* j, const char* format, ...) TVMRT_PRINTF(2, 3);
/* The path of a file in the job's temporary folder, which only this user can access. */
char* job_file(job* j, const char* name);
/* Whether every user may rename and remove the files of others in a folder. By platform/. */
bool is_open_to_others(const char* folder);

/* onnxruntime reads each list by two functions: the count, and the items. */
typedef struct list {
  const void** items;
  size_t count;
} list;
#define LIST(j, kind, what, of) \
  job_list((j), (of), (j)->ort->api.kind##_GetNum##what, (j)->ort->api.kind##_Get##what)
list job_list(job* j, const void* of, ort_status* (*count)(const void*, size_t*),
              ort_status* (*items)(const void*, const void**, size_t));

/* The names of values; "" for an absent one. */
const char** job_names(job* j, list infos);

/* The content of an attribute, except of a graph or tensor, with a NUL after it that is not counted.
 * Some versions of onnxruntime count a NUL at the end of a text. */
char* job_attribute(job* j, const ort_attribute* attribute, int type, size_t* bytes);

#endif /* TVMRT_ONNXRUNTIME_EP_JOB_H_ */
