/* Files beyond stdio. Paths are in UTF-8. */
#ifndef TVMRT_SRC_RUNTIME_PLATFORM_FILES_H_
#define TVMRT_SRC_RUNTIME_PLATFORM_FILES_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "compiler.h"

/* Separator of folder lists, and the environment variable of the temporary folder. */
#if defined(_WIN32)
#define TVMRT_PATH_SEPARATOR ';'
#define TVMRT_TEMPORARY_VARIABLE "TMP"
#else
#define TVMRT_PATH_SEPARATOR ':'
#define TVMRT_TEMPORARY_VARIABLE "TMPDIR"
#endif

/* The file name: the part of a path after its last separator; the path itself if it has none. */
TVMRT_SDK const char* tvmrt__file_name(const char* path);
/* A copy of a file's path without symbolic links, for free(); NULL if there is no such file. */
TVMRT_SDK char* tvmrt__real_path(const char* path);

/* Open for reading bytes; create a file that must not exist yet, errno EEXIST if it does. */
FILE* tvmrt__open_to_read(const char* path);
FILE* tvmrt__create_file(const char* path);
/* Rename a file, replacing an existing one, which its readers keep. 0, or -1 with errno. */
int tvmrt__replace_file(const char* from, const char* to);
/* Remove a file; processes that have it open, or loaded, keep it. 0, or -1 with errno. */
int tvmrt__remove_file(const char* path);
/* Whether a file can be read. */
TVMRT_SDK bool tvmrt__is_readable(const char* path);
/* The folder of temporary files; released by free(). NULL if memory is exhausted. */
TVMRT_SDK char* tvmrt__temporary_folder(void);
/* Create a folder that only this user can access; the path's last six letters, XXXXXX, are
 * replaced. 0, or -1 with errno. */
TVMRT_SDK int tvmrt__make_unique_folder(char* path);
/* Remove a folder with its contents, as far as possible; links are not followed. */
TVMRT_SDK void tvmrt__remove_folder(const char* path);
/* Call f for each name in a folder, until it returns non-zero, which is the result; 0 if there is
 * no such folder. */
TVMRT_SDK int tvmrt__each_in_folder(const char* folder, int (*f)(void* ctx, const char* name),
                                    void* ctx);

/* Identity of a file, and its age. All zero: not from a file. */
typedef struct tvmrt_file_id {
  uint64_t device;
  uint64_t inode;
  uint64_t size;
  int64_t changed_s;
  int64_t changed_ns;
} tvmrt_file_id;

/* A file that is open for random reads; TVMRT_NO_FILE: it cannot be opened. */
typedef intptr_t tvmrt_file;
#define TVMRT_NO_FILE ((tvmrt_file)-1)
tvmrt_file tvmrt__file_open(const char* path);
void tvmrt__file_close(tvmrt_file file);
/* False if the file is too short. */
bool tvmrt__file_read_at(tvmrt_file file, uint64_t at, void* out, size_t bytes);
bool tvmrt__file_identify(tvmrt_file file, tvmrt_file_id* out);

#endif
