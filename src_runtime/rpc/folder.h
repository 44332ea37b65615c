/* The folder of a session: what a client uploads lies in it, and goes with it. */
#ifndef TVMRT_SRC_RUNTIME_RPC_FOLDER_H_
#define TVMRT_SRC_RUNTIME_RPC_FOLDER_H_

#include <stdint.h>

typedef struct tvmrt_rpc_folder {
  char* path;    /* made when it is needed first; NULL before */
  uint64_t left; /* bytes that may still be uploaded */
  struct tvmrt_rpc_folder* outer;
} tvmrt_rpc_folder;

/* From here on the folder of what this thread serves, until it leaves. */
void tvmrt__rpc_folder_enter(tvmrt_rpc_folder* folder);
void tvmrt__rpc_folder_leave(const tvmrt_rpc_folder* folder);
/* Remove it with what is in it. */
void tvmrt__rpc_folder_end(tvmrt_rpc_folder* folder);

/* Make a folder below TMPDIR; *out is owned, by free(). */
int tvmrt__rpc_folder_make(char** out);
void tvmrt__rpc_folder_remove(const char* path);
/* All sessions of this process use that folder, and leave it to the caller, who keeps the text. */
void tvmrt__rpc_folder_lend(const char* path);

#endif
