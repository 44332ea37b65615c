/* loading.h on Windows.
 *
 * Error texts and paths are thread-local, valid until the thread's next call. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loading.h"
#include "windows_api.h"

/* Not cleared by successful calls: callers read it only after failures. A wide character has at
 * most 3 bytes of UTF-8. */
static _Thread_local char error_text[256];
static _Thread_local char path_text[MAX_PATH * 3 + 1];

#if defined(_M_X64) || defined(__x86_64__)
#define OWN_PROCESSOR "x86-64"
#elif defined(_M_ARM64) || defined(__aarch64__)
#define OWN_PROCESSOR "aarch64"
#else
#define OWN_PROCESSOR "this processor"
#endif

/* The system's text, without trailing punctuation; the most frequent error gets a better one. */
static void keep_error(void) {
  const DWORD code = GetLastError();
  wchar_t text[200];
  DWORD size;
  if (code == ERROR_BAD_EXE_FORMAT) {
    (void)snprintf(error_text, sizeof(error_text),
                   "it is not a Windows library for " OWN_PROCESSOR
                   "; compile it for the target that it is loaded on");
    return;
  }
  size = FormatMessageW(FORMAT_MESSAGE_FROM_SYSTEM | FORMAT_MESSAGE_IGNORE_INSERTS, NULL, code, 0,
                        text, 200, NULL);
  while (size > 0 && (text[size - 1] <= L' ' || text[size - 1] == L'.')) --size;
  text[size < 200 ? size : 199] = L'\0';
  if (size == 0 || !tvmrt__wide_to_utf8(text, error_text, sizeof(error_text))) {
    (void)snprintf(error_text, sizeof(error_text), "Windows error %lu", (unsigned long)code);
  }
}

/* Counted either way, so each call needs one unload. There is no lazy binding: a missing function
 * is an error here. */
void* tvmrt__library_load_file(const char* path, tvmrt_loading binding) {
  wchar_t* wide = tvmrt__utf8_to_wide(path);
  HMODULE handle = NULL;
  if (wide == NULL) {
    (void)snprintf(error_text, sizeof(error_text), "its path is not UTF-8");
    return NULL;
  }
  if (binding == TVMRT_LOAD_IF_LOADED) {
    (void)GetModuleHandleExW(0, wide, &handle);
  } else {
    handle = LoadLibraryW(wide);
  }
  if (handle == NULL) keep_error();
  free(wide);
  return (void*)handle;
}

void tvmrt__library_unload(void* handle) { (void)FreeLibrary((HMODULE)handle); }

/* Copied, since ISO C has no conversion from a function pointer to a data pointer. */
void* tvmrt__library_symbol(void* handle, const char* name) {
  FARPROC symbol = GetProcAddress((HMODULE)handle, name);
  void* address = NULL;
  if (symbol == NULL) keep_error();
  memcpy(&address, &symbol, sizeof(address));
  return address;
}

const char* tvmrt__library_error(void) {
  return error_text[0] == '\0' ? "unknown reason" : error_text;
}

/* Windows libraries import functions from named files: only the program is globally visible. */
bool tvmrt__library_show(void* handle) {
  (void)handle;
  return false;
}

/* Exports of the program itself, which usually has none. */
void* tvmrt__visible_symbol(const char* name) {
  return tvmrt__library_symbol((void*)GetModuleHandleW(NULL), name);
}

/* The reference count is unchanged: the caller runs in that library, or holds it. A path that fills
 * the buffer was truncated, and is invalid. */
const char* tvmrt__library_of(const void* address) {
  const DWORD flags =
      GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT;
  HMODULE module = NULL;
  wchar_t wide[MAX_PATH];
  DWORD size;
  if (!GetModuleHandleExW(flags, (LPCWSTR)address, &module)) return NULL;
  size = GetModuleFileNameW(module, wide, MAX_PATH);
  if (size == 0 || size == MAX_PATH) return NULL;
  return tvmrt__wide_to_utf8(wide, path_text, sizeof(path_text)) ? path_text : NULL;
}

/* Exports have no sizes there; callers then copy instead of using bytes in place. */
size_t tvmrt__symbol_bytes(void* address) {
  (void)address;
  return 0;
}

/* By the protection of its page. */
bool tvmrt__symbol_is_function(void* address) {
  const DWORD code =
      PAGE_EXECUTE | PAGE_EXECUTE_READ | PAGE_EXECUTE_READWRITE | PAGE_EXECUTE_WRITECOPY;
  MEMORY_BASIC_INFORMATION info;
  return VirtualQuery(address, &info, sizeof(info)) != 0 && (info.Protect & code) != 0;
}
