/* Built programs of a device: a list in the process, files on disk. */
#ifndef TVMRT_DEVICES_OPENCL_PROGRAMS_H_
#define TVMRT_DEVICES_OPENCL_PROGRAMS_H_

#include <pthread.h>
#include <stddef.h>

/* Files: a favour, of which nothing is an error. */
typedef struct {
  const char*
      variable;       /* of the environment: names the folder, or nothing is kept if it is empty */
  const char* name;   /* without it: of the folder in tvmrt's of the user's cache */
  const char* suffix; /* of files */
} program_store;

/* A program to be: its source and build options, and the operator's name for errors. */
typedef struct {
  const char* who;
  const char* source;
  const char* options;
} program_text;

/* What the device does; `context` is its own. */
typedef struct {
  /* A program from bytes that `build` gave once; NULL if the driver does not take them. */
  void* (*load)(void* context, const program_text* text, const void* bytes, size_t size);
  /* NULL with the error text set; the bytes, NULL if there are none, become the caller's (free()). */
  void* (*build)(void* context, const program_text* text, void** out_bytes, size_t* out_size);
  void (*release)(void* context, void* program);
} program_maker;

typedef struct {
  const program_maker* maker;
  const program_store* disk;
  void* context;
  pthread_mutex_t lock; /* of `first` */
  struct program* first;
} program_list;

/* All but the list is borrowed for as long as it is open. -1 with the error text set. */
int programs_open(program_list* list, const program_maker* maker, const program_store* disk,
                  void* context);
/* Releases all programs; a list that programs_open() did not open is left alone. */
void programs_close(program_list* list);

/*
 * From the list, else from disk, else built now; NULL with the error text set. Borrowed: it lives as long as
 * the list. `key` are the texts that a file of it must agree with, and ends with NULL.
 */
void* programs_get(program_list* list, const program_text* text, const char* const* key);

#endif
