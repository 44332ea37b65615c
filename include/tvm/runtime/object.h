/*!
 * \file tvm/runtime/object.h
 * \brief C++: shared ownership of reference-counted C handles.
 *
 * Header only, C++11 to C++20. Copies share the handle; the last owner releases it. A copy may be
 * used on another thread; one variable by one thread at a time.
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
 * \tparam Release the function that drops a reference; never called with NULL.
 */
template <int (*Release)(void*)>
class Owned {
 public:
  Owned() = default;
  /*! \brief Take ownership of a handle; NULL for none. */
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

/*! \brief Name of a type code, for error texts. */
inline const char* type_name(int code) {
  static const char* const names[] = {"int",    "uint",       "float",           "handle",
                                      "NULL",   "DLDataType", "DLDevice",        "DLTensor",
                                      "Object", "Module",     "PackedFunc",      "str",
                                      "bytes",  "NDArray",    "ObjectRValueRef", "bool"};
  return code >= 0 && code <= kTVMArgBool ? names[code] : "a code of an extension";
}

}  // namespace detail

/*!
 * \brief Type tag of ObjectRef::as().
 *
 * Its address gives no access to elements; GetRef() returns the class that holds them.
 */
template <typename Tag>
class ObjectNode {
 public:
  ObjectNode() = delete;
  static const char* TypeKey() { return Tag::key(); }
};
namespace detail {
struct ArrayTag {
  static const char* key() { return "Array"; }
};
struct MapTag {
  static const char* key() { return "Map"; }
};
struct ShapeTupleTag {
  static const char* key() { return "runtime.ShapeTuple"; }
};
struct StringTag {
  static const char* key() { return "runtime.String"; }
};
}  // namespace detail
using ArrayNode = ObjectNode<detail::ArrayTag>;
using MapNode = ObjectNode<detail::MapTag>;
using ShapeTupleObj = ObjectNode<detail::ShapeTupleTag>;
using StringObj = ObjectNode<detail::StringTag>;

/*! \brief A reference-counted object: a container, a string, or a user-defined object. */
class ObjectRef {
 public:
  ObjectRef() = default;
  ObjectRef(std::nullptr_t) {}  // NOLINT: implicit from nullptr
  /*! \brief Take ownership of a reference. */
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
  /*! \brief The object if it has a type, as in `as<MapNode>()`; else NULL. Borrowed from this. */
  template <typename Node>
  const Node* as() const {
    return GetTypeKey() == Node::TypeKey() ? static_cast<const Node*>(get()) : nullptr;
  }

 private:
  detail::Owned<TVMObjectFree> object_;
};

}  // namespace runtime

using runtime::ObjectRef;

}  // namespace tvm

#endif /* TVM_RUNTIME_OBJECT_H_ */
