/* Files beyond stdio. Paths are in UTF-8. */
#ifndef TVMRT_SRC_RUNTIME_PLATFORM_FILES_H_
#define TVMRT_SRC_RUNTIME_PLATFORM_FILES_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "compiler.h"

/* How lists of folders are written, and the variable that names the one of temporary files. */
#if defined(_WIN32)
#define TVMRT_PATH_SEPARATOR ';'
#define TVMRT_TEMPORARY_VARIABLE "TMP"
#else
#define TVMRT_PATH_SEPARATOR ':'
#define TVMRT_TEMPORARY_VARIABLE "TMPDIR"
#endif

/* Behind the last separator of folders in a path; the path itself where it has none. */
TVMRT_SDK const char* tvmrt__file_name(const char* path);

/* fopen() for reading bytes; for a file that must not be there yet, errno EEXIST if it is. */
FILE* tvmrt__open_to_read(const char* path);
TVMRT_SDK FILE* tvmrt__create_file(const char* path);
/* Give a file another name, in place of what has it, which who reads it keeps. 0, or -1 with errno. */
int tvmrt__replace_file(const char* from, const char* to);
/* Take a file away; who has it open, or loaded, keeps it. 0, or -1 with errno. */
TVMRT_SDK int tvmrt__remove_file(const char* path);
/* Whether a file can be read. */
TVMRT_SDK bool tvmrt__is_readable(const char* path);
/* The folder of temporary files, malloc()ed; NULL without memory. */
TVMRT_SDK char* tvmrt__temporary_folder(void);
/* Make a folder for this user alone; the path's last six letters, XXXXXX, become others. 0, or -1 with
 * errno. */
TVMRT_SDK int tvmrt__make_unique_folder(char* path);
/* With all that is in it, as far as that can be; links are not followed. */
TVMRT_SDK void tvmrt__remove_folder(const char* path);
/* Call f for each name in a folder, until it returns something else than 0, which is the result; 0 if
 * there is no such folder. */
TVMRT_SDK int tvmrt__each_in_folder(const char* folder, int (*f)(void* ctx, const char* name),
                                    void* ctx);

/* Which file something is, and how old. All zero: not from a file. */
typedef struct tvmrt_file_id {
  uint64_t device;
  uint64_t inode;
  uint64_t size;
  int64_t changed_s;
  int64_t changed_ns;
} tvmrt_file_id;

/* A file that is open for reading at any place; TVMRT_NO_FILE: it cannot be opened. */
typedef intptr_t tvmrt_file;
#define TVMRT_NO_FILE ((tvmrt_file)-1)
tvmrt_file tvmrt__file_open(const char* path);
void tvmrt__file_close(tvmrt_file file);
/* Whether there are so many bytes at that place. */
bool tvmrt__file_read_at(tvmrt_file file, uint64_t at, void* out, size_t bytes);
bool tvmrt__file_identify(tvmrt_file file, tvmrt_file_id* out);

#endif
