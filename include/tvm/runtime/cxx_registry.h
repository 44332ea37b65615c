/*!
 * \file tvm/runtime/cxx_registry.h
 * \brief C++: the global registry of functions. Included by registry.h.
 *
 * Header only, C++11 to C++20. Errors are exceptions (logging.h). The static functions of Registry
 * are thread-safe.
 */
#ifndef TVM_RUNTIME_CXX_REGISTRY_H_
#define TVM_RUNTIME_CXX_REGISTRY_H_

#include <tvm/runtime/cxx_module_members.h>
#include <tvm/runtime/typed_packed_func.h>

#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace tvm {
namespace runtime {

/*! \brief An entry of the registry, which set_body() fills. */
class Registry {
 public:
  /*!
   * \brief Begin an entry.
   * \param name     Name of the function.
   * \param override Whether set_body() replaces an existing function; otherwise it throws.
   */
  static Registry& Register(const std::string& name, bool override = false) {
    std::lock_guard<std::mutex> lock(mutex());
    Registry& entry = entries()[name];
    entry.name_ = name;
    entry.override_ = override;
    return entry;
  }
  /*! \brief Look up a function; NULL if there is none. Valid until the next call for that name. */
  static const PackedFunc* Get(const std::string& name) {
    TVMFunctionHandle found = nullptr;
    detail::check_call(TVMFuncGetGlobal(name.c_str(), &found));
    if (found == nullptr) return nullptr;
    std::lock_guard<std::mutex> lock(mutex());
    Registry& entry = entries()[name];
    const PackedFunc function = PackedFunc::FromOwned(found);
    if (entry.function_.handle() != function.handle()) entry.function_ = function;
    return &entry.function_;
  }
  /*! \brief Remove a function; returns whether there was one. */
  static bool Remove(const std::string& name) {
    TVMFunctionHandle found = nullptr;
    detail::check_call(TVMFuncGetGlobal(name.c_str(), &found));
    const PackedFunc function = PackedFunc::FromOwned(found);
    detail::check_call(TVMFuncRemoveGlobal(name.c_str()));
    return function != nullptr;
  }
  static std::vector<std::string> ListNames() {
    int count = 0;
    const char** names = nullptr;
    detail::check_call(TVMFuncListGlobalNames(&count, &names));
    return std::vector<std::string>(names, names + count);
  }

  /*! \brief Register `void f(TVMArgs, TVMRetValue*)`, or a PackedFunc. */
  Registry& set_body(PackedFunc function) {
    function_ = std::move(function);
    detail::check_call(TVMFuncRegisterGlobal(name_.c_str(), function_.handle(), override_ ? 1 : 0));
    return *this;
  }
  /*! \brief Register a callable with typed arguments. */
  template <typename F>
  Registry& set_body_typed(F body) {
    using Types = typename detail::Signature<F>::type;
    return set_body(TypedPackedFunc<Types>(std::move(body), name_).packed());
  }

 private:
  /* Entries outlive static objects that use them, so they are never deleted. */
  static std::map<std::string, Registry>& entries() {
    static auto* made = new std::map<std::string, Registry>();
    return *made;
  }
  static std::mutex& mutex() {
    static auto* made = new std::mutex();
    return *made;
  }

  std::string name_;
  bool override_ = false;
  PackedFunc function_;
};

}  // namespace runtime
}  // namespace tvm

#define TVMRT_JOINED_(a, b) a##b
#define TVMRT_JOINED(a, b) TVMRT_JOINED_(a, b)

/*! \brief At namespace scope: register a function when the library is loaded. */
#define TVM_REGISTER_GLOBAL(name)                                                 \
  static ::tvm::runtime::Registry& TVMRT_JOINED(tvmrt_registered_, __COUNTER__) = \
      ::tvm::runtime::Registry::Register(name)

#endif /* TVM_RUNTIME_CXX_REGISTRY_H_ */
