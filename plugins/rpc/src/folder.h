/* The folder of a session: what a client uploads lies in it, and goes with it. */
#ifndef TVMRT_PLUGINS_RPC_FOLDER_H_
#define TVMRT_PLUGINS_RPC_FOLDER_H_

#include <stdint.h>

#include "channel.h"
#include "sdk/values.h"

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

/* Whether a function is the upload of this file, which tvmrt__rpc_folder_receive() does as well. */
bool tvmrt__rpc_is_upload(const tvmrt_object* function);
/* Write so many bytes, as they come, to a file of the folder. What goes wrong with the file is in
 * *stored, with the error text set, and the bytes are skipped; -1 is of the channel. */
int tvmrt__rpc_folder_receive(tvmrt_channel* ch, char* name, uint64_t size, bool* stored);

/* Make a folder below that of temporary files; *out is owned, by free(). */
int tvmrt__rpc_folder_make(char** out);
void tvmrt__rpc_folder_remove(const char* path);
/* All sessions of this process use that folder, and leave it to the caller, who keeps the text. */
void tvmrt__rpc_folder_lend(const char* path);

#endif
