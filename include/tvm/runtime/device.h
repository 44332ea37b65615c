/*!
 * \file tvm/runtime/device.h
 * \brief Devices: what runs a piece of a network, as one nested struct that its author fills.
 *
 * A network that is compiled for a device carries *regions*: pieces of its graph, each a
 * tvmrt_region. When a library is loaded, the runtime finds the device of each region by its name
 * and prepares the region; from then on the region is a packed function like every other, which
 * takes the region's inputs and outputs as tensors. A device is complete with a name and one
 * function:
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
 * It lives in `plugins/<name>/`, where the build finds it, or becomes a shared object for
 * tvmrt_device_load_plugin().
 *
 * Life of a device:  register -> init -> (regions) -> release_device <- unregister.
 * Life of a region:  evaluation, allocate, pre_run -> run ... run -> post_run, release_graph,
 *                    release; at other shapes: post_run, pre_run, without reloading.
 *
 * Slots return 0, or -1 after TVMPackedFuncSetLastError(). The runtime puts device, slot, region
 * and node before the text; a slot that knows the node sets region->failed_node. A region whose
 * payload says "fallback" does not keep its library from loading: it fails when it is called, and
 * the CPU's function is called instead. Every slot may be NULL except where "required" is written.
 * Words for ownership and threads are those of c_packed_func.h.
 *
 * Threads: the runtime never runs two slots for one tvmrt_region at the same time; slots for different
 * ones of a device run at the same time, on any threads. Calls of one region that meet, of executors
 * on several threads, run at the same time as well: each has a copy of the tvmrt_region, made by
 * allocate and pre_run when it is first needed. Where these fail, the calls wait for each other. init
 * and release_device run alone.
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
 * Within a version structs grow at their ends alone, and say how long they are: a device is loaded by
 * later runtimes, where slots that it does not have are NULL, and by earlier ones, which do not call
 * what they do not know. tvmrt_attr, tvmrt_region_tensor, tvmrt_region_node, tvmrt_region_shape and
 * tvmrt_step, of which there are arrays, never change.
 */
#define TVMRT_DEVICE_ABI 1

/*!
 * \name The device
 * @{
 */

/*! \brief Running. `run`, or both of `async_run` and `async_wait`, is required. */
typedef struct tvmrt_device_interface {
  /*! Optional. Once, during tvmrt_device_register(), on the caller's thread; may block. If it
   * fails, the device is not registered and release_device is not called. */
  int (*init)(tvmrt_device* device);
  /*!
   * Optional. Before the first run of a region, while its library is loaded, and again after
   * post_run: allocate, change layouts, compile kernels, and keep the result in
   * region->device_graph, where the value of an earlier pre_run may still stand. May block.
   * `options` is a JSON object, "{}" if nobody gave one; borrowed for the call. The runtime itself
   * reads "timeout_ms" of it: milliseconds that a run by async_run may take. If pre_run fails,
   * release_graph is called if device_graph is not NULL.
   */
  int (*pre_run)(tvmrt_device* device, tvmrt_region* region, const char* options);
  /*! Required unless there is async_run. Compute region->outputs from region->inputs; blocks until
   * they are there. Called from any thread. */
  int (*run)(tvmrt_device* device, tvmrt_region* region);
  /*! Optional. End what one pre_run prepared for runs, at these shapes: called before another
   * pre_run, before release_graph, and after a run that timed out. It must stop a run that is under
   * way: when it returns 0, the device no longer touches region->data. device_graph may stay.
   * If it fails, so does the call that caused it, with the slot's text; before release_graph the
   * result is ignored. Where it fails after a run that timed out, or is NULL, the call returns when
   * async_wait (try_wait 0) says that the run has ended: the tensors are not the caller's before. */
  int (*post_run)(tvmrt_device* device, tvmrt_region* region);
  /*! Required unless there is run; used where it exists, but for calls that wait at once and without
   * a limit of time, which take `run` where there is that as well. Start a run and return; must not
   * block on the result. The next async_run of the region comes after its async_wait. */
  int (*async_run)(tvmrt_device* device, tvmrt_region* region);
  /*! Required if there is async_run. try_wait 0: block until the run has ended. try_wait 1: do not
   * block. Returns 0 when the run has ended, TVMRT_DEVICE_BUSY if it has not (try_wait 1 alone), or
   * -1 if it failed, which ends it too. Called on any thread. */
  int (*async_wait)(tvmrt_device* device, tvmrt_region* region, int try_wait);
  /*! Optional. Free region->device_graph; once, when the library is freed or pre_run has failed,
   * and never with NULL. Its result is ignored: it frees all that it can. */
  int (*release_graph)(tvmrt_device* device, void* device_graph);
  /*! Optional. Once, during tvmrt_device_unregister(), when no region is left; may block. Not
   * called when the process ends. Its result is ignored. */
  int (*release_device)(tvmrt_device* device);
} tvmrt_device_interface;

/*! \brief Result of async_wait with try_wait: still running. */
#define TVMRT_DEVICE_BUSY 1

/*! \brief What a device can do in general. Lists end with NULL and live as long as the device. */
typedef struct tvmrt_device_description {
  const char* const* ops;    /*!< Operators it takes; NULL: none by name, see split_graph. */
  const char* const* dtypes; /*!< Element types of tensors it takes; NULL: "float32" alone. */
  /*! What it can compute in besides: of "float16", "bfloat16", "int8"; NULL: nothing else. */
  const char* const* precisions;
  const char* layout;  /*!< Of border tensors: "dense" (NULL too) or "channels_last". */
  size_t struct_bytes; /*!< Of this struct in the runtime, set before: write nothing behind. */
} tvmrt_device_description;

/*! \brief What a device takes, and memory. */
typedef struct tvmrt_device_allocator {
  /*! Optional; NULL: an empty description. Fill `out`, whose lists are NULL before. Asked by compilers
   * and by tvmrt_split_graph_by_describe(); must not depend on a network. */
  int (*describe)(tvmrt_device* device, tvmrt_device_description* out);
  /*! Optional; NULL: takes every region. 0: the device can run this region; -1: it cannot, with the
   * reason as error text: the compiler leaves the region to the CPU; at load it is an error. Where
   * the slot sets region->failed_node, the compiler leaves that node alone to the CPU, and asks again
   * about what is left. Where runs choose extents, the compiler asks about the largest, and after a
   * refusal about smaller ones: with device_fallback the region is the device's up to those. */
  int (*evaluation)(tvmrt_device* device, const tvmrt_region* region);
  /*! Optional. Reserve the region's memory in the device's pool, before the first pre_run, and note
   * it in region->reservation. Called once, at the shapes that the region begins with: the largest
   * where runs choose extents. Shapes may grow beyond them by tvmrt_region_reshape(): `pre_run`, which
   * is called again for other shapes, then reserves more, or fails. */
  int (*allocate)(tvmrt_device* device, tvmrt_region* region);
  /*! Optional. Give back what the region has reserved, after release_graph; also if pre_run failed.
   * Its tensors have the shapes that `allocate` saw. Its result is ignored. */
  int (*release)(tvmrt_device* device, tvmrt_region* region);
} tvmrt_device_allocator;

/*! \brief Partitioning and mixed precision, asked by the compiler. */
typedef struct tvmrt_device_optimizer {
  /*!
   * Optional; NULL: tvmrt_split_graph_by_describe(), which an own split may call first.
   * `graph` is a whole network as one region without constants' values. Write to out_groups[i], for
   * each of the graph->num_nodes nodes, the group that node i shall run in, from 0 up, or -1 for
   * the CPU. Each group becomes a region of its own, or several where something that is not in it
   * lies between its nodes.
   */
  int (*split_graph)(tvmrt_device* device, const tvmrt_region* graph, int32_t* out_groups);
  /*!
   * Optional; NULL: no mixed precision. Choose which nodes of a region compute in `precision`
   * ("float16", "bfloat16", "int8"): write 1 or 0 to out_reduced[i] for each node. The choice comes
   * back to pre_run as the text attribute "precision" of those nodes. Tensors at the region's
   * border keep their types.
   */
  int (*optimize_graph)(tvmrt_device* device, const tvmrt_region* region, const char* precision,
                        int32_t* out_reduced);
} tvmrt_device_optimizer;

struct tvmrt_scheduler;

/*! \brief Memory of a device's own, in which tensors of its regions may lie beside the host's. */
typedef struct tvmrt_device_memory {
  size_t struct_bytes; /*!< Required: sizeof(tvmrt_device_memory). */
  /*! Of a memory device, which allocates, frees and copies there: see memory_device.h, and register
   * it in `init` at the latest. */
  DLDevice device;
  size_t align_bytes; /*!< At what multiples tensors lie, a power of two; 0: 64. */
} tvmrt_device_memory;

/*! \brief A device. Copied by tvmrt_device_register(); what it points to lives as long. */
struct tvmrt_device {
  size_t struct_bytes; /*!< Required: sizeof(tvmrt_device), which tells the fields that it has. */
  const char* name;    /*!< Required, unique: a letter, then letters, digits and '_'. */
  const tvmrt_device_interface* interface; /*!< Required; see there for what must be in it. */
  const tvmrt_device_allocator* allocator; /*!< Optional. */
  const tvmrt_device_optimizer* optimizer; /*!< Optional. */
  /*! Optional; NULL: the synchronous one. How graph executors run networks that use this device, if
   * their user chooses none. */
  const struct tvmrt_scheduler* scheduler;
  /*! The device's own; the runtime never reads it. Slots get the runtime's copy of this struct, in
   * which they may change this field. */
  void* privacy;
  /*! Version of the nodes' meaning that the device understands. A library that was compiled for a
   * newer one is refused. */
  uint32_t version;
  uint64_t abilities; /*!< The sum of TVMRT_DEVICE_*; devices built without this field have 0. */
  /*! sizeof of what `interface`, `allocator` and `optimizer` point to; 0: they have the slots of the
   * first version of this header, the last of which are release_device, release, optimize_graph. */
  size_t interface_bytes;
  size_t allocator_bytes;
  size_t optimizer_bytes;
  /*! How many runs of different regions the asynchronous scheduler lets be under way at once on this
   * device: its queues, cores or streams, at most 64; 0: one. */
  uint32_t num_queues;
  /*!
   * Optional; NULL: tensors of regions always lie in the host's memory. Else each tensor of
   * region->data may also lie there: its `device` tells, and `data` is then what the memory device
   * gave, plus an offset. What only regions of this device touch is planned to lie there, and is
   * not copied between them; inputs and outputs of a network may be bound to tensors there.
   */
  const tvmrt_device_memory* memory;
};

/*! \brief Runs may choose extents of its regions; see tvmrt_region_extents(). Regions of other devices
 *         are prepared again for the extents of each run that brings others. */
#define TVMRT_DEVICE_ANY_SIZE 1u
/*! \brief What its runs read of constants they have from pre_run: those of the library may leave memory
 *         behind it, and are read from its file again if somebody does need them, as the next pre_run. */
#define TVMRT_DEVICE_KEEPS_WEIGHTS 2u

/*!
 * \brief Add a device; calls its init.
 * \param device [in] Copied.
 * Errors:  -1: the name is taken or not a name, a required slot is missing, struct_bytes is wrong,
 *          or init failed.
 * Threads: thread-safe.
 */
TVM_DLL int tvmrt_device_register(const tvmrt_device* device);

/*!
 * \brief Remove a device; calls its release_device.
 * A device that is part of the runtime, or that has a plug-in, starts again when it is needed again:
 * when it is found by its name, or its plug-in is loaded by its path.
 * Errors:  -1: there is no such device, or libraries that are loaded use it.
 * Threads: thread-safe.
 */
TVM_DLL int tvmrt_device_unregister(const char* name);

/*!
 * \brief Find a device by its name.
 *
 * Looks among the registered ones and those that are part of the runtime; then for a plug-in
 * `libtvmrt_device_<name>.so` in the folders of the environment variable TVMRT_DEVICE_PATH
 * (separated by ':'), in `devices/` next to the runtime library, then next to it; then among the
 * plug-ins that were loaded by their path and whose device was unregistered; then for packed
 * functions `device.<name>.run`, which a front end registered.
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
 * Calls its registering function. A plug-in that is loaded already is left as it is, unless its
 * device was unregistered: then it registers again. A file that has taken its place since is another
 * plug-in, whose device finds its name free once the older one's is unregistered. Plug-ins are never unloaded, since their code may be on some thread's stack.
 * Errors:  -1: not a shared object, no plug-in, another ABI (both versions are named), or its
 *          registering function failed.
 * Threads: thread-safe.
 */
TVM_DLL int tvmrt_device_load_plugin(const char* path);

/*!
 * \brief The default split: each node whose operator and element types `describe` lists goes to the
 *        device, and neighbours that may run together share a group.
 * \param out_groups [out] graph->num_nodes groups; see split_graph. Every group is convex: no path
 *                   leaves it and comes back.
 */
TVM_DLL int tvmrt_split_graph_by_describe(tvmrt_device* device, const tvmrt_region* graph,
                                          int32_t* out_groups);

/*! \brief New shape of one tensor of a region, for tvmrt_region_reshape(). */
typedef struct tvmrt_region_shape {
  int32_t tensor;
  const int64_t* shape; /*!< As many extents as before. */
} tvmrt_region_shape;

/*!
 * \brief A loaded region by its symbol.
 * \param module     [in] A library, or a module of kind "device_region".
 * \param out_region [out] Borrowed; lives as long as the module.
 * Errors: -1: the module and its imports have no such region.
 */
TVM_DLL int tvmrt_region_find(TVMModuleHandle module, const char* symbol,
                              tvmrt_region** out_region);

/*!
 * \brief Prepare a region for other shapes: post_run, then pre_run with the new ones.
 *
 * \param region [in] From tvmrt_region_find().
 * \param shapes [in] num_shapes tensors that change: inputs; results follow from them, and are held
 *               to what is given. Constants cannot change. Known is what pointwise operators, softmax,
 *               conv and matmul make of which shapes; the tensors of all others must stay as they
 *               are. `evaluation` is asked about the region as it will be.
 * Errors:  -1: a tensor or an extent is out of range, or shapes contradict each other (nothing
 *          changed), or a slot failed; then the region fails at each call, with that text, until it
 *          is reshaped again.
 * Threads: waits for a run that is under way.
 */
TVM_DLL int tvmrt_region_reshape(tvmrt_region* region, const tvmrt_region_shape* shapes,
                                 int32_t num_shapes);

/*!
 * \brief Have another device prepare a region, too, so that a scheduler can choose between them run by
 *        run; see tvmrt_scheduler.
 *
 * The device is asked by `evaluation`, then `allocate` and `pre_run`, with its own options. Constants
 * are the same memory for all. What is prepared stays as long as the module; offering it again does
 * nothing. The device "cpu" takes a region if the library has its code beside it (device_fallback).
 *
 * \param region [in] From tvmrt_region_find(), or of a plan.
 * \param device [in] From tvmrt_device_find(). It cannot be unregistered while the module lives.
 * Errors:  -1: the device refuses the region or fails to prepare it; it takes dense tensors alone and
 *          the region's border has channels innermost.
 * Threads: thread-safe.
 */
TVM_DLL int tvmrt_region_offer(tvmrt_region* region, tvmrt_device* device);

/*! @} */
/*!
 * \name Plug-ins
 * @{
 */

/*!
 * \brief Put this once into a device's source, before its functions
 *        `int register_<name>_device(void)` and `int unregister_<name>_device(void)`.
 *
 * Declares the two; and makes the shared object a plug-in by two exported functions, unless
 * TVMRT_DEVICE_BUILTIN is defined, as it is for devices inside the runtime library.
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
