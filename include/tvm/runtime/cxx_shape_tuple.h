/*!
 * \file tvm/runtime/cxx_shape_tuple.h
 * \brief C++: the extents of a tensor.
 */
#ifndef TVM_RUNTIME_CXX_SHAPE_TUPLE_H_
#define TVM_RUNTIME_CXX_SHAPE_TUPLE_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

namespace tvm {
namespace runtime {

/*! \brief Extents of a tensor, in an array that the tuple owns. */
class ShapeTuple {
 public:
  using index_type = int64_t;

  ShapeTuple() = default;
  ShapeTuple(std::initializer_list<index_type> shape) : shape_(shape) {}
  ShapeTuple(std::vector<index_type> shape) : shape_(std::move(shape)) {}  // NOLINT: implicit
  template <typename Iterator>
  ShapeTuple(Iterator begin, Iterator end) : shape_(begin, end) {}

  const index_type* data() const { return shape_.data(); }
  size_t size() const { return shape_.size(); }
  bool empty() const { return shape_.empty(); }
  index_type operator[](size_t i) const { return shape_[i]; }
  index_type at(size_t i) const { return shape_.at(i); }
  index_type front() const { return shape_.front(); }
  index_type back() const { return shape_.back(); }
  const index_type* begin() const { return data(); }
  const index_type* end() const { return data() + size(); }
  bool operator==(const ShapeTuple& other) const { return shape_ == other.shape_; }
  bool operator!=(const ShapeTuple& other) const { return shape_ != other.shape_; }

 private:
  std::vector<index_type> shape_;
};

}  // namespace runtime
}  // namespace tvm

#endif /* TVM_RUNTIME_CXX_SHAPE_TUPLE_H_ */
