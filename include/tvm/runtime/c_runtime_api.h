/*!
 * \file tvm/runtime/c_runtime_api.h
 * \brief What a runtime and its front ends use: registry, modules, tensors, objects, devices.
 *
 * Generated code does not need this header (see c_backend_api.h); it includes that one so that old
 * sources, which include only this, still compile. The words for ownership and threads are those of
 * c_packed_func.h.
 *
 * Handles: a NULL handle is accepted by every ...Free function and does nothing. A handle of another
 * kind is an error where the runtime can see it (modules, functions and objects carry their kind). A
 * handle must not be used or freed after its last reference is gone.
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
 * \param resource_handle [in] What was given to TVMFuncCreateFromCFunc().
 * \return 0, -1 with a text in the error slot, or -2 if the front end keeps its own exception.
 */
typedef int (*TVMRuntimeCPackedFunc)(TVMValue* args, int* type_codes, int num_args,
                                     TVMRetValueHandle ret, void* resource_handle);

/*! \brief The old name of TVMRuntimeCPackedFunc; the same type. */
typedef TVMRuntimeCPackedFunc TVMPackedCFunc;

/*! \brief Called once with the resource when the last reference to a function goes. */
typedef void (*TVMPackedCFuncFinalizer)(void* resource_handle);

/*! \brief Registers functions through a registering function; used by extension libraries. */
typedef int (*TVMExtensionFuncDeclarer)(TVMFunctionHandle register_func_handle);

/*!
 * \name Errors
 * @{
 */

/*!
 * \brief Remember a front end's exception object beside the error text.
 * \param py_object [in] Retained through Py_IncRef if the front end registered it.
 * Threads: the calling thread's slot.
 */
TVM_DLL void TVMAPISetLastPythonError(void* py_object);

/*! \brief The exception object of the thread's last error, or NULL; borrowed. */
TVM_DLL void* TVMGetLastPythonError(void);

/*! \brief The text that came with the exception object: the same as TVMGetLastError(). */
TVM_DLL const char* TVMGetLastBacktrace(void);

/*! \brief Release the remembered exception object of this thread. */
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
 * \param format    [in] "so", ...; "" takes the text after the last '.' of the path.
 * \param out       [out] Owned module; released by TVMModFree(). NULL on failure.
 *
 * A shared library's context pointers are filled and its embedded module tree is restored; *out is
 * the root of that tree.
 * Errors:  -1: no format, no loader `runtime.module.loadfile_<format>`, unreadable or damaged file.
 * Threads: thread-safe.
 */
TVM_DLL int TVMModLoadFromFile(const char* file_name, const char* format, TVMModuleHandle* out);

/*!
 * \brief Add dep to the imports of mod, which retains it.
 * Errors: -1 if that would close a cycle.
 * Threads: not while another thread looks functions up in mod.
 */
TVM_DLL int TVMModImport(TVMModuleHandle mod, TVMModuleHandle dep);

/*!
 * \brief Look a function up.
 *
 * \param mod           [in] Module.
 * \param func_name     [in] Exact name; borrowed.
 * \param query_imports [in] Non-zero: search the imports too, depth first.
 * \param out           [out] Owned function, which keeps its module alive; released by TVMFuncFree().
 *                      NULL, with result 0, if there is none of that name.
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
 * \param arr [in] From a TVMFuncCall() result: the thread's return slot, for which nothing is done.
 */
TVM_DLL int TVMByteArrayFree(TVMByteArray* arr);

/*!
 * \brief Set the result of a TVMRuntimeCPackedFunc.
 *
 * \param ret       [in] The handle that the function got.
 * \param value     [in] One value; borrowed: text and bytes are copied, objects retained.
 * \param type_code [in] Its code.
 * \param num_ret   [in] Must be 1.
 */
TVM_DLL int TVMCFuncSetReturn(TVMRetValueHandle ret, TVMValue* value, int* type_code, int num_ret);

/*!
 * \brief Turn a borrowed argument of a callback into an owned value.
 *
 * \param value [in,out] Objects, modules, functions and NDArrays are retained; a moved argument
 *              (kTVMObjectRValueRefArg) is taken over and becomes an ordinary object. Text and bytes
 *              stay borrowed.
 * \param code  [in,out] Its code.
 */
TVM_DLL int TVMCbArgToReturn(TVMValue* value, int* code);

/*!
 * \brief Make a function of a C function and its resource.
 *
 * \param func            [in] Called with resource_handle.
 * \param resource_handle [in] Anything; transferred, together with fin, on success.
 * \param fin             [in] Called when the last reference goes, on the thread that dropped it; may
 *                        be NULL.
 * \param out             [out] Owned function; released by TVMFuncFree().
 */
TVM_DLL int TVMFuncCreateFromCFunc(TVMRuntimeCPackedFunc func, void* resource_handle,
                                   TVMPackedCFuncFinalizer fin, TVMFunctionHandle* out);

/*!
 * \brief Make a function of a TVMCPackedFunc and its resource: less lies between a caller and it than
 *        with TVMFuncCreateFromCFunc().
 *
 * \param func     [in] Called with `resource` as its resource_handle, on the threads of its callers.
 *                 It stores its result itself: numbers and owned handles as they are, what is
 *                 borrowed, text and bytes by tvmrt_func_return(). If it stores nothing, NULL is
 *                 returned. When it fails nothing of what it has stored is released.
 * \param resource [in] Anything; transferred, together with fin, on success.
 * \param fin      [in] Called when the last reference goes, on the thread that dropped it; may be
 *                 NULL.
 * \param out      [out] Owned function; released by TVMFuncFree(). NULL on failure.
 */
TVM_DLL int tvmrt_func_create(TVMCPackedFunc func, void* resource, TVMPackedCFuncFinalizer fin,
                              TVMFunctionHandle* out);

/*!
 * \brief Whether a function is one of the runtime's own that neither waits nor computes.
 *
 * A front end with a lock of its own, such as Python's, may keep it during the call.
 * \param func [in] Borrowed.
 * \return 1 or 0; 0 for what is no function of the runtime's.
 */
TVM_DLL int tvmrt_func_is_short(TVMFunctionHandle func);

/*!
 * \brief Say of a function that it reads the strides of its tensors, as those of tvm-ffi do.
 *
 * Classic functions may ignore them, so that a front end hands out compact tensors alone; to such a
 * function it may show any view.
 * \param func [in] Borrowed, and called by nobody yet.
 * \return 0, or -1 for what is no function of the runtime's.
 */
TVM_DLL int tvmrt_func_set_strided(TVMFunctionHandle func);

/*!
 * \brief Whether tvmrt_func_set_strided() was said of a function.
 *
 * \param func [in] Borrowed.
 * \return 1 or 0; 0 for what is no function of the runtime's.
 */
TVM_DLL int tvmrt_func_is_strided(TVMFunctionHandle func);

/*!
 * \brief Return a borrowed value from a TVMCPackedFunc of tvmrt_func_create().
 *
 * \param value         [in] Objects are retained. Text and bytes are copied to the thread's return
 *                      slot, so call nothing that may return text after this.
 * \param type_code     [in] Its code. A kTVMDataType becomes text; a kTVMDLTensorHandle is refused.
 * \param ret_value     [out] What the function got; it is as TVMFuncCall() left it.
 * \param ret_type_code [out] Likewise.
 */
TVM_DLL int tvmrt_func_return(const TVMValue* value, int type_code, TVMValue* ret_value,
                              int* ret_type_code);

/*!
 * \brief Enter a function in the global registry, which retains it.
 * \param name     [in] Copied.
 * \param f        [in] The function.
 * \param override [in] Non-zero: replace an older entry; zero: -1 if there is one.
 * Threads: thread-safe.
 */
TVM_DLL int TVMFuncRegisterGlobal(const char* name, TVMFunctionHandle f, int override);

/*!
 * \brief Look a global function up.
 * \param out [out] Owned function, released by TVMFuncFree(); NULL, with result 0, if there is none.
 * Threads: thread-safe.
 */
TVM_DLL int TVMFuncGetGlobal(const char* name, TVMFunctionHandle* out);

/*!
 * \brief Names of all global functions, in no particular order.
 * \param out_size  [out] Number of names.
 * \param out_array [out] The names; borrowed until the thread's next call of this function.
 */
TVM_DLL int TVMFuncListGlobalNames(int* out_size, const char*** out_array);

/*! \brief Remove a global function; 0 also if there is none. The registry's reference is dropped. */
TVM_DLL int TVMFuncRemoveGlobal(const char* name);

/*! @} */
/*!
 * \name Tensors
 * @{
 */

/*!
 * \brief Allocate a tensor.
 *
 * \param shape [in] ndim extents, each at least 0; copied.
 * \param ndim  [in] 0 for a scalar.
 * \param dtype_code, dtype_bits, dtype_lanes [in] Element type.
 * \param device_type, device_id [in] Where.
 * \param out   [out] Owned tensor: compact (strides NULL), data aligned to 128 bytes, uninitialised;
 *              released by TVMArrayFree().
 *
 * Errors: -1: negative extent, size overflow, unknown device, no memory.
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

/*! \brief Copy a compact tensor to host memory; nbytes must equal its size. */
TVM_DLL int TVMArrayCopyToBytes(TVMArrayHandle handle, void* data, size_t nbytes);

/*!
 * \brief Copy between tensors of the same byte size, also across devices if one of them is the host.
 * \param stream [in] NULL: the default stream; the copy is then complete on return.
 */
TVM_DLL int TVMArrayCopyFromTo(TVMArrayHandle from, TVMArrayHandle to, TVMStreamHandle stream);

/*!
 * \brief Take a DLPack tensor over, without copying.
 *
 * \param from [in] Transferred on success: its deleter is called when the last reference goes. On
 *             failure it stays the caller's.
 * \param out  [out] Owned tensor; released by TVMArrayFree().
 *
 * Errors: -1 if the tensor is not compact, or its data is not aligned to 64 bytes.
 * Source: contiguity and alignment as from TVM 0.9 on. DLPack's bool becomes uint1.
 */
TVM_DLL int TVMArrayFromDLPack(DLManagedTensor* from, TVMArrayHandle* out);

/*!
 * \brief Offer a tensor by DLPack, without copying.
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
/*! \brief The calling thread's current stream of a device; NULL, the default one, where none was set. */
TVM_DLL TVMStreamHandle tvmrt_current_stream(int device_type, int device_id);
/*!
 * \brief As TVMSetStream(), also for devices of which this runtime knows nothing.
 * \param device_type [in] Type of the device.
 * \param device_id   [in] Its number.
 * \param stream      [in] The stream from now on; NULL: the default one.
 * \param old         [out] The stream until now, to be set again later; may be NULL.
 *
 * Errors:  -1: the thread has streams of 16 other devices.
 */
TVM_DLL int tvmrt_swap_stream(int device_type, int device_id, TVMStreamHandle stream,
                              TVMStreamHandle* old);
/*! \brief Wait until everything on a stream is done. */
TVM_DLL int TVMSynchronize(int device_type, int device_id, TVMStreamHandle stream);
/*! \brief Make dst wait for what is on src now. */
TVM_DLL int TVMStreamStreamSynchronize(int device_type, int device_id, TVMStreamHandle src,
                                       TVMStreamHandle dst);

/*!
 * \brief Raw memory of a device.
 * \param dev       [in] Device.
 * \param nbytes    [in] Size in bytes.
 * \param alignment [in] In bytes, a power of two; 0 for the default (128).
 * \param type_hint [in] Ignored on CPU.
 * \param out_data  [out] Owned; released by TVMDeviceFreeDataSpace().
 */
TVM_DLL int TVMDeviceAllocDataSpace(DLDevice dev, size_t nbytes, size_t alignment,
                                    DLDataType type_hint, void** out_data);

/*!
 * \brief Raw memory for a tensor in a memory scope.
 * \param mem_scope [in] NULL, "" or "global" for plain memory; others are the device's.
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
/*! \brief Take one more reference. */
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
