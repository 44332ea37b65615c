/* Symbols for libraries that were exported by TVM's own C++ macros.
 *
 * TVM_DLL_EXPORT_TYPED_FUNC of 0.8 to 0.18 leaves two C++ symbols undefined, which its first error
 * uses: LogFatal::GetEntry(), the thread's buffer for the error text, and Backtrace(). All other
 * code of that error, including throw and catch, is inline in the library. So the two are defined
 * here, with libstdc++'s object layout: an entry is an ostringstream, a string (the file) and an
 * int (the line). Nothing here is C++. A library that uses a C++ library other than libstdc++,
 * or a processor other than x86-64, ends the process at its first error. */
#include <tvm/runtime/c_packed_func.h>

#if defined(__GLIBC__) && defined(__x86_64__)
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "../platform/loading.h"

/* A std::string of libstdc++: short texts are stored in the object. */
typedef struct {
  char* data;
  size_t size;
  char inside[16];
} cxx_string;

/* Size of the object that the constructor below initialises: the class with its virtual base, in
 * libstdc++'s ABI for this processor. */
enum { OSTRINGSTREAM_BYTES = 376 };

typedef struct {
  _Alignas(16) unsigned char stream[OSTRINGSTREAM_BYTES];
  cxx_string file;
  int line;
} log_entry;

/* The state of an empty string: the data pointer points into the object itself. */
static void make_empty(cxx_string* text) {
  text->data = text->inside;
  text->size = 0;
  text->inside[0] = '\0';
}

/* The default constructor of std::ostringstream, of the loaded libstdc++. */
static void make_stream(void* stream) {
  static const char name[] = "_ZNSt7__cxx1119basic_ostringstreamIcSt11char_traitsIcESaIcEEC1Ev";
  void (*construct)(void*) = NULL;
  void* library = tvmrt__library_load_file("libstdc++.so.6", TVMRT_LOAD_IF_LOADED);
  void* found = library == NULL ? NULL : tvmrt__library_symbol(library, name);
  if (found == NULL) {
    (void)fputs("a library of TVM's C++ macros wants to throw, and there is no libstdc++ to it\n",
                stderr);
    abort(); /* the caller, compiled elsewhere, cannot handle a failure */
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

/* std::string tvm::runtime::Backtrace(): an empty text. Such a result is constructed at the address
 * in the first argument; other processors pass that address in a special register, inaccessible
 * from C. */
cxx_string* tvmrt__no_backtrace(cxx_string* out) {
  make_empty(out);
  return out;
}
#endif
