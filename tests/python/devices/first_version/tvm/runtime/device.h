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
 * The same source lives in the folder `src_runtime/devices/npu/` of the source tree, where the
 * build finds it, or becomes a shared object for tvmrt_device_load_plugin().
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
 * Threads: the runtime never runs two slots for one region at the same time; slots for different
 * regions of one device run at the same time, on any threads. init and release_device run alone.
 *
 * C99 and C++ clean.
 */
#ifndef TVM_RUNTIME_DEVICE_H_
#define TVM_RUNTIME_DEVICE_H_

#include <string.h>
#include <tvm/runtime/c_packed_func.h>

#ifdef __cplusplus
extern "C" {
#endif

/*! \brief Version of all structs in this header; a plug-in of another version is refused. */
#define TVMRT_DEVICE_ABI 1

/*!
 * \name Regions: what a device is given
 *
 * Everything that a region points to belongs to the runtime and is constant, unless a field says
 * otherwise; it lives as long as the region.
 * @{
 */

/*! \brief Which field of a tvmrt_attr holds its value. */
typedef enum {
  TVMRT_ATTR_INTS = 0,   /*!< `ints`, count of them; a single integer is a list of one. */
  TVMRT_ATTR_FLOATS = 1, /*!< `floats`, count of them; a single number is a list of one. */
  TVMRT_ATTR_TEXT = 2    /*!< `text`; count is its length in bytes. */
} tvmrt_attr_kind;

/*! \brief An attribute of a node; read it by tvmrt_node_int() and its sisters. */
typedef struct tvmrt_attr {
  const char* key;
  tvmrt_attr_kind kind;
  int32_t count;
  const int64_t* ints;
  const double* floats;
  const char* text; /*!< NUL-terminated. */
} tvmrt_attr;

/*! \brief A tensor of a region: its type, and its values if they are constant. */
typedef struct tvmrt_region_tensor {
  const char* name;
  DLDataType dtype;
  int32_t ndim;         /*!< 0 for a scalar. */
  const int64_t* shape; /*!< ndim extents in elements, in the order of ONNX; the most of them. */
  uint64_t num_bytes;   /*!< Of all elements, compact. */
  int32_t is_constant;  /*!< 1: a weight. */
  /*! Constants: compact, row-major, aligned to 64 bytes; else NULL. Also NULL while a graph is only
   * split, where the compiler does not hand constants over. */
  const void* data;
} tvmrt_region_tensor;

/*! \brief One operator. Names and attributes are those of the compiler's operators. */
typedef struct tvmrt_region_node {
  const char* op;        /*!< "conv", "matmul", "max", ... */
  const char* name;      /*!< Names of the ONNX nodes that it stands for, for messages. */
  const int32_t* inputs; /*!< Numbers of tensors; -1 for an input that is left out. */
  int32_t num_inputs;
  const int32_t* outputs;
  int32_t num_outputs;
  const tvmrt_attr* attrs;
  int32_t num_attrs;
} tvmrt_region_node;

/*! \brief A piece of a network: nodes in an order in which they can run. */
typedef struct tvmrt_region {
  const char* symbol; /*!< Name of the packed function: "tvmgen_default_npu_main_0". */
  const char* name;   /*!< For people. */
  const tvmrt_region_tensor* tensors;
  int32_t num_tensors;
  const tvmrt_region_node* nodes;
  int32_t num_nodes;
  const int32_t* inputs; /*!< Numbers of the tensors that the function takes, in order. */
  int32_t num_inputs;
  const int32_t* outputs; /*!< Numbers of the tensors that it writes, in order. */
  int32_t num_outputs;
  /*!
   * Per tensor, the memory of the current call: inputs and outputs from the start of `run` or
   * `async_run` to its end, or to the end of the `async_wait` that finishes it; constants always;
   * NULL for all others. Inputs must not be written. Compact unless strides say otherwise.
   */
  DLTensor* const* data;
  void* device_graph;  /*!< The device's own: set by pre_run, given to release_graph. */
  int32_t failed_node; /*!< Set by a slot that fails at a node; -1 if it is not a particular one. */
  void* runtime;       /*!< The runtime's own. */
} tvmrt_region;

/*! @} */
/*!
 * \name The device
 * @{
 */

typedef struct tvmrt_device tvmrt_device;

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
   * way: when it returns, the device no longer touches region->data. device_graph may stay. */
  int (*post_run)(tvmrt_device* device, tvmrt_region* region);
  /*! Required unless there is run; used where it exists. Start a run and return; must not block on
   * the result. The next async_run of the region comes after its async_wait. */
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
  const char* layout; /*!< Of border tensors: "dense" (NULL too) or "channels_last". */
} tvmrt_device_description;

/*! \brief What a device takes, and memory. */
typedef struct tvmrt_device_allocator {
  /*! Optional; NULL: an empty description. Fill `out`, which is zeroed before. Asked by compilers
   * and by tvmrt_split_graph_by_describe(); must not depend on a network. */
  int (*describe)(tvmrt_device* device, tvmrt_device_description* out);
  /*! Optional; NULL: takes every region. 0: the device can run this region; -1: it cannot, with the
   * reason as error text: the compiler leaves the region to the CPU; at load it is an error. */
  int (*evaluation)(tvmrt_device* device, const tvmrt_region* region);
  /*! Optional. Reserve the region's memory in the device's pool, before the first pre_run. */
  int (*allocate)(tvmrt_device* device, tvmrt_region* region);
  /*! Optional. Give back what allocate reserved, after release_graph; also if pre_run failed. Its
   * result is ignored. */
  int (*release)(tvmrt_device* device, tvmrt_region* region);
} tvmrt_device_allocator;

/*! \brief Partitioning and mixed precision, asked by the compiler. */
typedef struct tvmrt_device_optimizer {
  /*!
   * Optional; NULL: tvmrt_split_graph_by_describe(), which an own split may call first.
   * `graph` is a whole network as one region without constants' values. Write to out_groups[i], for
   * each of the graph->num_nodes nodes, the group that node i shall run in, from 0 up, or -1 for
   * the CPU. The compiler cuts groups that would close a cycle.
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

/*! \brief A device. Copied by tvmrt_device_register(); what it points to lives as long. */
struct tvmrt_device {
  size_t struct_bytes; /*!< Required: sizeof(tvmrt_device). */
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
  uint64_t abilities; /*!< 0, or TVMRT_DEVICE_ANY_SIZE; devices built without this field have 0. */
};

/*! \brief Runs may choose extents of its regions; see tvmrt_region_extents(). */
#define TVMRT_DEVICE_ANY_SIZE 1u

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
 * A device that is part of the runtime, or that has a plug-in, starts again when it is needed again.
 * Errors:  -1: there is no such device, or libraries that are loaded use it.
 * Threads: thread-safe.
 */
TVM_DLL int tvmrt_device_unregister(const char* name);

/*!
 * \brief Find a device by its name.
 *
 * Looks among the registered ones and those that are part of the runtime; then for a plug-in
 * `libtvmrt_device_<name>.so` in the folders of the environment variable TVMRT_DEVICE_PATH
 * (separated by ':'), in `devices/` next to the runtime library, and next to it; then for packed
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
 * Threads: thread-safe.
 */
TVM_DLL int tvmrt_device_list(const char** names, int32_t capacity, int32_t* out_count);

/*!
 * \brief Load a plug-in: a shared object made with TVMRT_DEVICE_PLUGIN().
 *
 * Calls its registering function. A plug-in that is loaded already is left as it is; a file that has
 * taken its place since is another plug-in, whose device finds its name free once the older one's is
 * unregistered. Plug-ins are never unloaded, since their code may be on some thread's stack.
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
 * \param shapes [in] num_shapes tensors that change: inputs, outputs and what lies between.
 *               Constants cannot change, and the shapes of each node's tensors must belong together:
 *               shapes of pointwise operators, softmax, conv and matmul are checked; the
 *               tensors of all others must stay as they are.
 * Errors:  -1: a tensor or an extent is out of range, or shapes contradict each other (nothing
 *          changed), or a slot failed; then the region fails at each call, with that text, until it
 *          is reshaped again.
 * Threads: waits for a run that is under way.
 */
TVM_DLL int tvmrt_region_reshape(tvmrt_region* region, const tvmrt_region_shape* shapes,
                                 int32_t num_shapes);

/*! @} */
/*!
 * \name Schedulers: the order in which a graph executor runs its steps
 * @{
 */

/*! \brief One call of a function of a network. */
typedef struct tvmrt_step {
  const char* name;     /*!< Of the node. */
  const char* device;   /*!< "cpu", or the device of the region. */
  const int32_t* after; /*!< Steps that must have ended before; all smaller than this step. */
  int32_t num_after;
} tvmrt_step;

/*! \brief The steps of one executor, and how a scheduler runs them. The runtime's. */
typedef struct tvmrt_plan {
  const tvmrt_step* steps;
  int32_t num_steps;
  /*! Run one step and wait for it; 0, or -1 with the error text on the calling thread. Any thread
   * may call it; each step at most once a run, after those in `after`. */
  int (*run_step)(struct tvmrt_plan* plan, int32_t step);
  /*! Whether the user cancelled the run: steps that have not begun should not begin. */
  int (*is_cancelled)(struct tvmrt_plan* plan);
  void* privacy; /*!< The scheduler's own, per executor. */
  void* runtime; /*!< The runtime's own. */
} tvmrt_plan;

/*! \brief A scheduler. Copied by tvmrt_scheduler_register(). Called by the executor's user, so by
 *         one thread at a time per plan; by several for different plans. */
typedef struct tvmrt_scheduler {
  size_t struct_bytes; /*!< Required: sizeof(tvmrt_scheduler). */
  const char* name;    /*!< Required, unique. */
  /*! Optional. Once per executor that chooses this scheduler. */
  int (*pre_run)(const struct tvmrt_scheduler* scheduler, tvmrt_plan* plan);
  /*! Required. Start a run. With `wait` NULL it returns when all steps have ended. */
  int (*run)(const struct tvmrt_scheduler* scheduler, tvmrt_plan* plan);
  /*! Optional. Wait for the run at most timeout_ms milliseconds; negative: without limit. Returns
   * 0: all steps have ended; TVMRT_DEVICE_BUSY: not yet; -1: a step failed or the run was
   * cancelled, and no step is running any more. */
  int (*wait)(const struct tvmrt_scheduler* scheduler, tvmrt_plan* plan, int64_t timeout_ms);
  /*! Optional. Free plan->privacy; no run is under way. */
  void (*post_run)(const struct tvmrt_scheduler* scheduler, tvmrt_plan* plan);
  void* privacy; /*!< The scheduler's own, shared by all executors. */
} tvmrt_scheduler;

/*!
 * \brief Add a scheduler, which `set_scheduler` of graph executors then accepts by its name.
 * \param scheduler [in] Copied; what it points to lives as long as the process.
 * Errors:  -1: the name is taken ("sync" and "async" are), or `run` is missing.
 * Threads: thread-safe.
 */
TVM_DLL int tvmrt_scheduler_register(const tvmrt_scheduler* scheduler);

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
#define TVMRT_DEVICE_ENTRIES_(name)                                           \
  TVMRT_DEVICE_C_ TVM_DLL int32_t tvmrt_plugin_abi(void);                     \
  TVMRT_DEVICE_C_ TVM_DLL int tvmrt_plugin_register(void);                    \
  TVMRT_DEVICE_C_ int32_t tvmrt_plugin_abi(void) { return TVMRT_DEVICE_ABI; } \
  TVMRT_DEVICE_C_ int tvmrt_plugin_register(void) { return register_##name##_device(); }
#endif

/*! @} */
/*!
 * \name Reading regions
 * @{
 */

/*! \brief Address of the first element of a tensor: of a constant, or of an input or output of the
 *         current call. NULL for others, and for number -1. Borrowed. Do not write to inputs. */
static inline void* tvmrt_region_data(const tvmrt_region* region, int32_t tensor) {
  const DLTensor* t = tensor < 0 ? NULL : region->data[tensor];
  return t == NULL || t->data == NULL ? NULL : (char*)t->data + t->byte_offset;
}

/*! \brief Extents of an input or output in the current call; of others the region's. Borrowed. */
static inline const int64_t* tvmrt_region_extents(const tvmrt_region* region, int32_t tensor) {
  const DLTensor* t = region->data[tensor];
  return t == NULL ? region->tensors[tensor].shape : t->shape;
}

/*! \brief Number of elements of a tensor; the most, where a run chooses extents. */
static inline int64_t tvmrt_region_size(const tvmrt_region* region, int32_t tensor) {
  const tvmrt_region_tensor* t = &region->tensors[tensor];
  int64_t i, size = 1;
  for (i = 0; i < t->ndim; ++i) size *= t->shape[i];
  return size;
}

/*! \brief An attribute by its key; NULL if the node has none of that name. Borrowed. */
static inline const tvmrt_attr* tvmrt_node_attr(const tvmrt_region_node* node, const char* key) {
  int32_t i;
  for (i = 0; i < node->num_attrs; ++i) {
    if (strcmp(node->attrs[i].key, key) == 0) return &node->attrs[i];
  }
  return NULL;
}

/*! \brief An integer; `otherwise` if it is missing or of another kind. */
static inline int64_t tvmrt_node_int(const tvmrt_region_node* node, const char* key,
                                     int64_t otherwise) {
  const tvmrt_attr* a = tvmrt_node_attr(node, key);
  return a == NULL || a->kind != TVMRT_ATTR_INTS || a->count < 1 ? otherwise : a->ints[0];
}

/*! \brief A number, also if it is written as an integer; `otherwise` if it is missing. */
static inline double tvmrt_node_float(const tvmrt_region_node* node, const char* key,
                                      double otherwise) {
  const tvmrt_attr* a = tvmrt_node_attr(node, key);
  if (a == NULL || a->kind == TVMRT_ATTR_TEXT || a->count < 1) return otherwise;
  return a->kind == TVMRT_ATTR_INTS ? (double)a->ints[0] : a->floats[0];
}

/*! \brief A text; `otherwise` if it is missing or of another kind. Borrowed. */
static inline const char* tvmrt_node_text(const tvmrt_region_node* node, const char* key,
                                          const char* otherwise) {
  const tvmrt_attr* a = tvmrt_node_attr(node, key);
  return a == NULL || a->kind != TVMRT_ATTR_TEXT ? otherwise : a->text;
}

/*! \brief Integers; NULL with *out_count 0 if they are missing or of another kind. Borrowed. */
static inline const int64_t* tvmrt_node_ints(const tvmrt_region_node* node, const char* key,
                                             int32_t* out_count) {
  const tvmrt_attr* a = tvmrt_node_attr(node, key);
  *out_count = a == NULL || a->kind != TVMRT_ATTR_INTS ? 0 : a->count;
  return *out_count == 0 ? NULL : a->ints;
}

/*! \brief Numbers; NULL with *out_count 0 if they are missing or not written with a point.
 * Borrowed. */
static inline const double* tvmrt_node_floats(const tvmrt_region_node* node, const char* key,
                                              int32_t* out_count) {
  const tvmrt_attr* a = tvmrt_node_attr(node, key);
  *out_count = a == NULL || a->kind != TVMRT_ATTR_FLOATS ? 0 : a->count;
  return *out_count == 0 ? NULL : a->floats;
}

/*! @} */

#ifdef __cplusplus
}
#endif

#endif /* TVM_RUNTIME_DEVICE_H_ */
