/* Windows strings.
 *
 * The runtime's strings are UTF-8 everywhere; Windows functions take wide strings. */
#include "windows_api.h"

#include <limits.h>
#include <stdlib.h>

/* Allocated by malloc(); NULL for invalid UTF-8, and if memory is exhausted. The size is computed
 * first: a length of -1 means up to and including the NUL. */
wchar_t* tvmrt__utf8_to_wide(const char* text) {
  const int count = MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text, -1, NULL, 0);
  wchar_t* wide = count <= 0 ? NULL : malloc((size_t)count * sizeof(*wide));
  if (wide == NULL) return NULL;
  if (MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text, -1, wide, count) == count)
    return wide;
  free(wide);
  return NULL;
}

/* For the system's names and texts, which contain no NUL. Sizes are ints there. An unpaired
 * surrogate is replaced instead of failing, since such texts are only displayed. */
bool tvmrt__wide_to_utf8(const wchar_t* text, char* out, size_t size) {
  return size <= INT_MAX &&
         WideCharToMultiByte(CP_UTF8, 0, text, -1, out, (int)size, NULL, NULL) > 0;
}
