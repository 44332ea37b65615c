/*!
 * \file tvm/runtime/cxx_module_members.h
 * \brief C++: the members of modules that call functions. Included by module.h.
 */
#ifndef TVM_RUNTIME_CXX_MODULE_MEMBERS_H_
#define TVM_RUNTIME_CXX_MODULE_MEMBERS_H_

#include <tvm/runtime/convert.h>

namespace tvm {
namespace runtime {

inline PackedFunc ModuleNode::GetFunction(const std::string& name, bool query_imports) const {
  TVMFunctionHandle found = nullptr;
  if (handle_.get() == nullptr) throw InternalError("an empty Module has no function " + name);
  detail::check_call(TVMModGetFunction(handle_.get(), name.c_str(), query_imports ? 1 : 0, &found));
  return PackedFunc::FromOwned(found);
}

inline PackedFunc Module::GetFunction(const std::string& name, bool query_imports) const {
  return node_.GetFunction(name, query_imports);
}

inline bool ModuleNode::ImplementsFunction(const std::string& name, bool query_imports) const {
  return GetFunction(name, query_imports) != nullptr;
}

namespace detail {

/*! \brief A module handle as a function argument. */
inline TVMArgValue module_value(TVMModuleHandle handle) {
  TVMValue value;
  value.v_handle = handle;
  return TVMArgValue(value, handle == nullptr ? kTVMNullptr : kTVMModuleHandle);
}

}  // namespace detail

inline std::string ModuleNode::type_key() const {
  return detail::global("runtime.ModuleGetTypeKey")(detail::module_value(handle_.get()));
}

inline std::string ModuleNode::GetSource(const std::string& format) const {
  return detail::global("runtime.ModuleGetSource")(detail::module_value(handle_.get()), format);
}

inline void ModuleNode::SaveToFile(const std::string& file, const std::string& format) const {
  detail::global("runtime.ModuleSaveToFile")(detail::module_value(handle_.get()), file, format);
}

inline void ModuleNode::Import(const Module& other) {
  detail::check_call(TVMModImport(handle_.get(), other.handle()));
}

inline std::vector<Module> ModuleNode::imports() const {
  const TVMArgValue self = detail::module_value(handle_.get());
  const int count = detail::global("runtime.ModuleImportsSize")(self);
  std::vector<Module> found;
  for (int i = 0; i < count; ++i) {
    found.push_back(detail::global("runtime.ModuleGetImport")(self, i).As<Module>());
  }
  return found;
}

inline bool RuntimeEnabled(const std::string& target) {
  return detail::global("runtime.RuntimeEnabled")(target);
}

}  // namespace runtime
}  // namespace tvm

#endif /* TVM_RUNTIME_CXX_MODULE_MEMBERS_H_ */
