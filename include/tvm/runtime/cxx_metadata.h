/*!
 * \file tvm/runtime/cxx_metadata.h
 * \brief C++: metadata of compiled networks, the structs of metadata.h as classes. Included by
 * module.h.
 *
 * Header only, C++11 to C++20. Errors are exceptions (logging.h). Functions and parameters are valid
 * while the ModelMetadata that they come from, or the library, exists.
 */
#ifndef TVM_RUNTIME_CXX_METADATA_H_
#define TVM_RUNTIME_CXX_METADATA_H_

#include <tvm/runtime/metadata.h>
#include <tvm/runtime/packed_func.h>

#include <string>
#include <vector>

namespace tvm {
namespace runtime {

/*! \brief Input or output of a function; see TVMParameterInfo. */
class ParameterInfo {
 public:
  explicit ParameterInfo(const TVMParameterInfo* data) : data_(data) {}
  std::string relay_name_hint() const { return data_->relay_name_hint; }
  std::string tir_name_hint() const { return data_->tir_name_hint; }
  /*! \brief Its extents; dynamic ones have their maximum. */
  std::vector<int64_t> shape() const {
    return std::vector<int64_t>(data_->shape, data_->shape + data_->ndim);
  }
  DataType dtype() const { return DataType(data_->dtype); }
  /*! \brief The device of its memory. */
  DLDevice device() const { return data_->device; }

 private:
  const TVMParameterInfo* data_;
};

/*! \brief Function of a network: the main function, an operator, or a region of a device. */
class FunctionInfo {
 public:
  explicit FunctionInfo(const TVMFunctionInfo* data) : data_(data) {}
  std::string function_name() const { return data_->function_name; }
  std::vector<ParameterInfo> inputs() const { return params(0, data_->num_inputs); }
  std::vector<ParameterInfo> outputs() const {
    return params(data_->num_inputs, data_->num_outputs);
  }
  int64_t workspace_size_bytes() const { return data_->workspace_size_bytes; }
  int64_t io_size_bytes() const { return data_->io_size_bytes; }
  int64_t constant_size_bytes() const { return data_->constant_size_bytes; }

 private:
  std::vector<ParameterInfo> params(int64_t first, int64_t count) const {
    std::vector<ParameterInfo> found;
    for (int64_t i = 0; i < count; ++i) found.emplace_back(&data_->params[first + i]);
    return found;
  }
  const TVMFunctionInfo* data_;
};

/*! \brief Metadata of a network. */
class ModelMetadata {
 public:
  /*! \brief The struct that a library or firmware returned. */
  explicit ModelMetadata(const TVMModelMetadata* data) : data_(data) {}
  /*!
   * \brief Find the metadata of a compiled network; libraries of TVM describe the main function.
   * \param library A library, or a module that imports one. The object keeps it loaded.
   * \param network Name of one of several networks in the library.
   */
  static ModelMetadata FromModule(const Module& library, const std::string& network = "") {
    const std::string prefix = network.empty() ? "" : "tvmgen_" + network + "_";
    Module owner = library;
    if (network.empty()) {  // derives the struct if a library has only the classic one
      owner = detail::global("runtime.MetadataModuleCreate")().As<Module>();
      owner.Import(library);
    }
    const PackedFunc get = owner.GetFunction(prefix + "get_model_metadata", true);
    if (get == nullptr) throw InternalError("the library has no network " + network);
    ModelMetadata found(static_cast<const TVMModelMetadata*>(get().As<void*>()));
    found.owner_ = owner;
    return found;
  }
  int64_t version() const { return data_->version; }
  std::string module_name() const { return data_->module_name; }
  /*! \brief The main function, then the others in the order of their calls. */
  std::vector<FunctionInfo> functions() const {
    std::vector<FunctionInfo> found;
    for (int64_t i = 0; i < data_->num_functions; ++i) found.emplace_back(&data_->functions[i]);
    return found;
  }

 private:
  Module owner_;
  const TVMModelMetadata* data_;
};

}  // namespace runtime
}  // namespace tvm

#endif /* TVM_RUNTIME_CXX_METADATA_H_ */
