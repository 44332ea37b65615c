/*!
 * \file tvm/runtime/device.h
 * \brief Devices: accelerators that run regions of a network, each described by one struct.
 *
 * A network that is compiled for a device carries *regions*: parts of its graph, each a
 * tvmrt_region. When a library is loaded, the runtime finds the device of each region by name and
 * prepares the region. The region is then an ordinary packed function, which takes the region's
 * inputs and outputs as tensors. A device needs only a name and one function:
 *
 *     TVMRT_DEVICE_PLUGIN(npu)
 *     static int run(tvmrt_device* self, tvmrt_region* region) {
 *       const tvmrt_region_node* node = &region->nodes[0];
 *       const float* x = tvmrt_region_data(region, node->inputs[0]);
 *       ...
 *       return 0;
 *     }
 *     static const tvmrt_device_interface interface = {.run = run};
 *     static const tvmrt_device device = {
 *         .struct_bytes = sizeof(device), .name = "npu", .interface = &interface};
 *     int register_npu_device(void) { return tvmrt_device_register(&device); }
 *     int unregister_npu_device(void) { return tvmrt_device_unregister("npu"); }
 *
 * Put it into `plugins/<name>/`, where the build finds it, or build a shared object for
 * tvmrt_device_load_plugin().
 *
 * Life of a device:  register -> init -> (regions) -> release_device <- unregister.
 * Life of a region:  evaluation, allocate, pre_run -> run ... run -> post_run, release_graph,
 *                    release; at other shapes: post_run, pre_run, without reloading.
 *
 * Slots return 0, or -1 after TVMPackedFuncSetLastError(). The runtime puts device, slot, region
 * and node before the text; a slot that knows the node sets region->failed_node. If a region with
 * "fallback" in its payload fails to prepare, its library still loads: the region fails when it is
 * called, and the CPU's function is called instead. Every slot may be NULL unless it is marked as
 * required. Terms for ownership and threads are defined in c_packed_func.h.
 *
 * Threads: the runtime never runs two slots for one tvmrt_region at the same time; slots for
 *          different regions of a device run at the same time, on any threads. Concurrent calls of
 *          one region, from executors on several threads, also run at the same time: each uses its
 *          own copy of the tvmrt_region, made by allocate and pre_run on first use. If these fail,
 *          the calls wait for each other. init and release_device run alone.
 *
 * C99 and C++ clean.
 */
#ifndef TVM_RUNTIME_DEVICE_H_
#define TVM_RUNTIME_DEVICE_H_

#include <stddef.h>
#include <string.h>
#include <tvm/runtime/c_packed_func.h>
#include <tvm/runtime/device_scheduler.h>
#include <tvm/runtime/region_reading.h>

#ifdef __cplusplus
extern "C" {
#endif

/*!
 * \brief Version of all structs in this header; a plug-in of another version is refused.
 *
 * Within a version, structs grow only at their ends and store their size. A later runtime loads the
 * device and treats its missing slots as NULL; an earlier runtime does not call slots that it does
 * not know. tvmrt_attr, tvmrt_region_tensor, tvmrt_region_node and tvmrt_step, which are used in
 * arrays, never change.
 */
#define TVMRT_DEVICE_ABI 1

/*!
 * \name The device
 * @{
 */

/*! \brief Functions that run regions. Required: `run`, or `async_run` and `async_wait`. */
typedef struct tvmrt_device_interface {
  /*! Optional. Called once, during tvmrt_device_register(), on the caller's thread; may block. If
   * it fails, the device is not registered and release_device is not called. */
  int (*init)(tvmrt_device* device);
  /*!
   * Optional. Called before the first run of a region, while its library is loaded, and again after
   * post_run: allocate, change layouts, compile kernels, and keep the result in
   * region->device_graph, which may still hold the value of an earlier pre_run. May block.
   * `options` is a JSON object, "{}" by default; borrowed for the call. The runtime itself reads
   * "timeout_ms" of it: the maximum time in milliseconds of a run by async_run. If pre_run fails,
   * release_graph is called if device_graph is not NULL.
   */
  int (*pre_run)(tvmrt_device* device, tvmrt_region* region, const char* options);
  /*! Required unless there is async_run. Compute region->outputs from region->inputs; block until
   * they are complete. Called from any thread. */
  int (*run)(tvmrt_device* device, tvmrt_region* region);
  /*! Optional. Undo one pre_run, at its shapes: called before another pre_run, before
   * release_graph, and after a run that timed out. It must stop a run in progress: when it returns
   * 0, the device no longer accesses region->data. device_graph may stay. If it fails, the call
   * that caused it fails with its text; before release_graph the result is ignored. If it fails
   * after a run that timed out, or is NULL, the call returns only when async_wait (try_wait 0)
   * reports the end of the run: the caller must not reuse the tensors before. */
  int (*post_run)(tvmrt_device* device, tvmrt_region* region);
  /*! Required unless there is run. Used if it exists, except that calls which wait at once and
   * without a timeout use `run` if there is one. Start a run and return; must not block on the
   * result. The next async_run of the region follows its async_wait. */
  int (*async_run)(tvmrt_device* device, tvmrt_region* region);
  /*! Required if there is async_run. try_wait 0: block until the run has ended. try_wait 1: do not
   * block. Returns 0 when the run has ended, TVMRT_DEVICE_BUSY if it has not (try_wait 1 only), or
   * -1 if it failed, which ends it too. Called on any thread. */
  int (*async_wait)(tvmrt_device* device, tvmrt_region* region, int try_wait);
  /*! Optional. Free region->device_graph; called once, when the library is freed or pre_run has
   * failed, and never with NULL. Its result is ignored: it must free everything it can. */
  int (*release_graph)(tvmrt_device* device, void* device_graph);
  /*! Optional. Called once, during tvmrt_device_unregister(), when no region is left; may block.
   * Not called when the process ends. Its result is ignored. */
  int (*release_device)(tvmrt_device* device);
  /*!
   * Optional. Called after each run of a region in a profile: pass what the device did to `add`, in
   * any order, with the start and the end in seconds since the call of `run` or `async_run`. `add`
   * returns 0 or -1. The name is copied. Set interface_bytes.
   */
  int (*events)(tvmrt_device* device, const tvmrt_region* region,
                int (*add)(void* sink, const char* name, double start, double end), void* sink);
} tvmrt_device_interface;

/*! \brief Result of async_wait with try_wait: still running. */
#define TVMRT_DEVICE_BUSY 1

/*! \brief Capabilities of a device. Lists end with NULL and live as long as the device. */
typedef struct tvmrt_device_description {
  const char* const* ops;    /*!< Supported operators; NULL: none by name, see split_graph. */
  const char* const* dtypes; /*!< Supported element types of tensors; NULL: "float32" only. */
  /*! Additional compute precisions: of "float16", "bfloat16", "int8"; NULL: none. */
  const char* const* precisions;
  const char* layout;       /*!< Of boundary tensors: "dense" (also NULL) or "channels_last". */
  size_t struct_bytes;      /*!< Size in the runtime, set before: do not write past it. */
  const char* const* chips; /*!< Chips that `prepare` compiles for; NULL: none. */
} tvmrt_device_description;

/*! \brief Capabilities of a device, and its memory. */
typedef struct tvmrt_device_allocator {
  /*! Optional; NULL: an empty description. Fill `out`; its lists are NULL before the call. Called
   * by compilers and by tvmrt_split_graph_by_describe(); must not depend on a network. */
  int (*describe)(tvmrt_device* device, tvmrt_device_description* out);
  /*! Optional; NULL: accepts every region. 0: the device can run this region; -1: it cannot, with
   * the reason as error text. The compiler then leaves the region to the CPU; at load it is an
   * error. If the slot sets region->failed_node, the compiler leaves only that node to the CPU,
   * and calls again for the remaining nodes. For dynamic dimensions, the compiler passes the
   * maximum extents, and after a refusal smaller ones: with device_fallback the device runs the
   * region up to those. */
  int (*evaluation)(tvmrt_device* device, const tvmrt_region* region);
  /*! Optional. Reserve the region's memory in the device's pool, before the first pre_run, and
   * store it in region->reservation. Called once, at the initial shapes: the maximum ones for
   * dynamic dimensions. */
  int (*allocate)(tvmrt_device* device, tvmrt_region* region);
  /*! Optional. Release the region's reservation, after release_graph; also if pre_run failed. Its
   * tensors have the shapes of the `allocate` call. Its result is ignored. */
  int (*release)(tvmrt_device* device, tvmrt_region* region);
} tvmrt_device_allocator;

/*! \brief Partitioning and mixed precision, called by the compiler. */
typedef struct tvmrt_device_optimizer {
  /*!
   * Optional; NULL: tvmrt_split_graph_by_describe(), which a custom split may call first.
   * `graph` is a whole network as one region without the values of constants. For each of the
   * graph->num_nodes nodes, write its group, 0 or more, to out_groups[i], or -1 for the CPU. Each
   * group becomes one region, or several if a path between its nodes leaves the group.
   */
  int (*split_graph)(tvmrt_device* device, const tvmrt_region* graph, int32_t* out_groups);
  /*!
   * Optional; NULL: no mixed precision. Choose which nodes of a region compute in `precision`
   * ("float16", "bfloat16", "int8"): write 1 or 0 to out_reduced[i] for each node. pre_run finds
   * the choice as the text attribute "precision" of those nodes. Tensors at the region's boundary
   * keep their types.
   */
  int (*optimize_graph)(tvmrt_device* device, const tvmrt_region* region, const char* precision,
                        int32_t* out_reduced);
  /*!
   * Optional. Compile a region for one of the chips of `describe` when a network is compiled: pass
   * the bytes to `write`, which returns 0 or -1. The library has those of every chip, and pre_run
   * finds them by tvmrt_region_blob(). Not called for regions with dynamic dimensions, which
   * pre_run compiles, as it does a region for which nothing is written. Set optimizer_bytes.
   */
  int (*prepare)(tvmrt_device* device, const tvmrt_region* region, const char* chip,
                 int (*write)(void* sink, const void* data, size_t num_bytes), void* sink);
} tvmrt_device_optimizer;

struct tvmrt_scheduler;

/*! \brief A device's own memory, which tensors of its regions may use instead of the host's. */
typedef struct tvmrt_device_memory {
  size_t struct_bytes; /*!< Required: sizeof(tvmrt_device_memory). */
  /*! The memory device that manages it, see memory_device.h; registered in `init` at the latest. */
  DLDevice device;
  size_t align_bytes; /*!< Alignment of tensors in bytes, a power of two; 0: 64. */
} tvmrt_device_memory;

/*! \brief A device. Copied by tvmrt_device_register(); data that it points to must outlive it. */
struct tvmrt_device {
  size_t struct_bytes; /*!< Required: sizeof(tvmrt_device), which determines the fields it has. */
  const char* name;    /*!< Required, unique: a letter, then letters, digits and '_'. */
  const tvmrt_device_interface* interface; /*!< Required; see there for the required functions. */
  const tvmrt_device_allocator* allocator; /*!< Optional. */
  const tvmrt_device_optimizer* optimizer; /*!< Optional. */
  /*! Optional; NULL: the synchronous one. Default of graph executors that use this device. */
  const struct tvmrt_scheduler* scheduler;
  /*! The device's private data; the runtime never reads it. Slots receive the runtime's copy of
   * this struct, in which they may change this field. */
  void* privacy;
  /*! Version of the node semantics that the device supports. Libraries of newer ones are
   * refused. */
  uint32_t version;
  uint64_t abilities; /*!< Bitwise or of TVMRT_DEVICE_*; devices built without this field have 0. */
  /*! Sizes of the structs at `interface`, `allocator` and `optimizer`; 0: they have the slots of
   * the first version of this header, which end with release_device, release, optimize_graph. */
  size_t interface_bytes;
  size_t allocator_bytes;
  size_t optimizer_bytes;
  /*! Maximum number of runs of different regions that the asynchronous scheduler keeps in progress
   * on this device: its queues, cores or streams, at most 64; 0: one. */
  uint32_t num_queues;
  /*!
   * Optional; NULL: tensors of regions always lie in the host's memory. Otherwise each tensor of
   * region->data may also lie in the device's memory: check its `device`; `data` is then the
   * pointer of the memory device plus an offset. Tensors that only regions of this device use are
   * placed there, and are not copied between them. Inputs and outputs of a network may be bound to
   * tensors there.
   */
  const tvmrt_device_memory* memory;
};

/*! \brief Regions of the device accept dynamic dimensions; see tvmrt_region_extents(). Regions of
 * other devices are prepared again whenever a run has other extents. */
#define TVMRT_DEVICE_ANY_SIZE 1u
/*! \brief Runs use constants only as prepared by pre_run. The library's constants may then be
 * dropped from memory and are read from its file again when needed, as by the next pre_run. */
#define TVMRT_DEVICE_KEEPS_WEIGHTS 2u

/*!
 * \brief Add a device; calls its init.
 * \param device [in] Copied.
 * Errors:  -1: invalid or taken name, a required slot is missing, wrong struct_bytes, or init
 *          failed.
 * Threads: thread-safe.
 */
TVM_DLL int tvmrt_device_register(const tvmrt_device* device);

/*!
 * \brief Remove a device; calls its release_device.
 * A device that is part of the runtime, or of a plug-in, is registered again on demand: when it is
 * found by its name, or its plug-in is loaded by its path.
 * Errors:  -1: there is no such device, or a loaded library uses it.
 * Threads: thread-safe.
 */
TVM_DLL int tvmrt_device_unregister(const char* name);

/*!
 * \brief Find a device by its name.
 *
 * Searches, in this order: registered devices and devices that are part of the runtime; a plug-in
 * `libtvmrt_device_<name>.so` in the folders of the environment variable TVMRT_DEVICE_PATH
 * (separated by ':'), in `devices/` next to the runtime library, then next to the library; plug-ins
 * that were loaded by path and whose device was unregistered; packed functions `device.<name>.run`,
 * which a front end registered.
 *
 * \param out_device [out] Borrowed until it is unregistered; NULL, with result 0, if there is none.
 * Errors:  -1: a plug-in was found and could not be loaded.
 * Threads: thread-safe.
 */
TVM_DLL int tvmrt_device_find(const char* name, tvmrt_device** out_device);

/*!
 * \brief Names of the registered devices, in the order of registration.
 * \param names     [out] At most `capacity` names; borrowed until the device is unregistered.
 * \param out_count [out] Number of devices, which may be larger than capacity.
 */
TVM_DLL int tvmrt_device_list(const char** names, int32_t capacity, int32_t* out_count);

/*!
 * \brief Load a plug-in: a shared object made with TVMRT_DEVICE_PLUGIN().
 *
 * Calls its registration function. A loaded plug-in is not loaded again; if its device was
 * unregistered, the device registers again. A file that has replaced it since is another plug-in;
 * its device can register once the older device is unregistered. Plug-ins are never unloaded, since
 * their code may be on the stack of a thread.
 * Errors:  -1: not a shared object, not a plug-in, another ABI (both versions are named), or its
 *          registration function failed.
 * Threads: thread-safe.
 */
TVM_DLL int tvmrt_device_load_plugin(const char* path);

/*!
 * \brief The default split: nodes whose operator and element types `describe` lists go to the
 * device; connected nodes that may run together share a group.
 * \param out_groups [out] graph->num_nodes groups; see split_graph. Groups are convex: no path
 *                         leaves and comes back.
 */
TVM_DLL int tvmrt_split_graph_by_describe(tvmrt_device* device, const tvmrt_region* graph,
                                          int32_t* out_groups);

/*!
 * \brief Find a loaded region by its symbol.
 * \param module     [in] A library, or a module of kind "device_region".
 * \param out_region [out] Borrowed; lives as long as the module.
 * Errors: -1: the module and its imports have no such region.
 */
TVM_DLL int tvmrt_region_find(TVMModuleHandle module, const char* symbol,
                              tvmrt_region** out_region);

/*! @} */
/*!
 * \name Plug-ins
 * @{
 */

/*!
 * \brief Put this once into a device's source, before its functions `int
 * register_<name>_device(void)` and `int unregister_<name>_device(void)`.
 *
 * Declares the two functions. Unless TVMRT_DEVICE_BUILTIN is defined, as for devices inside the
 * runtime library, it also exports the two functions that make the shared object a plug-in.
 */
#define TVMRT_DEVICE_PLUGIN(name) TVMRT_DEVICE_FUNCTIONS_(name) TVMRT_DEVICE_ENTRIES_(name)

#ifdef __cplusplus
#define TVMRT_DEVICE_C_ extern "C"
#else
#define TVMRT_DEVICE_C_
#endif
#define TVMRT_DEVICE_FUNCTIONS_(name)                 \
  TVMRT_DEVICE_C_ int register_##name##_device(void); \
  TVMRT_DEVICE_C_ int unregister_##name##_device(void);
#ifdef TVMRT_DEVICE_BUILTIN
#define TVMRT_DEVICE_ENTRIES_(name)
#else
#if defined(_WIN32)
#define TVMRT_DEVICE_EXPORT_ __declspec(dllexport)
#else
#define TVMRT_DEVICE_EXPORT_ TVM_DLL
#endif
#define TVMRT_DEVICE_ENTRIES_(name)                                           \
  TVMRT_DEVICE_C_ TVMRT_DEVICE_EXPORT_ int32_t tvmrt_plugin_abi(void);        \
  TVMRT_DEVICE_C_ TVMRT_DEVICE_EXPORT_ int tvmrt_plugin_register(void);       \
  TVMRT_DEVICE_C_ int32_t tvmrt_plugin_abi(void) { return TVMRT_DEVICE_ABI; } \
  TVMRT_DEVICE_C_ int tvmrt_plugin_register(void) { return register_##name##_device(); }
#endif

/*! @} */

#ifdef __cplusplus
}
#endif

#endif /* TVM_RUNTIME_DEVICE_H_ */
