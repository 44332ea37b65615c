/*!
 * \file tvm/runtime/plugin.h
 * \brief Plug-ins: shared libraries that add global functions, devices and kinds of modules.
 *
 * A plug-in exports one table, tvmrt_plugin_table:
 *
 *     #include <tvm/runtime/plugin.h>
 *
 *     static int twice(TVMValue* args, int* codes, int n, TVMValue* out, int* out_code, void* name) {
 *       ...
 *     }
 *     static const tvmrt_plugin_function functions[] = {{"acme.twice", twice}, {NULL, NULL}};
 *     TVMRT_PLUGIN_TABLE = {sizeof(tvmrt_plugin), TVMRT_PLUGIN_ABI, "acme", functions, NULL, NULL, NULL};
 *
 * The runtime loads the library when a missing global function is looked up whose name begins with
 * one of the plug-in's prefixes. Text files `plugins.txt` list the prefixes, one line "prefix
 * library" each; a library without a folder is in the folder of its file. At the first look-up of a
 * missing function the runtime reads, once, the files in the folders of the environment variable
 * TVMRT_PLUGIN_PATH (separated by ':', on Windows by ';'), then the file next to itself. The
 * longest prefix wins; of equal ones the first. Lines without a library and '#' lines are skipped.
 *
 * A library is loaded once and stays in the process. While it is being loaded, other threads that
 * need a plug-in wait; `enter` must not wait for them.
 *
 * C99 and C++ clean.
 */
#ifndef TVM_RUNTIME_PLUGIN_H_
#define TVM_RUNTIME_PLUGIN_H_

#include <tvm/runtime/c_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

/*! \brief Version of tvmrt_plugin. When it changes, plug-ins must be rebuilt. */
#define TVMRT_PLUGIN_ABI 1

/*! \brief One global function; its resource_handle is its name. */
typedef struct tvmrt_plugin_function {
  const char* name; /*!< Static; NULL ends the list. */
  TVMCPackedFunc function;
} tvmrt_plugin_function;

/*! \brief Table that a plug-in exports as tvmrt_plugin_table. Constant, with static pointers. */
typedef struct tvmrt_plugin {
  uint32_t struct_bytes; /*!< sizeof(tvmrt_plugin): lets the struct grow at its end. */
  uint32_t abi;          /*!< TVMRT_PLUGIN_ABI */
  const char* name;      /*!< Unique in the process. */
  /*! Added to the global functions after `enter`. Taken names keep their function. NULL: none. */
  const tvmrt_plugin_function* functions;
  /*! Register devices and kinds of modules. 0, or -1 after TVMPackedFuncSetLastError(). May be NULL. */
  int (*enter)(void);
  /*! Undo `enter`. 0, or -1 with the error text set: then the plug-in stays. May be NULL. */
  int (*leave)(void);
  /*! Version of the runtime whose internal headers (src_runtime/sdk) the plug-in includes; it works
   * only with that version. NULL for plug-ins that include only public headers. */
  const char* sdk;
} tvmrt_plugin;

/*! \name Definition of the table
 * TVMRT_PLUGIN_TABLE stands before the initializer, once in a plug-in. Plug-ins that are linked into
 * the runtime library define TVMRT_PLUGIN_STATIC as their name.
 * @{
 */
#if defined(TVMRT_PLUGIN_STATIC)
#define TVMRT_PLUGIN_JOIN_(name) tvmrt_plugin_table_##name
#define TVMRT_PLUGIN_SYMBOL_(name) TVMRT_PLUGIN_JOIN_(name)
#define TVMRT_PLUGIN_SYMBOL TVMRT_PLUGIN_SYMBOL_(TVMRT_PLUGIN_STATIC)
#define TVMRT_PLUGIN_EXPORT
#else
#define TVMRT_PLUGIN_SYMBOL tvmrt_plugin_table
#if defined(_WIN32)
#define TVMRT_PLUGIN_EXPORT __declspec(dllexport)
#else
#define TVMRT_PLUGIN_EXPORT TVM_DLL
#endif
#endif
#ifdef __cplusplus
#define TVMRT_PLUGIN_TABLE                                               \
  extern "C" TVMRT_PLUGIN_EXPORT const tvmrt_plugin TVMRT_PLUGIN_SYMBOL; \
  const tvmrt_plugin TVMRT_PLUGIN_SYMBOL
#else
#define TVMRT_PLUGIN_TABLE                                           \
  extern TVMRT_PLUGIN_EXPORT const tvmrt_plugin TVMRT_PLUGIN_SYMBOL; \
  const tvmrt_plugin TVMRT_PLUGIN_SYMBOL
#endif
/*! @} */

/*!
 * \brief Load a plug-in by the path of its library. Does nothing if it is already loaded.
 * Errors:  -1: not a shared library, not a plug-in, another version (both are named), a table that
 *          is too short, the name of another plug-in, or `enter` failed.
 * Threads: thread-safe.
 */
TVM_DLL int tvmrt_plugin_load(const char* path);

/*!
 * \brief Add a plug-in whose table is part of the program. It is used until the process ends. Does
 * nothing if it was added before.
 * Errors:  -1: as for tvmrt_plugin_load().
 * Threads: thread-safe.
 */
TVM_DLL int tvmrt_plugin_enter(const tvmrt_plugin* table);

/*!
 * \brief Add an entry to the prefix table: names that begin with `prefix` are in `library`, which
 * is loaded on demand. Both texts are copied.
 * Errors:  -1: the prefix is empty, or belongs to another library.
 * Threads: thread-safe.
 */
TVM_DLL int tvmrt_plugin_add_prefix(const char* prefix, const char* library);

/*!
 * \brief Call `leave` of a plug-in and remove its functions. The library stays in the process,
 * since its code may be on the stack of a thread; it enters again on demand.
 * Errors:  -1: no such plug-in, one of its functions is still referenced, `leave` failed, or
 *          `enter` has no `leave`.
 * Threads: thread-safe.
 */
TVM_DLL int tvmrt_plugin_unload(const char* name);

#ifdef __cplusplus
}
#endif

#endif /* TVM_RUNTIME_PLUGIN_H_ */
