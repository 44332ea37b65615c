/*!
 * \file tvm/runtime/metadata.h
 * \brief Metadata of ahead-of-time compiled code, as constant C structs.
 *
 * Two descriptions exist. TVMMetadata is the classic one: inputs, outputs and pools of the main
 * function; a library exports it by the packed function `get_c_metadata` (in firmware builds
 * `<mod_name>_get_c_metadata`). TVMModelMetadata has the parameters of every function and the
 * memory that it needs; a library exports it by `get_model_metadata`. Both functions take no
 * argument and return a pointer to the struct with type code kTVMOpaqueHandle; the struct lives as
 * long as the library.
 *
 * C99 and C++ clean.
 */
#ifndef TVM_RUNTIME_METADATA_H_
#define TVM_RUNTIME_METADATA_H_

#include <dlpack/dlpack.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*! \brief Value of TVMMetadata.version. */
#define TVM_METADATA_VERSION 1

/*! \brief Value of TVMModelMetadata.version. */
#define TVM_MODEL_METADATA_VERSION 1

/*! \brief Name, shape and type of a tensor. */
struct TVMTensorInfo {
  const char* name;     /*!< Sanitised: letters, digits and `_`. Outputs: output0, output1 ... */
  const int64_t* shape; /*!< num_shape extents; may be NULL if num_shape is 0. */
  int64_t num_shape;
  DLDataType dtype;
};
typedef struct TVMTensorInfo TVMTensorInfo;

/*! \brief One tensor of the constant pool. */
struct TVMConstantInfo {
  const char* name_hint;
  int64_t byte_offset;    /*!< Offset of its data in the merged constant buffer, in bytes. */
  int64_t data_len;       /*!< Size of data_bytes, in bytes. */
  const void* data_bytes; /*!< A serialised tensor (magic 0xDD5E40F096B4A13F). */
};
typedef struct TVMConstantInfo TVMConstantInfo;

/*!
 * \brief The classic description of a network.
 *
 * Its main function is `<mod_name>___tvm_main__` and takes, as packed arguments with code
 * kTVMDLTensorHandle: the inputs, the outputs and, only if num_workspace_pools > 0, one uint8 tensor
 * with all constants followed by one uint8 tensor per workspace pool.
 */
struct TVMMetadata {
  int64_t version; /*!< TVM_METADATA_VERSION. */
  const struct TVMTensorInfo* inputs;
  int64_t num_inputs;
  const struct TVMTensorInfo* outputs;
  int64_t num_outputs;
  const struct TVMTensorInfo* workspace_pools; /*!< shape = {size in bytes}, dtype uint8. */
  int64_t num_workspace_pools;
  const struct TVMConstantInfo* constant_pools;
  int64_t num_constant_pools;
  const char* mod_name; /*!< Mangled, for example tvmgen_default. */
};
typedef struct TVMMetadata TVMMetadata;

/*! \brief One parameter (input or output) of a function. */
struct TVMParameterInfo {
  const char* relay_name_hint; /*!< Name in the source network; between operators, of the node. */
  const char* tir_name_hint;   /*!< The name in generated code. */
  const int64_t* shape;        /*!< ndim extents; may be NULL if ndim is 0. */
  int64_t ndim;
  DLDataType dtype;
  DLDevice device; /*!< Device of its memory. */
};
typedef struct TVMParameterInfo TVMParameterInfo;

/*!
 * \brief One function of a network: the main function first, then its operators and the regions of
 * devices in the order of their calls.
 */
struct TVMFunctionInfo {
  const char* function_name;             /*!< Symbol of the function. */
  const struct TVMParameterInfo* params; /*!< num_inputs inputs, then num_outputs outputs. */
  int64_t num_inputs;
  int64_t num_outputs;
  int64_t workspace_size_bytes; /*!< Memory for intermediate values. */
  int64_t io_size_bytes;        /*!< Sum of the sizes of params. */
  int64_t constant_size_bytes;  /*!< Weights. */
};
typedef struct TVMFunctionInfo TVMFunctionInfo;

/*! \brief The full description of a network. */
struct TVMModelMetadata {
  int64_t version; /*!< TVM_MODEL_METADATA_VERSION. */
  const struct TVMFunctionInfo* functions;
  int64_t num_functions;
  const char* module_name; /*!< Not mangled, for example default. */
};
typedef struct TVMModelMetadata TVMModelMetadata;

#ifdef __cplusplus
}
#endif

#endif /* TVM_RUNTIME_METADATA_H_ */
