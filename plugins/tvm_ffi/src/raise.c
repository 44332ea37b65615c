/* Errors: the classic side has one text, "Kind: message", the other side a kind and a message.
 *
 * A text passes through as it came, so an error that crosses the bridge twice is known again by its
 * text: the object that was caught is kept per thread and raised as it was, with its lines.
 * Functions here return -1, so that callers return their result. */
#include "raise.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "library.h"
#include "objects.h"

enum { MAX_KIND_BYTES = 128 };

/* The kind of a text that names none. It is never written out, so that a text that goes to the
   other side and back is the same. */
static const char kPlainKind[] = "TVMError";

/* Of texts that have a length and no end. */
static int ends_with(const char* text, size_t size, const char* end) {
  size_t length = strlen(end);
  return size >= length && memcmp(text + size - length, end, length) == 0;
}

/* Names of files and layers stand before a colon too; these are how names of errors end. */
static int is_kind(const char* name, size_t size) {
  static const char* const kEnds[] = {"Error", "Exception", "Interrupt", "Exit", "Iteration"};
  for (size_t i = 0; i < sizeof(kEnds) / sizeof(kEnds[0]); i++) {
    if (ends_with(name, size, kEnds[i])) return 1;
  }
  return 0;
}

/* Bytes of the kind that a text starts with; 0 if it names none. */
static size_t kind_size(const char* text) {
  size_t size = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.");
  if (size == 0 || size >= MAX_KIND_BYTES || strncmp(text + size, ": ", 2) != 0) return 0;
  return is_kind(text, size) ? size : 0;
}

/* Set `first`, `second` and `third` in a row as the error text. Without memory the text is another,
 * which is better than the one before it. */
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

/* After the kind, which must stay first: "TypeError: argument 1: ...". */
int bridge_name_argument(int index) {
  const char* text = TVMGetLastError();
  size_t kind = kind_size(text);
  const char* message = kind != 0 ? text + kind + 2 : text;
  char where[40];
  (void)snprintf(where, sizeof(where), "%sargument %d: ", kind != 0 ? ": " : "", index);
  set_joined((TVMByteArray){text, kind}, where, (TVMByteArray){message, strlen(message)});
  return -1;
}

/* A kind that is not written out; also that of errors of other makers that name none. */
static int is_plain(TVMByteArray kind) {
  size_t size = sizeof(kPlainKind) - 1;
  return kind.size == 0 || (kind.size == size && memcmp(kind.data, kPlainKind, size) == 0);
}

/* The error of the other side that the thread's text was made of last: it has more than a text, lines of
   where it came from above all, and goes back as it is. */
static _Thread_local void* caught;

/* Takes the reference over. Releasing the old one runs its deleter, so it comes last. */
static void keep_caught(void* error) {
  void* old = caught;
  caught = error;
  if (old != NULL) ffi_release(old);
}

/* The text as bridge_catch() writes it; nothing else links a text to its error. */
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

/* Whether the text is that of an error that was caught, which is then raised again. */
static int raise_again(const char* text) {
  void* symbol;
  void (*raise)(void* error);
  void* error = caught;
  if (error == NULL || !is_text_of(error, text)) return 0;
  caught = NULL;
  symbol = bridge_loaded_symbol("TVMFFIErrorSetRaised");
  memcpy(&raise, &symbol, sizeof(raise));
  /* no libtvm_ffi: it is kept where the stand-in's readers look */
  if (raise == NULL) {
    ffi_keep_error(error);
    return 1;
  }
  raise(error); /* counts it up */
  ffi_release(error);
  return 1;
}

/* kind[] has room: kind_size() gives less than MAX_KIND_BYTES. */
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

/* Always -1, with the text on the classic side. The error itself is kept, for the way back. */
int bridge_catch(void) {
  /* a library raises where it found the function, which may be either place */
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

/* Borrowed until the thread catches another; of no bytes where the text is nobody's. */
TVMByteArray bridge_lines_of(const char* text) {
  const FfiError* error = caught == NULL ? NULL : ffi_body(caught);
  if (error == NULL || !is_text_of(caught, text)) return (TVMByteArray){"", 0};
  return error->backtrace;
}
