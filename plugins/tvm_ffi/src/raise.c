/* Errors: the classic side has one text, "Kind: message", tvm-ffi has a kind and a message.
 *
 * Texts are passed on unchanged, so an error that crosses the bridge twice is recognised by its
 * text: the caught object is kept per thread and raised again with its backtrace. Functions here
 * return -1, so that callers can return their result. */
#include "raise.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "library.h"
#include "objects.h"

enum { MAX_KIND_BYTES = 128 };

/* Kind of a text without one. It is not written into texts, so that a text is unchanged after a
 * round trip. */
static const char kPlainKind[] = "TVMError";

/* For texts with a length and no NUL. */
static int ends_with(const char* text, size_t size, const char* end) {
  size_t length = strlen(end);
  return size >= length && memcmp(text + size - length, end, length) == 0;
}

/* File and layer names may also precede a colon; error names end with one of these words. */
static int is_kind(const char* name, size_t size) {
  static const char* const kEnds[] = {"Error", "Exception", "Interrupt", "Exit", "Iteration"};
  for (size_t i = 0; i < sizeof(kEnds) / sizeof(kEnds[0]); i++) {
    if (ends_with(name, size, kEnds[i])) return 1;
  }
  return 0;
}

/* Length of the kind at the start of a text; 0 if there is none. */
static size_t kind_size(const char* text) {
  size_t size = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.");
  if (size == 0 || size >= MAX_KIND_BYTES || strncmp(text + size, ": ", 2) != 0) return 0;
  return is_kind(text, size) ? size : 0;
}

/* Set the error text to `first`, `second` and `third`. If out of memory, the text says so instead
 * of keeping the old one. */
static void set_joined(TVMByteArray first, const char* second, TVMByteArray third) {
  size_t middle = strlen(second);
  char* text = malloc(first.size + middle + third.size + 1);
  if (text == NULL) {
    TVMPackedFuncSetLastError("MemoryError: no memory for the text of an error.");
    return;
  }
  if (first.size != 0) memcpy(text, first.data, first.size);
  memcpy(text + first.size, second, middle);
  if (third.size != 0) memcpy(text + first.size + middle, third.data, third.size);
  text[first.size + middle + third.size] = '\0';
  TVMPackedFuncSetLastError(text);
  free(text);
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
  const FfiErrorHead* head = ffi_body(error);
  if (!is_plain(head->kind)) {
    if (strncmp(text, head->kind.data, head->kind.size) != 0) return 0;
    text += head->kind.size;
    if (strncmp(text, ": ", 2) != 0) return 0;
    text += 2;
  }
  return strlen(text) == head->message.size &&
         memcmp(text, head->message.data, head->message.size) == 0;
}

/* If the text is that of the caught error, raise that error again and return 1. */
static int raise_again(const char* text) {
  void* symbol;
  void (*raise)(void* error);
  void* error = caught;
  if (error == NULL || !is_text_of(error, text)) return 0;
  caught = NULL;
  symbol = bridge_loaded_symbol("TVMFFIErrorSetRaised");
  memcpy(&raise, &symbol, sizeof(raise));
  /* without libtvm_ffi, the error is stored where the stubs look */
  if (raise == NULL) {
    ffi_keep_error(error);
    return 1;
  }
  raise(error); /* takes its own reference */
  ffi_release(error);
  return 1;
}

/* kind[] is large enough: kind_size() returns less than MAX_KIND_BYTES. */
int bridge_raise(void) {
  const char* text = TVMGetLastError();
  size_t size = kind_size(text);
  char kind[MAX_KIND_BYTES];
  if (raise_again(text)) return -1;
  if (size == 0) {
    ffi.error_set_raised(kPlainKind, text);
    return -1;
  }
  memcpy(kind, text, size);
  kind[size] = '\0';
  ffi.error_set_raised(kind, text + size + 2);
  return -1;
}

/* Returns -1 with the classic error text set. The error object is kept for the way back. */
int bridge_catch(void) {
  /* the library raised it through the stubs or through libtvm_ffi */
  void* error = ffi_take_error();
  const FfiErrorHead* head;
  if (error == NULL && bridge_join_loaded()) ffi.error_move_from_raised(&error);
  if (error == NULL) return bridge_fail("a function of tvm-ffi failed without an error");
  head = ffi_body(error);
  if (is_plain(head->kind)) {
    set_joined((TVMByteArray){NULL, 0}, "", head->message);
  } else {
    set_joined(head->kind, ": ", head->message);
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
