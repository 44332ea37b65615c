/*!
 * \file tvm/runtime/cxx_array.h
 * \brief C++: the elements of an array object.
 */
#ifndef TVM_RUNTIME_CXX_ARRAY_H_
#define TVM_RUNTIME_CXX_ARRAY_H_

#include <tvm/runtime/cxx_registry.h>

#include <vector>

namespace tvm {
namespace runtime {

/*! \brief A copy of a returned array object, element by element. */
template <typename T>
class Array : public std::vector<T> {
 public:
  using std::vector<T>::vector;
  /*! \brief Read all elements of a "runtime.Array". */
  static Array FromValue(const ObjectRef& object) {
    Array made;
    const int64_t size = detail::global("runtime.ArraySize")(object);
    for (int64_t i = 0; i < size; ++i) {
      made.push_back(detail::global("runtime.ArrayGetItem")(object, i).template As<T>());
    }
    return made;
  }
};

namespace detail {

template <typename T>
struct Convert<Array<T>> {
  static Array<T> from(const Value& value) { return Array<T>::FromValue(value.As<ObjectRef>()); }
};

}  // namespace detail
}  // namespace runtime

using runtime::Array;

}  // namespace tvm

#endif /* TVM_RUNTIME_CXX_ARRAY_H_ */
