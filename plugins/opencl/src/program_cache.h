/* Built programs of a device: a list in the process, and files on disk. */
#ifndef TVMRT_DEVICES_OPENCL_PROGRAM_CACHE_H_
#define TVMRT_DEVICES_OPENCL_PROGRAM_CACHE_H_

#include <pthread.h>
#include <stddef.h>

/* Files on disk; their errors are ignored. */
typedef struct {
  const char* variable; /* environment variable with the folder; empty: no files */
  const char* name;     /* default folder's name, in tvmrt's folder of the user's cache */
  const char* suffix;   /* of files */
} disk_cache;

/* A program to build: its source and options, and the operator's name for errors. */
typedef struct {
  const char* op_name;
  const char* source;
  const char* options;
} program_source;

/* Callbacks of the device; `context` is its own. */
typedef struct {
  /* Load a program from an earlier binary of `build`; NULL if the driver rejects it. */
  void* (*load)(void* context, const program_source* text, const void* bytes, size_t size);
  /* Build a program; NULL with the error text set. The caller frees the binary (may be NULL). */
  void* (*build)(void* context, const program_source* text, void** out_bytes, size_t* out_size);
  void (*release)(void* context, void* program);
} program_callbacks;

typedef struct {
  const program_callbacks* callbacks;
  const disk_cache* disk;
  void* context;
  pthread_mutex_t lock; /* protects `first` */
  struct program* first;
} program_cache;

/* Everything except the list is borrowed while it is open. -1 with the error text set. */
int program_cache_open(program_cache* list, const program_callbacks* callbacks,
                       const disk_cache* disk, void* context);
/* Release all programs; does nothing for a list that program_cache_open() did not open. */
void program_cache_close(program_cache* list);

/*
 * Get a program from the list or disk, else build it; NULL with the error text set. Borrowed from
 * the list. `key` contains the texts that its file must match, and ends with NULL.
 */
void* program_cache_get(program_cache* list, const program_source* text, const char* const* key);

#endif
