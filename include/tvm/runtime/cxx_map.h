/*!
 * \file tvm/runtime/cxx_map.h
 * \brief C++: the key-value pairs of a map object.
 */
#ifndef TVM_RUNTIME_CXX_MAP_H_
#define TVM_RUNTIME_CXX_MAP_H_

#include <tvm/runtime/cxx_array.h>

#include <map>

namespace tvm {
namespace runtime {

/*! \brief A copy of a returned map object, in the order of its keys. */
template <typename K, typename V>
class Map : public std::map<K, V> {
 public:
  using std::map<K, V>::map;
  using std::map<K, V>::operator[];
  /*! \brief The value of a key; throws std::out_of_range if the key is missing. */
  const V& operator[](const K& key) const { return this->at(key); }
  void Set(const K& key, const V& value) { std::map<K, V>::operator[](key) = value; }
  /*! \brief Read all pairs of a "runtime.Map". */
  static Map FromValue(const ObjectRef& object) {
    Map made;
    const ObjectRef items = detail::global("runtime.MapItems")(object).As<ObjectRef>();
    const int64_t size = detail::global("runtime.ArraySize")(items);
    const PackedFunc item = detail::global("runtime.ArrayGetItem");
    for (int64_t i = 0; i + 1 < size; i += 2) {
      made.emplace(item(items, i).template As<K>(), item(items, i + 1).template As<V>());
    }
    return made;
  }
};

namespace detail {

template <typename K, typename V>
struct Convert<Map<K, V>> {
  static Map<K, V> from(const Value& value) { return Map<K, V>::FromValue(value.As<ObjectRef>()); }
};

}  // namespace detail
}  // namespace runtime

using runtime::Map;

}  // namespace tvm

#endif /* TVM_RUNTIME_CXX_MAP_H_ */
