/* Texts as Windows has them.
 *
 * The runtime's texts are UTF-8 everywhere; Windows' own calls take wide ones. */
#include "windows_api.h"

#include <limits.h>
#include <stdlib.h>

/* By malloc(); NULL for what is no UTF-8, and without memory. Measured first: a length of -1
 * means up to the NUL, which both counts contain. */
wchar_t* tvmrt__wide(const char* text) {
  const int count = MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text, -1, NULL, 0);
  wchar_t* wide = count <= 0 ? NULL : malloc((size_t)count * sizeof(*wide));
  if (wide == NULL) return NULL;
  if (MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text, -1, wide, count) == count)
    return wide;
  free(wide);
  return NULL;
}

/* For names and texts of the system, which have no NUL inside. Sizes are ints there. Half a
 * character becomes a mark instead of a failure: such a text is to be read by people. */
bool tvmrt__narrow(const wchar_t* text, char* out, size_t size) {
  return size <= INT_MAX &&
         WideCharToMultiByte(CP_UTF8, 0, text, -1, out, (int)size, NULL, NULL) > 0;
}
