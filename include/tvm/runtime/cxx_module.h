/*!
 * \file tvm/runtime/cxx_module.h
 * \brief C++: loaded libraries and the functions in them. Included by module.h.
 *
 * Header only, C++11 to C++20. Errors are exceptions (logging.h). Write custom modules with
 * module_plugin.h; deriving from ModuleNode is not possible over the C ABI.
 */
#ifndef TVM_RUNTIME_CXX_MODULE_H_
#define TVM_RUNTIME_CXX_MODULE_H_

#include <tvm/runtime/object.h>

#include <string>
#include <vector>

namespace tvm {
namespace runtime {

class Module;
class PackedFunc;

/*! \brief Target of a Module's operator->(). */
class ModuleNode {
 public:
  /*!
   * \brief Look up a function; an empty PackedFunc if there is none.
   * \param name          Exact name.
   * \param query_imports Whether to search the imports too.
   */
  PackedFunc GetFunction(const std::string& name, bool query_imports = false) const;
  /*! \brief Whether there is a function with a name. */
  bool ImplementsFunction(const std::string& name, bool query_imports = false) const;
  /*! \brief Its kind, such as "library" or "GraphExecutor". */
  std::string type_key() const;
  /*! \brief Its source in a format; "" if it has none. */
  std::string GetSource(const std::string& format = "") const;
  void SaveToFile(const std::string& file, const std::string& format) const;
  /*! \brief Import another module, whose functions are then found. */
  void Import(const Module& other);
  /*! \brief The imported modules. */
  std::vector<Module> imports() const;

 private:
  friend class Module;
  detail::Owned<TVMModFree> handle_;
};

/*! \brief A module; copies share it. */
class Module {
 public:
  Module() = default;
  Module(std::nullptr_t) {}  // NOLINT: implicit from nullptr
  /*! \brief Take ownership of a handle. */
  static Module FromOwned(TVMModuleHandle handle) {
    Module made;
    made.node_.handle_ = detail::Owned<TVMModFree>(handle);
    return made;
  }
  /*!
   * \brief Load a library.
   * \param file   Path.
   * \param format "so", ...; by default the text after the last dot of the path.
   */
  static Module LoadFromFile(const std::string& file, const std::string& format = "") {
    TVMModuleHandle made = nullptr;
    detail::check_call(TVMModLoadFromFile(file.c_str(), format.c_str(), &made));
    return FromOwned(made);
  }

  inline PackedFunc GetFunction(const std::string& name, bool query_imports = false) const;
  void Import(const Module& other) { node_.Import(other); }
  ModuleNode* operator->() { return &node_; }
  const ModuleNode* operator->() const { return &node_; }
  /*! \brief The handle, borrowed; NULL for none. */
  TVMModuleHandle handle() const { return node_.handle_.get(); }
  bool defined() const { return handle() != nullptr; }
  bool operator==(std::nullptr_t) const { return !defined(); }
  bool operator!=(std::nullptr_t) const { return defined(); }
  bool same_as(const Module& other) const { return handle() == other.handle(); }

 private:
  ModuleNode node_;
};

/*! \brief Whether the runtime supports a kind of device, such as "cpu" or "opencl". */
bool RuntimeEnabled(const std::string& target);

}  // namespace runtime
}  // namespace tvm

#endif /* TVM_RUNTIME_CXX_MODULE_H_ */
