/*!
 * \file tvm/runtime/custom_op.h
 * \brief Operators of one's own from a shared library: kernels and compositions, declared in C.
 *
 * The library exports one function, which gives its declarations:
 *
 *     static const tvmrt_op_kernel kernels[] = {{.name = "HardSwish", ...}};
 *     const tvmrt_operators* tvmrt_get_operators(void) {
 *       static const tvmrt_operators all = {TVMRT_OPERATORS_ABI, kernels, 1, NULL, 0};
 *       return &all;
 *     }
 *
 * The compiler reads them: `tvmrt.compile(model, operators=["libswish.so"])`, or
 * `tvmrt compile --operators libswish.so`. The library needs no other; kernels are text that becomes
 * part of the networks that use them, so that these need it no more.
 *
 * A declaration is what `tvmrt.custom.Kernel` and `tvmrt.custom.composed` are in Python; their
 * reference pages say what each field means.
 *
 * Ownership: everything that a declaration points to is static: it lives as long as the library.
 *            What the compiler passes to functions is borrowed for the call.
 * Errors:    functions that return text return NULL when all is well, else a static sentence, which
 *            the compiler shows with operator, graph, node and field.
 * Sizes:     functions take numbers. Where a run chooses extents, a shape function is refused, and
 *            the others are asked about the largest sizes and the least.
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

/*! \brief Most dimensions of an output's shape that a shape function fills in. */
#define TVMRT_OP_MAX_DIMS 8

/*! \brief Type of an operand. */
typedef struct tvmrt_op_type {
  int32_t ndim;         /*!< -1: the operand is left out, and the rest is unset. */
  const int64_t* shape; /*!< ndim extents in elements, in the order of ONNX. */
  const char* dtype;    /*!< "float32", ... */
} tvmrt_op_type;

/*! \brief One node, as functions of a declaration see it. */
typedef struct tvmrt_op_call {
  const tvmrt_op_type* inputs; /*!< As many as are declared. */
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
  const char* name;    /*!< Required: type of the ONNX nodes that mean it. */
  const char* domain;  /*!< Their domain; "" for an operator that overrides ONNX's own. */
  int32_t version;     /*!< First version of the domain with this meaning, from 1. */
  int32_t overrides;   /*!< Whether it takes the place of ONNX's own operator of that name. */
  const char* doc;     /*!< For people; may be NULL. */
  const tvmrt_op_operand* inputs;
  int32_t num_inputs;
  const tvmrt_op_operand* outputs;
  int32_t num_outputs;
  const char* types; /*!< "T=float32,bfloat16 I=int32,int64"; NULL if none is open. */
  const tvmrt_op_scalar* scalars;
  int32_t num_scalars;
  /*! Fills one shape for each output. NULL: all have the shape of the first input. */
  const char* (*shape)(const tvmrt_op_call* call, tvmrt_op_shape* outputs);

  const char* c_source; /*!< Text of C functions, see kernels/custom.h; NULL: none. */
  /*! The name of the function for these operands; required with c_source. */
  const char* (*c_function)(const tvmrt_op_call* call);
  /*! Bytes of scratch memory. NULL: the functions take no such argument. */
  int64_t (*c_scratch)(const tvmrt_op_call* call);

  const char* opencl_source; /*!< Text of an OpenCL C program; NULL: none. */
  /*! The name of the kernel for these operands; required with opencl_source. */
  const char* (*opencl_function)(const tvmrt_op_call* call);
  /*! Fills the global and local sizes, each up to 3, and returns how many there are; local sizes of
   * 0 leave the choice to the driver. Required with opencl_source. */
  int32_t (*opencl_sizes)(const tvmrt_op_call* call, int64_t* global_size, int64_t* local_size);
  /*! Writes options for clBuildProgram, NUL-terminated. NULL: none. */
  void (*opencl_options)(const tvmrt_op_call* call, char* out_text, size_t capacity);
} tvmrt_op_kernel;

/*! \brief A tensor of a graph under construction; negative: none. */
typedef int32_t tvmrt_value;

/*! \brief An attribute of a node: the fields of its kind are set, the others are not read. */
typedef struct tvmrt_op_attr {
  const char* key;
  int32_t count;        /*!< Of ints or floats; for a single number, 1. */
  const int64_t* ints;  /*!< Else NULL. */
  const double* floats; /*!< Else NULL. */
  const char* text;     /*!< Else NULL. */
} tvmrt_op_attr;

/*!
 * \brief A graph under construction; the compiler makes it and gives it to `compose`.
 *
 * After a call of it has failed, the composition fails with that call's reason, whatever `compose`
 * returns; later calls do nothing.
 */
typedef struct tvmrt_graph tvmrt_graph;
struct tvmrt_graph {
  /*!
   * Adds a node of one of ONNX's operators ("Gemm"), or of one of this library's
   * ("example::Cell").
   * \param inputs [in] Values of this graph; negative for one that is left out.
   * \param outputs [out] num_outputs values.
   * Returns 0, or -1 if the node makes no sense; the outputs are then -1.
   */
  int (*add)(tvmrt_graph* graph, const char* op, const tvmrt_value* inputs, int32_t num_inputs,
             const tvmrt_op_attr* attrs, int32_t num_attrs, tvmrt_value* outputs,
             int32_t num_outputs);
  /*! A constant of compact row-major elements, which are copied; -1 on failure. */
  tvmrt_value (*constant)(tvmrt_graph* graph, const char* dtype, const void* data,
                          const int64_t* shape, int32_t ndim);
  /*! The type of a value, borrowed until compose returns; 0 or -1. */
  int (*type)(tvmrt_graph* graph, tvmrt_value value, tvmrt_op_type* out_type);
  void* state; /*!< The compiler's own. */
};

/*! \brief Declares an operator that is composed of others. */
typedef struct tvmrt_op_composed {
  size_t struct_bytes; /*!< sizeof(tvmrt_op_composed) */
  const char* name;
  const char* domain;
  int32_t version;
  int32_t overrides;
  const char* doc;
  const char* inputs; /*!< Names separated by blanks; "b?" may be left out. */
  int32_t num_outputs;
  const tvmrt_op_scalar* attributes; /*!< Numbers that nodes give. */
  int32_t num_attributes;
  /*!
   * Adds the inner nodes; called when the inputs and outputs of a node are bound.
   * \param inputs [in] As many values as `inputs` names; negative for one that is left out.
   * \param attributes [in] As many numbers as are declared.
   * \param outputs [out] num_outputs values.
   */
  const char* (*compose)(tvmrt_graph* graph, const tvmrt_value* inputs, const double* attributes,
                         tvmrt_value* outputs);
} tvmrt_op_composed;

/*! \brief All that a library declares. */
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
