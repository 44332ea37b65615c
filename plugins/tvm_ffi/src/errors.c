/* Errors: the classic side has one text, "Kind: message", tvm-ffi has a kind and a message.
 *
 * Texts are passed on unchanged, so an error that crosses the bridge twice is recognised by its
 * text: the caught object is kept per thread and raised again with its backtrace. Functions here
 * return -1, so that callers can return their result. */
#include "errors.h"

#include <stdio.h>
#include <string.h>

#include "abi.h"
#include "sdk/base.h"

enum { MAX_KIND_BYTES = 128 };

/* Kind of a text without one. It is not written into texts, so that a text is unchanged after a
 * round trip. */
static const char kPlainKind[] = "TVMError";

/* File and layer names may also precede a colon; error names end with one of these words. The text
 * has a length and no NUL. */
static int is_kind(const char* name, size_t size) {
  static const char* const kEnds[] = {"Error", "Exception", "Interrupt", "Exit", "Iteration"};
  for (size_t i = 0; i < sizeof(kEnds) / sizeof(kEnds[0]); i++) {
    const size_t length = strlen(kEnds[i]);
    if (size >= length && memcmp(name + size - length, kEnds[i], length) == 0) return 1;
  }
  return 0;
}

/* Length of the kind at the start of a text; 0 if there is none. */
static size_t kind_size(const char* text) {
  size_t size = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.");
  if (size == 0 || size >= MAX_KIND_BYTES || strncmp(text + size, ": ", 2) != 0) return 0;
  return is_kind(text, size) ? size : 0;
}

/* Set the error text to `first`, `second` and `third`, which may be parts of the current text. If
 * out of memory, the text says so. */
static void set_joined(TVMByteArray first, const char* second, TVMByteArray third) {
  tvmrt_buf text = {NULL, 0, 0};
  if (tvmrt__buf_append(&text, first.data, first.size) == 0 &&
      tvmrt__buf_puts(&text, second) == 0 &&
      tvmrt__buf_append(&text, third.data, third.size) == 0) {
    TVMPackedFuncSetLastError(text.data);
  }
  tvmrt__buf_free(&text);
}

/* Inserted after the kind, which must stay first: "TypeError: argument 1: ...". */
int bridge_name_argument(int index) {
  const char* text = TVMGetLastError();
  size_t kind = kind_size(text);
  const char* message = kind != 0 ? text + kind + 2 : text;
  char where[40];
  (void)snprintf(where, sizeof(where), "%sargument %d: ", kind != 0 ? ": " : "", index);
  set_joined((TVMByteArray){text, kind}, where, (TVMByteArray){message, strlen(message)});
  return -1;
}

/* Whether a kind is omitted in texts; also true for errors without a kind. */
static int is_plain(TVMByteArray kind) {
  size_t size = sizeof(kPlainKind) - 1;
  return kind.size == 0 || (kind.size == size && memcmp(kind.data, kPlainKind, size) == 0);
}

/* The tvm-ffi error from which this thread's text was made last. It contains more than the text,
 * above all its backtrace, and is raised again unchanged. */
static _Thread_local void* caught;

/* Takes over the reference. The old one is released last, since that runs its deleter. */
static void keep_caught(void* error) {
  void* old = caught;
  caught = error;
  if (old != NULL) ffi_release(old);
}

/* Compare with the text written by bridge_catch(); nothing else links a text to its error. */
static int is_text_of(const void* error, const char* text) {
  const FfiError* content = ffi_body(error);
  if (!is_plain(content->kind)) {
    if (strncmp(text, content->kind.data, content->kind.size) != 0) return 0;
    text += content->kind.size;
    if (strncmp(text, ": ", 2) != 0) return 0;
    text += 2;
  }
  return strlen(text) == content->message.size &&
         memcmp(text, content->message.data, content->message.size) == 0;
}

/* kind[] is large enough: kind_size() returns less than MAX_KIND_BYTES. */
int bridge_raise(void) {
  const char* text = TVMGetLastError();
  size_t size = kind_size(text);
  char kind[MAX_KIND_BYTES];
  if (caught != NULL && is_text_of(caught, text)) {
    ffi.error_set_raised(caught); /* takes its own reference */
    keep_caught(NULL);
    return -1;
  }
  if (size == 0) {
    ffi.error_set_raised_from_text(kPlainKind, text);
    return -1;
  }
  memcpy(kind, text, size);
  kind[size] = '\0';
  ffi.error_set_raised_from_text(kind, text + size + 2);
  return -1;
}

/* The error object is kept for the way back. A library that was loaded before libtvm_ffi may have
 * no address of the function that raises errors. */
int bridge_catch(void) {
  void* error = NULL;
  const FfiError* content;
  ffi.error_move_from_raised(&error);
  if (error == NULL) {
    return tvmrt__fail(
        "a function of tvm-ffi failed without an error: if its library was loaded before "
        "libtvm_ffi, import tvm_ffi first.");
  }
  content = ffi_body(error);
  if (is_plain(content->kind)) {
    set_joined((TVMByteArray){"", 0}, "", content->message);
  } else {
    set_joined(content->kind, ": ", content->message);
  }
  keep_caught(error);
  return -1;
}

/* Borrowed until the thread catches another error; empty if the text is not the caught error's. */
TVMByteArray bridge_lines_of(const char* text) {
  const FfiError* error = caught == NULL ? NULL : ffi_body(caught);
  if (error == NULL || !is_text_of(caught, text)) return (TVMByteArray){"", 0};
  return error->backtrace;
}
