/*!
 * \file tvm/runtime/module_plugin.h
 * \brief Kinds of modules implemented outside of the runtime: accelerators, interpreters.
 *
 * A plug-in fills a tvmrt_module_vtable and creates modules with tvmrt_module_create(). To load
 * them from libraries it registers the global function `runtime.module.loadbinary_<type_key>`,
 * which receives the stream as a kTVMOpaqueHandle and returns the module:
 *
 *     static int load(TVMValue* args, int* codes, int n, TVMRetValueHandle ret, void* resource) {
 *       const char* graph;
 *       size_t size;
 *       if (tvmrt_stream_read_string(args[0].v_handle, &graph, &size) != 0) return -1;
 *       ...
 *     }
 *
 * The library of a plug-in must stay in the process once it has created modules: their functions,
 * and finally `release`, may be called until the end of the process. Modules do not hold a
 * reference to the library. Link it with `-Wl,-z,nodelete`, or never close it.
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
  TVMRT_MODULE_EXPORTABLE = 4    /*!< It is linked into the shared library as code. */
};

/*! \brief Receives bytes that a module writes. Returns 0, or -1 if memory is exhausted. */
typedef int (*tvmrt_module_write)(void* sink, const void* data, size_t num_bytes);

/*! \brief Function of a module for a name; all NULL: the module has no such function. */
typedef struct tvmrt_module_function {
  /*! A function, which the runtime wraps, caches, and calls with `resource`. It lives as long as
   * the module; the runtime's wrapper keeps the module alive. */
  TVMCPackedFunc function;
  void* resource; /*!< Borrowed from the module. */
  /*! Alternative to `function`: any function handle; its reference is transferred. Not cached. */
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
  /*! Required. `out` is zeroed before. Called from any thread, several at once; a returned function
   * is cached, so its name is not looked up again. */
  int (*get_function)(void* self, const char* name, tvmrt_module_function* out);
  /*! Optional: write the payload that loadbinary_<type_key> reads. */
  int (*save)(void* self, tvmrt_module_write write, void* sink);
  /*! Optional: write human-readable source; `format` may be "". */
  int (*source)(void* self, const char* format, tvmrt_module_write write, void* sink);
  /*! Optional: called once when the last reference to the module is released. */
  void (*release)(void* self);
} tvmrt_module_vtable;

/*!
 * \brief Create a module.
 * \param vtable     [in] The kind; copied.
 * \param self       [in] Passed to its functions; transferred on success.
 * \param out_module [out] Owned; released by TVMModFree(). NULL on failure.
 */
TVM_DLL int tvmrt_module_create(const tvmrt_module_vtable* vtable, void* self,
                                TVMModuleHandle* out_module);

/*!
 * \brief Read bytes from a loader's stream.
 * \param stream [in] The loader's argument; valid during its call.
 * \param out    [out] num_bytes bytes.
 * \return 0, or -1 if the stream is too short.
 */
TVM_DLL int tvmrt_stream_read(void* stream, void* out, size_t num_bytes);

/*! \brief Read a little-endian 64-bit number from a loader's stream. */
TVM_DLL int tvmrt_stream_read_u64(void* stream, uint64_t* out_value);

/*!
 * \brief Read a string from a loader's stream: a 64-bit length and that many bytes.
 * \param out_text [out] Borrowed until the loader returns; not NUL-terminated.
 * \param out_size [out] In bytes.
 */
TVM_DLL int tvmrt_stream_read_string(void* stream, const char** out_text, size_t* out_size);

#ifdef __cplusplus
}
#endif

#endif /* TVM_RUNTIME_MODULE_PLUGIN_H_ */
