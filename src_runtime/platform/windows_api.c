/* Texts as Windows has them.
 *
 * The runtime's texts are UTF-8 everywhere; Windows' own calls take wide ones. */
#include "windows_api.h"

#include <limits.h>
#include <stdlib.h>

/* By malloc(); NULL for what is no UTF-8, and without memory. */
wchar_t* tvmrt__wide(const char* text) {
  const int count = MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text, -1, NULL, 0);
  wchar_t* wide = count <= 0 ? NULL : malloc((size_t)count * sizeof(*wide));
  if (wide == NULL) return NULL;
  if (MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text, -1, wide, count) == count)
    return wide;
  free(wide);
  return NULL;
}

bool tvmrt__narrow(const wchar_t* text, char* out, size_t size) {
  return size <= INT_MAX &&
         WideCharToMultiByte(CP_UTF8, 0, text, -1, out, (int)size, NULL, NULL) > 0;
}
