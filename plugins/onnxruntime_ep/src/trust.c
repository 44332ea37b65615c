/* Which libraries of a model file may be loaded: the provider option allow_compiled. */
#include <string.h>

#include "provider.h"
#include "sha256.h"

/* The bytes of the digest that a text begins with; 0 if it begins with none. */
static size_t digest_bytes(const char* text) {
  const size_t bytes = SHA256_TEXT_BYTES - 1;
  if (strncmp(text, "sha256:", 7) != 0) return 0;
  return strspn(text + 7, "0123456789abcdef") == bytes - 7 ? bytes : 0;
}

static bool is_list_of_digests(const char* text) {
  for (;; ++text) {
    size_t bytes;
    text += strspn(text, " ");
    bytes = digest_bytes(text);
    text += bytes;
    text += strspn(text, " ");
    if (bytes == 0 || *text != ',') return bytes > 0 && *text == '\0';
  }
}

void trust_check_option(job* j, const char* value) {
  if (strcmp(value, "0") == 0 || strcmp(value, "1") == 0 || is_list_of_digests(value)) return;
  job_fail(
      j, ORT_INVALID_ARGUMENT,
      "the provider option allow_compiled has the value '%.200s'; give 0, 1, or the digests of "
      "the libraries to allow, sha256: and 64 digits in lower case each, separated by commas",
      value);
}

bool trust_check_library(job* j, const char* allowed, const char* stored, const char* library,
                         size_t size) {
  char digest[SHA256_TEXT_BYTES];
  if (allowed == NULL || strcmp(allowed, "0") == 0) {
    return job_fail(
        j, ORT_INVALID_ARGUMENT,
        "the model has an EPContext node with a compiled library, whose code this process would "
        "run; if you trust everybody who could write the model, set the provider option "
        "allow_compiled to 1, or to the digest that was printed when the model was compiled");
  }
  if (j->has_failed) return false;
  sha256_text(library, size, digest);
  if (strcmp(allowed, "1") != 0) {
    if (strstr(allowed, digest) != NULL) return true;
    return job_fail(j, ORT_INVALID_ARGUMENT,
                    "the library of an EPContext node has the digest %s, which the provider option "
                    "allow_compiled does not list; get the model again from where it was compiled",
                    digest);
  }
  if (stored != NULL && strcmp(stored, digest) == 0) return true;
  return job_fail(j, ORT_INVALID_ARGUMENT,
                  "the library of an EPContext node is damaged: it has the digest %s, and its "
                  "attribute sha256 is %.80s; copy the model again, or compile it again",
                  digest, stored == NULL ? "missing" : stored);
}
