/*!
 * \file tvm/runtime/object.h
 * \brief C++: shared ownership of what the C ABI counts.
 *
 * Header only, C++11 to C++20. Copies share; the last owner releases. A copy may be used on another
 * thread, one and the same variable by one thread at a time.
 */
#ifndef TVM_RUNTIME_OBJECT_H_
#define TVM_RUNTIME_OBJECT_H_

#include <tvm/runtime/logging.h>

#include <cstddef>
#include <memory>

namespace tvm {
namespace runtime {
namespace detail {

/*!
 * \brief An owned handle of the C ABI.
 * \tparam Release the function that drops a reference; it gets no NULL.
 */
template <int (*Release)(void*)>
class Owned {
 public:
  Owned() = default;
  /*! \brief Take an owned handle over; NULL for none. */
  explicit Owned(void* handle) {
    if (handle != nullptr) handle_.reset(handle, [](void* held) { (void)Release(held); });
  }
  void* get() const { return handle_.get(); }
  long use_count() const { return handle_.use_count(); }

 private:
  std::shared_ptr<void> handle_;
};

inline int release_tensor(void* handle) {
  return TVMArrayFree(static_cast<TVMArrayHandle>(handle));
}

/*! \brief The text of a type code, for errors. */
inline const char* type_name(int code) {
  static const char* const names[] = {"int",    "uint",       "float",           "handle",
                                      "NULL",   "DLDataType", "DLDevice",        "DLTensor",
                                      "Object", "Module",     "PackedFunc",      "str",
                                      "bytes",  "NDArray",    "ObjectRValueRef", "bool"};
  return code >= 0 && code <= kTVMArgBool ? names[code] : "a code of an extension";
}

}  // namespace detail

/*! \brief A counted object: a container, a text, or one of a type of the user's. */
class ObjectRef {
 public:
  ObjectRef() = default;
  ObjectRef(std::nullptr_t) {}  // NOLINT: none is one
  /*! \brief Take a reference over. */
  static ObjectRef FromOwned(TVMObjectHandle handle) {
    ObjectRef made;
    made.object_ = detail::Owned<TVMObjectFree>(handle);
    return made;
  }
  TVMObjectHandle get() const { return object_.get(); }
  bool defined() const { return get() != nullptr; }
  bool operator==(std::nullptr_t) const { return !defined(); }
  bool operator!=(std::nullptr_t) const { return defined(); }
  bool same_as(const ObjectRef& other) const { return get() == other.get(); }
  /*! \brief Its type key, such as "runtime.Map"; "" for none. */
  std::string GetTypeKey() const {
    if (!defined()) return "";
    unsigned index = 0;
    char* key = nullptr;
    detail::check_call(TVMObjectGetTypeIndex(get(), &index));
    detail::check_call(TVMObjectTypeIndex2Key(index, &key));
    std::unique_ptr<char, void (*)(void*)> owned(key, std::free);
    return key;
  }

 private:
  detail::Owned<TVMObjectFree> object_;
};

}  // namespace runtime
}  // namespace tvm

#endif /* TVM_RUNTIME_OBJECT_H_ */
