/* The manifest of a library: JSON on one line, whose last member is a checksum of the text before
 * it. python/tvmrt/compiler/codegen/manifest.py writes it.
 *
 * It is checked before code of the library is called: a truncated or modified file, or one of a
 * newer compiler, is refused with an error text instead of crashing. Third-party libraries have
 * none and are not checked. No JSON reader is needed: the compiler writes the members in a fixed
 * order, and the checksum proves that the compiler wrote the text. */
#include "manifest.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../base/error.h"

enum { kAbi = 1 }; /* of the interface between generated code and this runtime */

static const char kBegin[] = "{\"manifest\": ";
static const char kAbiMember[] = ", \"abi\": ";
static const char kTool[] = ", \"tool\": \"";
static const char kChecksum[] = ", \"checksum\": \"";
enum { kChecksumDigits = 16 };

/* FNV-1a of 64 bits. */
static uint64_t checksum_of(const char* text, size_t size) {
  uint64_t found = UINT64_C(0xcbf29ce484222325);
  for (size_t i = 0; i < size; ++i) {
    found = (found ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
  }
  return found;
}

/* Whether the text ends with the checksum of everything before it. */
static bool checksum_matches(const char* text, size_t size) {
  char expected[sizeof(kChecksum) + kChecksumDigits + sizeof("\"}")];
  const size_t begin = sizeof(kBegin) - 1;
  const size_t tail = sizeof(kChecksum) - 1 + kChecksumDigits + sizeof("\"}"); /* with the NUL */
  size_t body;
  if (size < begin + tail || memcmp(text, kBegin, begin) != 0) return false;
  body = size - tail;
  (void)snprintf(expected, sizeof(expected), "%s%016" PRIx64 "\"}", kChecksum,
                 checksum_of(text, body));
  return memcmp(text + body, expected, tail) == 0;
}

/* Name of the tool in an intact manifest: `*out` characters of the text. */
static const char* tool_of(const char* text, int* out) {
  const char* tool = strstr(text, kTool);
  if (tool == NULL) {
    *out = 0;
    return text;
  }
  tool += sizeof(kTool) - 1;
  *out = (int)strcspn(tool, "\"");
  return tool;
}

/* After checksum_matches() the text is known to end with a NUL, part of the checksum's tail, so
 * strstr() and strtol() are safe. */
int tvmrt__manifest_check(const char* path, const char* text, size_t size) {
  const char* abi;
  if (!checksum_matches(text, size)) {
    return tvmrt__fail(
        "%s: the manifest __tvmrt_manifest (%zu bytes) is damaged: its checksum does not match; "
        "copy the file again, or compile the network again",
        path, size);
  }
  abi = strstr(text, kAbiMember);
  if (abi == NULL || strtol(abi + sizeof(kAbiMember) - 1, NULL, 10) > kAbi) {
    int length;
    const char* tool = tool_of(text, &length);
    return tvmrt__fail(
        "%s: the library was compiled by %.*s for runtimes of another ABI than %d, which this one "
        "has; install a newer tvmrt, or compile the network again with the installed one",
        path, length, tool, (int)kAbi);
  }
  return 0;
}
