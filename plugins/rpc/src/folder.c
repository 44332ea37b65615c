/* Upload folder of a session, and the functions through which a client uses it.
 *
 * The folder is created on the first upload and removed at the end of the session. Clients give
 * file names, never paths. If the session has its own process, the server has created the folder
 * (`borrowed_folder`). Otherwise each thread has a stack of folders, since a session may be served
 * inside another.
 *
 * The upload limit equals the memory limit of the session. Files are never overwritten in place, so
 * a mapped older library of that name stays intact. */
#include "folder.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "functions.h"
#include "sdk/modules.h"
#include "sdk/system.h"

/* session served by this thread */
static _Thread_local tvmrt_rpc_folder* current;
/* folder of a process that serves only one session; NULL: none */
static const char* borrowed_folder;

/* Create a folder that only this user can access; the caller frees *out. */
int tvmrt__rpc_folder_make(char** out) {
  char* base = tvmrt__temporary_folder();
  tvmrt_buf path = {NULL, 0, 0};
  int rc = base == NULL ? tvmrt__fail("MemoryError: no memory for a folder's name.") : 0;
  *out = NULL;
  if (rc == 0) rc = tvmrt__buf_printf(&path, "%s/tvmrt-rpc-XXXXXX", base);
  if (rc == 0 && tvmrt__make_unique_folder(path.data) != 0) {
    rc = tvmrt__fail("OSError: cannot make a folder for uploads in %s: %s; set %s.", base,
                     strerror(errno), TVMRT_TEMPORARY_VARIABLE);
  }
  free(base);
  if (rc == 0) {
    *out = path.data;
  } else {
    tvmrt__buf_free(&path);
  }
  return rc;
}

/* For the process that created the folder on behalf of another process. */
void tvmrt__rpc_folder_remove(const char* path) { tvmrt__remove_folder(path); }

/* Called once, before serving; the path stays the caller's. */
void tvmrt__rpc_folder_borrow(const char* path) { borrowed_folder = path; }

/* Sessions may be nested, so each stores the enclosing one. Enter and leave enclose one packet. */
void tvmrt__rpc_folder_enter(tvmrt_rpc_folder* folder) {
  folder->outer = current;
  current = folder;
}

void tvmrt__rpc_folder_leave(const tvmrt_rpc_folder* folder) { current = folder->outer; }

/* A library in it may still be mapped. Its file is deleted after the last use, or left if the
 * system does not support that. */
void tvmrt__rpc_folder_end(tvmrt_rpc_folder* folder) {
  if (folder->path == NULL) return;
  tvmrt__rpc_folder_remove(folder->path);
  free(folder->path);
  folder->path = NULL;
}

/* Accept only the name of a file directly in the folder. */
static int check_name(const char* name) {
  const char* p;
  for (p = name; *p != '\0'; ++p) {
    /* both separators on every system */
    if (*p == '/' || *p == '\\' || (unsigned char)*p < ' ') break;
  }
  if (*p == '\0' && p != name && p - name <= 200 && strcmp(name, ".") != 0 &&
      strcmp(name, "..") != 0) {
    return 0;
  }
  return tvmrt__fail_value(
      "'%.200s' is not a file name in the session's folder: pass a name without directories.",
      name);
}

/* Path of a file of that name, existing or not. Frontends may replace this function. */
TVMRT_PLUGIN_NATIVE(rpc_workpath) {
  const char* name;
  const char* folder = borrowed_folder;
  tvmrt_buf path = {NULL, 0, 0};
  TVMRT_GLOBAL_ARGS;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(&in, 1, 1));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_str(&in, 0, &name));
  TVMRT_RETURN_IF_ERROR(check_name(name));
  if (folder == NULL && current == NULL) {
    return tvmrt__fail("%s: this thread serves no session.", in.callee);
  }
  if (folder == NULL) {
    if (current->path == NULL) TVMRT_RETURN_IF_ERROR(tvmrt__rpc_folder_make(&current->path));
    folder = current->path;
  }
  return tvmrt__ret_buf(tvmrt__buf_printf(&path, "%s/%s", folder, name), kTVMStr, &path, out,
                        out_code);
}

/* Path of the file named in argument 0, through the function that a frontend may have replaced. */
static int path_of(const tvmrt_args* in, char** out) {
  static const char getter[] = "tvm.rpc.server.workpath";
  TVMValue result;
  TVMValue arg;
  TVMByteArray text;
  int kind = kTVMStr;
  int code = kTVMNullptr;
  int rc;
  const tvmrt_args result_args = {getter, &result, &code, 1};
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_str(in, 0, &arg.v_str));
  TVMRT_RETURN_IF_ERROR(tvmrt__global_call(getter, &arg, &kind, 1, &result, &code));
  rc = tvmrt__arg_bytes(&result_args, 0, &text);
  *out = rc == 0 ? tvmrt__strdup(text.data) : NULL;
  tvmrt__release(tvmrt__value_object(&result, code));
  return *out == NULL ? -1 : 0;
}

/* The file is written under another name and renamed, so a library in use stays intact. */
TVMRT_PLUGIN_NATIVE(rpc_upload) {
  TVMByteArray bytes;
  char* path;
  int rc;
  TVMRT_GLOBAL_ARGS;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(&in, 2, 2));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_bytes(&in, 1, &bytes));
  if (current != NULL && bytes.size > current->left) {
    return tvmrt__fail_value("%zu more bytes would exceed the session's upload limit.", bytes.size);
  }
  TVMRT_RETURN_IF_ERROR(path_of(&in, &path));
  rc = tvmrt__write_file(path, bytes.data, bytes.size);
  if (rc == 0 && current != NULL) current->left -= bytes.size;
  free(path);
  return rc;
}

/* Matches only this library's function: a frontend's replacement gets the bytes as an argument. */
bool tvmrt__rpc_is_upload(const tvmrt_object* function) {
  const tvmrt_func* f = (const tvmrt_func*)(const void*)function;
  return f->base.type_index == TVMRT_TYPE_FUNCTION && f->kind == TVMRT_FUNC_NATIVE &&
         f->fn == rpc_upload;
}

/* Uses a small buffer, which stays in the caches. */
static int receive_into(tvmrt_channel* ch, FILE* file, uint64_t* left) {
  static const size_t part_size = 1 << 18;
  char* buffer = tvmrt__alloc(part_size);
  int rc = buffer == NULL ? -1 : 0;
  while (rc == 0 && *left != 0) {
    const size_t part = *left < part_size ? (size_t)*left : part_size;
    rc = tvmrt__channel_read(ch, buffer, part, NULL);
    if (rc != 0) break;
    *left -= part;
    if (fwrite(buffer, 1, part, file) != part) {
      rc = tvmrt__fail("OSError: cannot write the file: %s.", strerror(errno));
    }
  }
  free(buffer);
  return rc;
}

/* The caller frees *path, also if the result is NULL. */
static FILE* open_upload(const tvmrt_args* in, uint64_t size, char** path) {
  FILE* file;
  *path = NULL;
  /* before anything is written, since the size is the client's claim */
  if (size > current->left) {
    (void)tvmrt__fail_value("%llu more bytes would exceed the session's upload limit.",
                            (unsigned long long)size);
    return NULL;
  }
  if (path_of(in, path) != 0) return NULL;
  (void)tvmrt__remove_file(*path); /* a loaded older file stays mapped */
  file = tvmrt__create_file(*path);
  if (file == NULL) (void)tvmrt__fail("OSError: %s: %s.", *path, strerror(errno));
  return file;
}

/* -1 only if the channel is broken. If the file cannot be stored, its bytes are skipped and *stored
 * is false. */
int tvmrt__rpc_folder_receive(tvmrt_channel* ch, char* name, uint64_t size, bool* stored) {
  TVMValue value;
  int code = kTVMStr;
  const tvmrt_args in = {"tvm.rpc.server.upload", &value, &code, 1};
  uint64_t left = size;
  char* path;
  FILE* file;
  int rc = -1;
  value.v_str = name;
  file = open_upload(&in, size, &path);
  if (file != NULL) {
    (void)setvbuf(file, NULL, _IONBF, 0);
    rc = receive_into(ch, file, &left);
    if (fclose(file) != 0 && rc == 0) {
      rc = tvmrt__fail("OSError: %s: %s.", path, strerror(errno));
    }
    if (rc != 0) (void)tvmrt__remove_file(path);
  }
  free(path);
  *stored = rc == 0;
  if (rc == 0) current->left -= size;
  return rc == 0 ? 0 : tvmrt__channel_skip(ch, left); /* fails if the channel failed */
}

/* The file is read into memory completely, since an answer is one packet. */
TVMRT_PLUGIN_NATIVE(rpc_download) {
  tvmrt_buf bytes = {NULL, 0, 0};
  char* path;
  int rc;
  TVMRT_GLOBAL_ARGS;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(&in, 1, 1));
  TVMRT_RETURN_IF_ERROR(path_of(&in, &path));
  rc = tvmrt__ret_buf(tvmrt__read_file(path, &bytes), kTVMBytes, &bytes, out, out_code);
  free(path);
  return rc;
}

/* (name): remove any file of the session's folder. */
TVMRT_PLUGIN_NATIVE(rpc_remove_file) {
  char* path;
  int rc = 0;
  TVMRT_GLOBAL_ARGS;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(&in, 1, 1));
  TVMRT_RETURN_IF_ERROR(path_of(&in, &path));
  if (tvmrt__remove_file(path) != 0) rc = tvmrt__fail("OSError: %s: %s.", path, strerror(errno));
  free(path);
  return rc;
}

/* Comma-separated, as TVM's clients expect. */
static int append_name(void* ctx, const char* name) {
  if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) return 0;
  return tvmrt__buf_printf(ctx, "%s,", name);
}

/* List the files of the session. Newer clients pass a folder, which is ignored. */
TVMRT_PLUGIN_NATIVE(rpc_listdir) {
  tvmrt_buf names = {NULL, 0, 0};
  const char* folder = borrowed_folder;
  int rc;
  TVMRT_GLOBAL_ARGS;
  if (folder == NULL && current != NULL) folder = current->path;
  rc = tvmrt__buf_puts(&names, "");
  if (rc == 0 && folder != NULL) rc = tvmrt__each_in_folder(folder, append_name, &names);
  return tvmrt__ret_buf(rc, kTVMStr, &names, out, out_code);
}

/* Select the loader by the file's suffix. */
TVMRT_PLUGIN_NATIVE(rpc_load_module) {
  TVMModuleHandle mod = NULL;
  char* path;
  int rc;
  TVMRT_GLOBAL_ARGS;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(&in, 1, 1));
  TVMRT_RETURN_IF_ERROR(path_of(&in, &path));
  rc = TVMModLoadFromFile(path, "", &mod);
  free(path);
  return rc != 0 ? rc : tvmrt__ret_object(out, out_code, mod);
}

/* Import one module of this process into another; the name is TVM's. */
TVMRT_PLUGIN_NATIVE(rpc_import_module) {
  tvmrt_module* parent;
  tvmrt_module* child;
  TVMRT_GLOBAL_ARGS;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(&in, 2, 2));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_module(&in, 0, &parent));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_module(&in, 1, &child));
  return tvmrt__module_import(parent, child);
}
