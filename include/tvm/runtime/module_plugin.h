/*!
 * \file tvm/runtime/module_plugin.h
 * \brief Kinds of modules that live outside of the runtime: accelerators, interpreters.
 *
 * A plug-in fills a tvmrt_module_vtable and makes modules with tvmrt_module_create(). For libraries
 * that carry such modules it registers the global function `runtime.module.loadbinary_<type_key>`,
 * which gets the bytes' stream as a kTVMOpaqueHandle and returns the module:
 *
 *     static int load(TVMValue* args, int* codes, int n, TVMRetValueHandle ret, void* resource) {
 *       const char* graph;
 *       size_t size;
 *       if (tvmrt_stream_read_string(args[0].v_handle, &graph, &size) != 0) return -1;
 *       ...
 *     }
 *
 * A library that holds a plug-in must stay in the process once modules were made with it: their
 * functions, and `release` as the last of them, may be called as late as at the end of the process, and
 * nothing counts modules for the library. Link it with `-Wl,-z,nodelete`, or never close it.
 *
 * C99 and C++ clean.
 */
#ifndef TVM_RUNTIME_MODULE_PLUGIN_H_
#define TVM_RUNTIME_MODULE_PLUGIN_H_

#include <tvm/runtime/c_packed_func.h>

#ifdef __cplusplus
extern "C" {
#endif

/*! \brief Bits of tvmrt_module_vtable.properties. */
enum {
  TVMRT_MODULE_SERIALIZABLE = 1, /*!< `save` writes the module into a library. */
  TVMRT_MODULE_RUNNABLE = 2,     /*!< Its functions can be called now. */
  TVMRT_MODULE_EXPORTABLE = 4    /*!< It becomes code of the shared library itself. */
};

/*! \brief Takes bytes that a module writes. Returns 0, or -1 if memory is exhausted. */
typedef int (*tvmrt_module_write)(void* sink, const void* data, size_t num_bytes);

/*! \brief What a module answers for a name; all NULL: it has no such function. */
typedef struct tvmrt_module_function {
  /*! A function, which the runtime wraps, caches, and calls with `resource`. It lives as long as the
   * module: holders of the function keep the module alive. */
  TVMCPackedFunc function;
  void* resource; /*!< Borrowed from the module. */
  /*! Instead of `function`: any function; its reference is transferred. Not cached. */
  TVMFunctionHandle handle;
} tvmrt_module_function;

/*!
 * \brief A kind of module. Copied by tvmrt_module_create(). Functions return 0, or -1 after
 *        TVMPackedFuncSetLastError().
 */
typedef struct tvmrt_module_vtable {
  size_t struct_bytes;  /*!< sizeof(tvmrt_module_vtable): lets the struct grow. */
  const char* type_key; /*!< Static. Names the kind in libraries. */
  int32_t properties;   /*!< TVMRT_MODULE_... bits. */
  /*! Required. `out` is zeroed before. Called from any thread, several at once; a name that was
   * answered is not asked again. */
  int (*get_function)(void* self, const char* name, tvmrt_module_function* out);
  /*! Optional: the payload that loadbinary_<type_key> reads back. */
  int (*save)(void* self, tvmrt_module_write write, void* sink);
  /*! Optional: text to show to people; `format` may be "". */
  int (*source)(void* self, const char* format, tvmrt_module_write write, void* sink);
  /*! Optional: called once when the last reference to the module goes. */
  void (*release)(void* self);
} tvmrt_module_vtable;

/*!
 * \brief Make a module.
 * \param vtable     [in] The kind; copied.
 * \param self       [in] Passed to its functions; transferred on success.
 * \param out_module [out] Owned; released by TVMModFree(). NULL on failure.
 */
TVM_DLL int tvmrt_module_create(const tvmrt_module_vtable* vtable, void* self,
                                TVMModuleHandle* out_module);

/*!
 * \brief Read bytes of a stream that a loader got.
 * \param stream [in] The loader's argument; valid during its call.
 * \param out    [out] num_bytes bytes.
 * \return 0, or -1 if the stream ends before.
 */
TVM_DLL int tvmrt_stream_read(void* stream, void* out, size_t num_bytes);

/*! \brief Read a little-endian 64-bit number. */
TVM_DLL int tvmrt_stream_read_u64(void* stream, uint64_t* out_value);

/*!
 * \brief Read a string: a 64-bit length and that many bytes.
 * \param out_text [out] Borrowed until the loader returns; not NUL-terminated.
 * \param out_size [out] In bytes.
 */
TVM_DLL int tvmrt_stream_read_string(void* stream, const char** out_text, size_t* out_size);

#ifdef __cplusplus
}
#endif

#endif /* TVM_RUNTIME_MODULE_PLUGIN_H_ */
