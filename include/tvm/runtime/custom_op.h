/*!
 * \file tvm/runtime/custom_op.h
 * \brief Custom operators from a shared library: kernels and compositions, declared in C.
 *
 * The library exports one function, which returns its declarations:
 *
 *     static const tvmrt_op_kernel kernels[] = {{.name = "HardSwish", ...}};
 *     const tvmrt_operators* tvmrt_get_operators(void) {
 *       static const tvmrt_operators all = {TVMRT_OPERATORS_ABI, kernels, 1, NULL, 0};
 *       return &all;
 *     }
 *
 * The compiler reads them: `tvmrt.compile(model, operators=["libswish.so"])`, or `tvmrt compile
 * --operators libswish.so`. The library depends on no other library. Kernels are source text that
 * becomes part of the compiled networks, so these do not need the library.
 *
 * A declaration corresponds to `tvmrt.custom.Kernel` and `tvmrt.custom.composed` in Python; their
 * reference pages explain each field.
 *
 * Ownership: everything that a declaration points to is static: it lives as long as the library.
 *            Arguments that the compiler passes to functions are borrowed for the call.
 * Errors:    functions that return text return NULL on success, else a static sentence, which the
 *            compiler shows with operator, graph, node and field.
 * Sizes:     functions take numbers. If a dimension is dynamic, a shape function is refused, and
 * the other functions are called with the maximum sizes and with the minimum sizes.
 * Threads:   functions keep no state; several threads may call them at the same time.
 *
 * C99 and C++ clean.
 */
#ifndef TVM_RUNTIME_CUSTOM_OP_H_
#define TVM_RUNTIME_CUSTOM_OP_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*! \brief Version of the structs in this header; a library of another version is refused. */
#define TVMRT_OPERATORS_ABI 1

/*! \brief Maximum number of dimensions of an output shape that a shape function fills in. */
#define TVMRT_OP_MAX_DIMS 8

/*! \brief Type of an operand. */
typedef struct tvmrt_op_type {
  int32_t ndim;         /*!< -1: the operand is left out, and the other fields are unset. */
  const int64_t* shape; /*!< ndim extents in elements, in the order of ONNX. */
  const char* dtype;    /*!< "float32", ... */
} tvmrt_op_type;

/*! \brief One node, as passed to the functions of a declaration. */
typedef struct tvmrt_op_call {
  const tvmrt_op_type* inputs; /*!< One per declared input and output. */
  int32_t num_inputs;
  const tvmrt_op_type* outputs; /*!< NULL while the shape function runs. */
  int32_t num_outputs;
  const double* scalars; /*!< In the order of the declaration; exact, as double holds all types. */
  int32_t num_scalars;
} tvmrt_op_call;

/*! \brief A shape to fill in. */
typedef struct tvmrt_op_shape {
  int32_t ndim;
  int64_t dim[8]; /*!< TVMRT_OP_MAX_DIMS; extents in elements. */
} tvmrt_op_shape;

/*! \brief Declares an input or output. */
typedef struct tvmrt_op_operand {
  const char* name;
  const char* type;    /*!< An element type, or a name of `types`. */
  const char* layouts; /*!< "NCHW NHWC", "any", or NULL for row-major. */
  int32_t optional;    /*!< Inputs only: whether nodes may leave it out. */
} tvmrt_op_operand;

/*! \brief Declares a scalar parameter. */
typedef struct tvmrt_op_scalar {
  const char* name;
  const char* type;            /*!< int, uint, float, bool or half. */
  const double* default_value; /*!< NULL: every node must give it. */
} tvmrt_op_scalar;

/*! \brief Declares an operator by its kernels; at least one of the two sources is required. */
typedef struct tvmrt_op_kernel {
  size_t struct_bytes; /*!< sizeof(tvmrt_op_kernel) */
  const char* name;    /*!< Required: type of the ONNX nodes that the operator implements. */
  const char* domain;  /*!< Their domain; "" for an operator that overrides ONNX's own. */
  int32_t version;     /*!< First version of the domain with this meaning, from 1. */
  int32_t overrides;   /*!< Whether it replaces the ONNX operator of that name. */
  const char* doc;     /*!< Description for users; may be NULL. */
  const tvmrt_op_operand* inputs;
  int32_t num_inputs;
  const tvmrt_op_operand* outputs;
  int32_t num_outputs;
  const char* types; /*!< "T=float32,bfloat16 I=int32,int64"; NULL if there are no type
                      * variables. */
  const tvmrt_op_scalar* scalars;
  int32_t num_scalars;
  /*! Fills one shape for each output. NULL: all have the shape of the first input. */
  const char* (*shape)(const tvmrt_op_call* call, tvmrt_op_shape* outputs);

  const char* c_source; /*!< Text of C functions, see kernels/custom.h; NULL: none. */
  /*! Fills one shape for each output. NULL: all have the shape of the first input. */
  const char* (*c_function)(const tvmrt_op_call* call);
  /*! Bytes of scratch memory. NULL: the functions take no such argument. */
  int64_t (*c_scratch)(const tvmrt_op_call* call);

  const char* opencl_source; /*!< Text of an OpenCL C program; NULL: none. */
  /*! The name of the kernel for these operands; required with opencl_source. */
  const char* (*opencl_function)(const tvmrt_op_call* call);
  /*! Fills the global and local sizes, each up to 3, and returns their number. Local sizes of 0
   * leave the choice to the driver. Required with opencl_source. */
  int32_t (*opencl_sizes)(const tvmrt_op_call* call, int64_t* global_size, int64_t* local_size);
  /*! Writes options for clBuildProgram, NUL-terminated. NULL: none. */
  void (*opencl_options)(const tvmrt_op_call* call, char* out_text, size_t capacity);
} tvmrt_op_kernel;

/*! \brief A tensor of a graph under construction; negative: none. */
typedef int32_t tvmrt_value;

/*! \brief An attribute of a node: the field of its kind is set, the others are not read. */
typedef struct tvmrt_op_attr {
  const char* key;
  int32_t count;        /*!< Of ints or floats; for a single number, 1. */
  const int64_t* ints;  /*!< NULL for other kinds. */
  const double* floats; /*!< NULL for other kinds. */
  const char* text;     /*!< NULL for other kinds. */
} tvmrt_op_attr;

/*!
 * \brief A graph under construction; the compiler creates it and passes it to `compose`.
 *
 * If one of its functions fails, the composition fails with that error; later calls do nothing, and
 * the result of `compose` is ignored.
 */
typedef struct tvmrt_graph tvmrt_graph;
struct tvmrt_graph {
  /*!
   * Adds a node of an ONNX operator ("Gemm"), or of an operator of this library ("example::Cell").
   * \param inputs [in] Values of this graph; negative for an input that is left out.
   * \param outputs [out] num_outputs values.
   * Returns 0, or -1 if the node is invalid; the outputs are then -1.
   */
  int (*add)(tvmrt_graph* graph, const char* op, const tvmrt_value* inputs, int32_t num_inputs,
             const tvmrt_op_attr* attrs, int32_t num_attrs, tvmrt_value* outputs,
             int32_t num_outputs);
  /*! A constant of compact row-major elements, which are copied; -1 on failure. */
  tvmrt_value (*constant)(tvmrt_graph* graph, const char* dtype, const void* data,
                          const int64_t* shape, int32_t ndim);
  /*! The type of a value, borrowed until compose returns; result 0 or -1. */
  int (*type)(tvmrt_graph* graph, tvmrt_value value, tvmrt_op_type* out_type);
  void* state; /*!< Private to the compiler. */
};

/*! \brief Declares an operator that is composed of other operators. */
typedef struct tvmrt_op_composed {
  size_t struct_bytes; /*!< sizeof(tvmrt_op_composed) */
  const char* name;
  const char* domain;
  int32_t version;
  int32_t overrides;
  const char* doc;
  const char* inputs; /*!< Names separated by blanks; "b?" may be left out. */
  int32_t num_outputs;
  const tvmrt_op_scalar* attributes; /*!< Numeric attributes of nodes. */
  int32_t num_attributes;
  /*!
   * Adds the inner nodes; called when the inputs and outputs of a node are bound.
   * \param inputs [in] As many values as `inputs` has names; negative if left out.
   * \param attributes [in] As many numbers as are declared.
   * \param outputs [out] num_outputs values.
   */
  const char* (*compose)(tvmrt_graph* graph, const tvmrt_value* inputs, const double* attributes,
                         tvmrt_value* outputs);
} tvmrt_op_composed;

/*! \brief All declarations of a library. */
typedef struct tvmrt_operators {
  int32_t abi; /*!< TVMRT_OPERATORS_ABI */
  const tvmrt_op_kernel* kernels;
  int32_t num_kernels;
  const tvmrt_op_composed* composed;
  int32_t num_composed;
} tvmrt_operators;

#if defined(_WIN32)
#define TVMRT_OPERATORS_EXPORT __declspec(dllexport)
#elif defined(__GNUC__)
#define TVMRT_OPERATORS_EXPORT __attribute__((visibility("default")))
#else
#define TVMRT_OPERATORS_EXPORT
#endif

/*! \brief Defined by the library: its declarations, valid until it is unloaded. */
TVMRT_OPERATORS_EXPORT const tvmrt_operators* tvmrt_get_operators(void);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* TVM_RUNTIME_CUSTOM_OP_H_ */
