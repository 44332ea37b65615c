/*!
 * \file tvm/runtime/c_runtime_api.h
 * \brief Host API of the runtime: registry, modules, tensors, objects, devices.
 *
 * Generated code does not need this header (see c_backend_api.h). It includes c_backend_api.h so
 * that old sources, which include only this header, still compile. Terms for ownership and threads
 * are defined in c_packed_func.h.
 *
 * Handles: every ...Free function accepts a NULL handle and does nothing. A handle of another kind
 * is an error if the runtime can detect it (modules, functions and objects carry their kind). A
 * handle must not be used or freed after its last reference is released.
 *
 * C99 and C++ clean.
 */
#ifndef TVM_RUNTIME_C_RUNTIME_API_H_
#define TVM_RUNTIME_C_RUNTIME_API_H_

#include <stdbool.h>
#include <tvm/runtime/c_backend_api.h>
#include <tvm/runtime/c_packed_func.h>

#ifdef __cplusplus
extern "C" {
#endif

/*!
 * \brief A packed function that a front end supplies: it may return text, bytes and objects.
 *
 * \param args, type_codes, num_args [in] As for TVMCPackedFunc.
 * \param ret             [in] For TVMCFuncSetReturn(); valid during the call.
 * \param resource_handle [in] The resource_handle passed to TVMFuncCreateFromCFunc().
 * \return 0, -1 with a text in the error slot, or -2 if the front end keeps its own exception.
 */
typedef int (*TVMRuntimeCPackedFunc)(TVMValue* args, int* type_codes, int num_args,
                                     TVMRetValueHandle ret, void* resource_handle);

/*! \brief Former name of TVMRuntimeCPackedFunc; an alias of the type. */
typedef TVMRuntimeCPackedFunc TVMPackedCFunc;

/*! \brief Called once with the resource when the last reference to a function is released. */
typedef void (*TVMPackedCFuncFinalizer)(void* resource_handle);

/*! \brief Registers functions through a given function; used by extension libraries. */
typedef int (*TVMExtensionFuncDeclarer)(TVMFunctionHandle register_func_handle);

/*!
 * \name Errors
 * @{
 */

/*!
 * \brief Store a front end's exception object in addition to the error text.
 * \param py_object [in] Retained through Py_IncRef if the front end registered it.
 * Threads: the calling thread's slot.
 */
TVM_DLL void TVMAPISetLastPythonError(void* py_object);

/*! \brief The exception object of the thread's last error, or NULL; borrowed. */
TVM_DLL void* TVMGetLastPythonError(void);

/*! \brief Text stored with the exception object; equals TVMGetLastError(). */
TVM_DLL const char* TVMGetLastBacktrace(void);

/*! \brief Release the stored exception object of this thread. */
TVM_DLL void TVMDropLastPythonError(void);

/*! @} */
/*!
 * \name Modules
 * @{
 */

/*!
 * \brief Load a module from a file.
 *
 * \param file_name [in] Path; borrowed.
 * \param format    [in] "so", ...; "" uses the text after the last '.' of the path.
 * \param out       [out] Owned module; released by TVMModFree(). NULL on failure.
 *
 * The context pointers of a shared library are filled in and its embedded module tree is restored;
 * *out is the root of that tree.
 * Errors:  -1: no format, no loader `runtime.module.loadfile_<format>`, unreadable or damaged file.
 * Threads: thread-safe.
 */
TVM_DLL int TVMModLoadFromFile(const char* file_name, const char* format, TVMModuleHandle* out);

/*!
 * \brief Add dep to the imports of mod; mod retains dep.
 * Errors: -1 if that would create a cycle.
 * Threads: not while another thread looks up functions in mod.
 */
TVM_DLL int TVMModImport(TVMModuleHandle mod, TVMModuleHandle dep);

/*!
 * \brief Look up a function of a module.
 *
 * \param mod           [in] Module.
 * \param func_name     [in] Exact name; borrowed.
 * \param query_imports [in] Non-zero: search the imports too, depth first.
 * \param out           [out] Owned function, which keeps its module alive; released by
 *                            TVMFuncFree(). NULL, with result 0, if there is none of that name.
 *
 * Cost: one hash look-up after the first time.
 * Threads: thread-safe.
 */
TVM_DLL int TVMModGetFunction(TVMModuleHandle mod, const char* func_name, int query_imports,
                              TVMFunctionHandle* out);

/*! \brief Release one reference to a module. NULL does nothing. */
TVM_DLL int TVMModFree(TVMModuleHandle mod);

/*! @} */
/*!
 * \name Functions
 * @{
 */

/*! \brief Release one reference to a function. NULL does nothing. */
TVM_DLL int TVMFuncFree(TVMFunctionHandle func);

/*!
 * \brief Free bytes that the runtime returned.
 * \param arr [in] A TVMFuncCall() result, in the thread's return slot: nothing is done.
 */
TVM_DLL int TVMByteArrayFree(TVMByteArray* arr);

/*!
 * \brief Set the result of a TVMRuntimeCPackedFunc.
 *
 * \param ret       [in] The handle that the function received.
 * \param value     [in] One value; borrowed: text and bytes are copied, objects retained.
 * \param type_code [in] Its code.
 * \param num_ret   [in] Must be 1.
 */
TVM_DLL int TVMCFuncSetReturn(TVMRetValueHandle ret, TVMValue* value, int* type_code, int num_ret);

/*!
 * \brief Turn a borrowed argument of a callback into an owned value.
 *
 * \param value [in,out] Objects, modules, functions and NDArrays are retained. A moved argument
 *                       (kTVMObjectRValueRefArg) is transferred and becomes an ordinary object.
 *                       Text and bytes stay borrowed.
 * \param code  [in,out] Its code.
 */
TVM_DLL int TVMCbArgToReturn(TVMValue* value, int* code);

/*!
 * \brief Create a function from a C function and its resource.
 *
 * \param func            [in] Called with resource_handle.
 * \param resource_handle [in] Any pointer; transferred, together with fin, on success.
 * \param fin             [in] Called on release of the last reference, on its thread; may be NULL.
 * \param out             [out] Owned function; released by TVMFuncFree().
 */
TVM_DLL int TVMFuncCreateFromCFunc(TVMRuntimeCPackedFunc func, void* resource_handle,
                                   TVMPackedCFuncFinalizer fin, TVMFunctionHandle* out);

/*!
 * \brief Create a function from a TVMCPackedFunc and its resource, with cheaper calls than
 * TVMFuncCreateFromCFunc().
 *
 * \param func     [in] Called with `resource` as its resource_handle, on the threads of its
 *                      callers. It stores its result itself: numbers and owned handles directly;
 *                      borrowed values, text and bytes by tvmrt_func_return(). If it stores
 *                      nothing, NULL is returned. If it fails, stored results are not released.
 * \param resource [in] Any pointer; transferred, together with fin, on success.
 * \param fin      [in] Called on release of the last reference, on its thread; may be NULL.
 * \param out      [out] Owned function; released by TVMFuncFree(). NULL on failure.
 */
TVM_DLL int tvmrt_func_create(TVMCPackedFunc func, void* resource, TVMPackedCFuncFinalizer fin,
                              TVMFunctionHandle* out);

/*!
 * \brief Whether a function is one of the runtime's own that neither waits nor computes.
 *
 * A front end may keep its own lock, such as Python's GIL, during the call.
 * \param func [in] Borrowed.
 * \return 1 or 0; 0 for a handle that is not a function of the runtime.
 */
TVM_DLL int tvmrt_func_is_short(TVMFunctionHandle func);

/*!
 * \brief Declare that a function reads the strides of its tensors, as functions of tvm-ffi do.
 *
 * Classic functions may ignore strides, so a front end passes them compact tensors only. A strided
 * function may receive any view.
 * \param func [in] Borrowed; must not have been called yet.
 * \return 0, or -1 for a handle that is not a function of the runtime.
 */
TVM_DLL int tvmrt_func_set_strided(TVMFunctionHandle func);

/*!
 * \brief Whether a function was marked by tvmrt_func_set_strided().
 *
 * \param func [in] Borrowed.
 * \return 1 or 0; 0 for a handle that is not a function of the runtime.
 */
TVM_DLL int tvmrt_func_is_strided(TVMFunctionHandle func);

/*!
 * \brief Return a borrowed value from a TVMCPackedFunc of tvmrt_func_create().
 *
 * \param value         [in] Objects are retained. Text and bytes are copied to the thread's return
 *                           slot; do not call anything that may return text afterwards.
 * \param type_code     [in] Its code. A kTVMDataType becomes text; a kTVMDLTensorHandle is refused.
 * \param ret_value     [out] The out_ret_value of the function, as initialised by TVMFuncCall().
 * \param ret_type_code [out] The out_ret_tcode that the function received.
 */
TVM_DLL int tvmrt_func_return(const TVMValue* value, int type_code, TVMValue* ret_value,
                              int* ret_type_code);

/*!
 * \brief Add a function to the global registry, which retains it.
 * \param name     [in] Copied.
 * \param f        [in] The function.
 * \param override [in] Non-zero: replace an existing entry; zero: -1 if there is one.
 * Threads: thread-safe.
 */
TVM_DLL int TVMFuncRegisterGlobal(const char* name, TVMFunctionHandle f, int override);

/*!
 * \brief Look up a global function.
 * \param out [out] Owned function, released by TVMFuncFree(); NULL, with result 0, if missing.
 * Threads: thread-safe.
 */
TVM_DLL int TVMFuncGetGlobal(const char* name, TVMFunctionHandle* out);

/*!
 * \brief Names of all global functions, in no particular order.
 * \param out_size  [out] Number of names.
 * \param out_array [out] The names; borrowed until the thread's next call of this function.
 */
TVM_DLL int TVMFuncListGlobalNames(int* out_size, const char*** out_array);

/*! \brief Remove a global function, with the registry's reference; 0 also if there is none. */
TVM_DLL int TVMFuncRemoveGlobal(const char* name);

/*! @} */
/*!
 * \name Tensors
 * @{
 */

/*!
 * \brief Allocate a tensor.
 *
 * \param shape [in] ndim extents, each 0 or more; copied.
 * \param ndim  [in] 0 for a scalar.
 * \param dtype_code, dtype_bits, dtype_lanes [in] Element type.
 * \param device_type, device_id [in] Device of the memory.
 * \param out   [out] Owned tensor: compact (strides NULL), data aligned to 128 bytes,
 *                    uninitialised; released by TVMArrayFree().
 *
 * Errors: -1: negative extent, size overflow, unknown device, out of memory.
 */
TVM_DLL int TVMArrayAlloc(const tvm_index_t* shape, int ndim, int dtype_code, int dtype_bits,
                          int dtype_lanes, int device_type, int device_id, TVMArrayHandle* out);

/*! \brief Release one reference to a tensor. NULL does nothing. */
TVM_DLL int TVMArrayFree(TVMArrayHandle handle);

/*!
 * \brief Fill a tensor from host memory.
 * \param handle [in] Compact tensor; any DLTensor.
 * \param data   [in] nbytes bytes in row-major order; borrowed.
 * \param nbytes [in] Must equal the tensor's size.
 */
TVM_DLL int TVMArrayCopyFromBytes(TVMArrayHandle handle, void* data, size_t nbytes);

/*! \brief Copy a compact tensor to host memory; nbytes must equal the tensor's size in bytes. */
TVM_DLL int TVMArrayCopyToBytes(TVMArrayHandle handle, void* data, size_t nbytes);

/*!
 * \brief Copy between tensors of equal byte size, also across devices if one of them is the host.
 * \param stream [in] NULL: the default stream; the copy is then complete on return.
 */
TVM_DLL int TVMArrayCopyFromTo(TVMArrayHandle from, TVMArrayHandle to, TVMStreamHandle stream);

/*!
 * \brief Take ownership of a DLPack tensor without copying.
 *
 * \param from [in] Transferred on success: its deleter is called when the last reference is
 *                  released. On failure the caller still owns it.
 * \param out  [out] Owned tensor; released by TVMArrayFree().
 *
 * Errors: -1 if the tensor is not compact, or its data is not aligned to 64 bytes.
 * Source: contiguity and alignment as from TVM 0.9 on. DLPack's bool becomes uint1.
 */
TVM_DLL int TVMArrayFromDLPack(DLManagedTensor* from, TVMArrayHandle* out);

/*!
 * \brief Export a tensor by DLPack without copying.
 * \param from [in] Retained until the deleter is called.
 * \param out  [out] Owned; released by `(*out)->deleter(*out)`. uint1 becomes DLPack's bool.
 */
TVM_DLL int TVMArrayToDLPack(TVMArrayHandle from, DLManagedTensor** out);

/*! \brief Call the deleter of a DLPack tensor. NULL and tensors without a deleter do nothing. */
TVM_DLL void TVMDLManagedTensorCallDeleter(DLManagedTensor* dltensor);

/*! \brief Type index of a tensor's object. */
TVM_DLL int TVMArrayGetTypeIndex(TVMArrayHandle handle, unsigned* out_tindex);

/*! @} */
/*!
 * \name Streams and devices
 *
 * On the CPU there is one stream, NULL, and everything is complete on return.
 * @{
 */

/*! \brief Create a stream; released by TVMStreamFree(). */
TVM_DLL int TVMStreamCreate(int device_type, int device_id, TVMStreamHandle* out);
/*! \brief Release a stream. */
TVM_DLL int TVMStreamFree(int device_type, int device_id, TVMStreamHandle stream);
/*! \brief Make a stream the calling thread's current one. */
TVM_DLL int TVMSetStream(int device_type, int device_id, TVMStreamHandle stream);
/*! \brief The calling thread's current stream of a device; NULL, the default one, if none is
 * set. */
TVM_DLL TVMStreamHandle tvmrt_current_stream(int device_type, int device_id);
/*!
 * \brief Set the calling thread's current stream, also for devices unknown to this runtime.
 * \param device_type [in] Type of the device.
 * \param device_id   [in] Index of the device.
 * \param stream      [in] The new stream; NULL: the default stream.
 * \param old         [out] The previous stream, to be restored later; may be NULL.
 *
 * Errors:  -1: the thread has streams of 16 other devices.
 */
TVM_DLL int tvmrt_swap_stream(int device_type, int device_id, TVMStreamHandle stream,
                              TVMStreamHandle* old);
/*! \brief Wait until all work on a stream is done. */
TVM_DLL int TVMSynchronize(int device_type, int device_id, TVMStreamHandle stream);
/*! \brief Make dst wait for the work that is on src now. */
TVM_DLL int TVMStreamStreamSynchronize(int device_type, int device_id, TVMStreamHandle src,
                                       TVMStreamHandle dst);

/*!
 * \brief Allocate raw memory of a device.
 * \param dev       [in] Device.
 * \param nbytes    [in] Size in bytes.
 * \param alignment [in] In bytes, a power of two; 0 for the default (128).
 * \param type_hint [in] Ignored on CPU.
 * \param out_data  [out] Owned; released by TVMDeviceFreeDataSpace().
 */
TVM_DLL int TVMDeviceAllocDataSpace(DLDevice dev, size_t nbytes, size_t alignment,
                                    DLDataType type_hint, void** out_data);

/*!
 * \brief Allocate raw memory for a tensor in a memory scope.
 * \param mem_scope [in] NULL, "" or "global" for plain memory; other scopes are the device's.
 */
TVM_DLL int TVMDeviceAllocDataSpaceWithScope(DLDevice dev, int ndim, const int64_t* shape,
                                             DLDataType dtype, const char* mem_scope,
                                             void** out_data);

/*! \brief Release raw memory. NULL does nothing. */
TVM_DLL int TVMDeviceFreeDataSpace(DLDevice dev, void* ptr);

/*! \brief Copy a tensor's bytes; see TVMArrayCopyFromTo(). */
TVM_DLL int TVMDeviceCopyDataFromTo(DLTensor* from, DLTensor* to, TVMStreamHandle stream);

/*! @} */
/*!
 * \name Objects
 * @{
 */

/*! \brief Type index of an object. */
TVM_DLL int TVMObjectGetTypeIndex(TVMObjectHandle obj, unsigned* out_tindex);
/*! \brief Type index of a type key; -1 for an unknown key. */
TVM_DLL int TVMObjectTypeKey2Index(const char* type_key, unsigned* out_tindex);
/*! \brief Type key of an index. \param out_type_key [out] Owned; released by `free()`. */
TVM_DLL int TVMObjectTypeIndex2Key(unsigned tindex, char** out_type_key);
/*! \brief Add a reference to an object. */
TVM_DLL int TVMObjectRetain(TVMObjectHandle obj);
/*! \brief Release one reference. NULL does nothing. */
TVM_DLL int TVMObjectFree(TVMObjectHandle obj);
/*! \brief Whether a type is another one or derives from it; *is_derived is 0 or 1. */
TVM_DLL int TVMObjectDerivedFrom(uint32_t child_type_index, uint32_t parent_type_index,
                                 int* is_derived);

/*! @} */

#ifdef __cplusplus
}
#endif

#endif /* TVM_RUNTIME_C_RUNTIME_API_H_ */
