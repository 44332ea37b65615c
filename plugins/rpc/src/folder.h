/* Folder of a session, which holds the client's uploads and is removed with the session. */
#ifndef TVMRT_PLUGINS_RPC_FOLDER_H_
#define TVMRT_PLUGINS_RPC_FOLDER_H_

#include <stdint.h>

#include "channel.h"
#include "sdk/values.h"

typedef struct tvmrt_rpc_folder {
  char* path;    /* created on first use; NULL before */
  uint64_t left; /* bytes that may still be uploaded */
  struct tvmrt_rpc_folder* outer;
} tvmrt_rpc_folder;

/* Make the folder current for this thread until tvmrt__rpc_folder_leave(). */
void tvmrt__rpc_folder_enter(tvmrt_rpc_folder* folder);
void tvmrt__rpc_folder_leave(const tvmrt_rpc_folder* folder);
/* Remove the folder and its content. */
void tvmrt__rpc_folder_end(tvmrt_rpc_folder* folder);

/* Whether a function is the upload function, which tvmrt__rpc_folder_receive() can replace. */
bool tvmrt__rpc_is_upload(const tvmrt_object* function);
/* Stream `size` bytes to a file of the folder. If the file cannot be stored, *stored is false with
 * the error text set, and the bytes are skipped. Return -1 if the channel fails. */
int tvmrt__rpc_folder_receive(tvmrt_channel* ch, char* name, uint64_t size, bool* stored);

/* Create a folder below the directory for temporary files; free *out with free(). */
int tvmrt__rpc_folder_make(char** out);
void tvmrt__rpc_folder_remove(const char* path);
/* Use this folder for all sessions of the process. It stays the caller's, with its path. */
void tvmrt__rpc_folder_borrow(const char* path);

#endif
