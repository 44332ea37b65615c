/* What libraries ask for that were exported by TVM's own C++ macros.
 *
 * TVM_DLL_EXPORT_TYPED_FUNC of 0.8 to 0.18 leaves two symbols of C++ undefined, which its first error
 * reaches: LogFatal::GetEntry(), the thread's place where a text is collected, and Backtrace(). All
 * the rest of that error, the throwing and its catching, is inline in the library. So the two stand
 * here, as libstdc++ lays the objects out: an entry is an ostringstream, a string (the file) and an
 * int (the line). Nothing here is C++; a library that was linked to another C++ library than
 * libstdc++, or runs on another processor than x86-64, ends the process at its first error.
 */
#include <tvm/runtime/c_packed_func.h>

#if defined(__GLIBC__) && defined(__x86_64__)
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "../platform/loading.h"

/* A std::string of libstdc++: short texts lie in the object. */
typedef struct {
  char* data;
  size_t size;
  char inside[16];
} cxx_string;

/* As much as the constructor below fills: the class with its virtual base, in libstdc++'s ABI
 * for this processor. */
enum { OSTRINGSTREAM_BYTES = 376 };

typedef struct {
  _Alignas(16) unsigned char stream[OSTRINGSTREAM_BYTES];
  cxx_string file;
  int line;
} log_entry;

/* As the constructor of an empty text leaves it: the data pointer points into the object itself. */
static void make_empty(cxx_string* text) {
  text->data = text->inside;
  text->size = 0;
  text->inside[0] = '\0';
}

/* The default constructor of std::ostringstream, of the libstdc++ that is loaded. */
static void make_stream(void* stream) {
  static const char name[] = "_ZNSt7__cxx1119basic_ostringstreamIcSt11char_traitsIcESaIcEEC1Ev";
  void (*construct)(void*) = NULL;
  void* library = tvmrt__library_load_file("libstdc++.so.6", TVMRT_LOAD_IF_LOADED);
  void* found = library == NULL ? NULL : tvmrt__library_symbol(library, name);
  if (found == NULL) {
    (void)fputs("a library of TVM's C++ macros wants to throw, and there is no libstdc++ to it\n",
                stderr);
    abort(); /* the caller, compiled elsewhere, goes on with what it gets */
  }
  *(void**)&construct = found;
  construct(stream);
}

TVM_DLL void* tvmrt__log_entry(void) __asm__("_ZN3tvm7runtime6detail8LogFatal8GetEntryEv");
TVM_DLL cxx_string* tvmrt__no_backtrace(cxx_string* out) __asm__(
    "_ZN3tvm7runtime9BacktraceB5cxx11Ev");

/* tvm::runtime::detail::LogFatal::GetEntry(): lives as long as its thread. */
void* tvmrt__log_entry(void) {
  static _Thread_local log_entry entry;
  static _Thread_local bool made;
  if (!made) {
    make_stream(entry.stream);
    make_empty(&entry.file);
    made = true;
  }
  return &entry;
}

/* std::string tvm::runtime::Backtrace(): none. A result of this kind is made where the first argument
 * points to; on other processors that place comes in a register of its own, out of reach of C. */
cxx_string* tvmrt__no_backtrace(cxx_string* out) {
  make_empty(out);
  return out;
}
#endif
