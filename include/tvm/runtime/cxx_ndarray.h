/*!
 * \file tvm/runtime/cxx_ndarray.h
 * \brief C++: tensors that the runtime owns. Included by ndarray.h.
 *
 * Header only, C++11 to C++20. Errors are exceptions (logging.h).
 */
#ifndef TVM_RUNTIME_CXX_NDARRAY_H_
#define TVM_RUNTIME_CXX_NDARRAY_H_

#include <tvm/runtime/cxx_shape_tuple.h>
#include <tvm/runtime/data_type.h>
#include <tvm/runtime/object.h>

#include <vector>

namespace tvm {
namespace runtime {

/*! \brief A compact tensor; copies share its elements. */
class NDArray {
 public:
  NDArray() = default;
  NDArray(std::nullptr_t) {}  // NOLINT: implicit from nullptr
  /*! \brief Take ownership of a handle. */
  static NDArray FromOwned(TVMArrayHandle handle) {
    NDArray made;
    made.tensor_ = Handle(handle);
    return made;
  }

  /*!
   * \brief Allocate an uninitialised tensor.
   * \param shape Extents, each 0 or more.
   * \param dtype Element type.
   * \param dev   Device of the memory.
   */
  static NDArray Empty(const ShapeTuple& shape, DLDataType dtype, DLDevice dev) {
    TVMArrayHandle made = nullptr;
    detail::check_call(TVMArrayAlloc(shape.data(), static_cast<int>(shape.size()), dtype.code,
                                     dtype.bits, dtype.lanes, dev.device_type, dev.device_id,
                                     &made));
    return FromOwned(made);
  }

  /*! \brief Take ownership of a DLPack tensor without copying; not if this throws. */
  static NDArray FromDLPack(DLManagedTensor* tensor) {
    TVMArrayHandle made = nullptr;
    detail::check_call(TVMArrayFromDLPack(tensor, &made));
    return FromOwned(made);
  }

  /*! \brief Export the elements by DLPack; the caller calls the deleter. */
  DLManagedTensor* ToDLPack() const {
    DLManagedTensor* made = nullptr;
    detail::check_call(TVMArrayToDLPack(handle(), &made));
    return made;
  }

  const DLTensor* operator->() const { return handle(); }
  /*! \brief The handle, borrowed; NULL for none. */
  TVMArrayHandle handle() const { return static_cast<TVMArrayHandle>(tensor_.get()); }
  bool defined() const { return handle() != nullptr; }
  bool operator==(std::nullptr_t) const { return !defined(); }
  bool operator!=(std::nullptr_t) const { return defined(); }
  bool same_as(const NDArray& other) const { return handle() == other.handle(); }
  int use_count() const { return static_cast<int>(tensor_.use_count()); }
  void reset() { tensor_ = Handle(); }

  ShapeTuple Shape() const {
    const DLTensor& tensor = checked();
    return ShapeTuple(tensor.shape, tensor.shape + tensor.ndim);
  }
  runtime::DataType DataType() const { return runtime::DataType(checked().dtype); }
  bool IsContiguous() const { return runtime::IsContiguous(checked()); }

  /*! \brief Fill from host memory; `nbytes` must be the tensor's size. */
  void CopyFromBytes(const void* data, size_t nbytes) {
    detail::check_call(TVMArrayCopyFromBytes(&checked(), const_cast<void*>(data), nbytes));
  }
  /*! \brief Copy to host memory; `nbytes` must be the tensor's size. */
  void CopyToBytes(void* data, size_t nbytes) const {
    detail::check_call(TVMArrayCopyToBytes(&checked(), data, nbytes));
  }
  void CopyFrom(const DLTensor* other) { copy(other, &checked()); }
  void CopyFrom(const NDArray& other) { copy(&other.checked(), &checked()); }
  void CopyTo(DLTensor* other) const { copy(&checked(), other); }
  void CopyTo(const NDArray& other) const { copy(&checked(), &other.checked()); }
  /*!
   * \brief Create a tensor of another shape or type that shares the elements and keeps them alive.
   * \param shape                Its extents.
   * \param dtype                Its element type.
   * \param relative_byte_offset Its start, in bytes from this tensor's first element.
   * \return The view; throws if it would exceed this tensor.
   */
  NDArray CreateView(const ShapeTuple& shape, DLDataType dtype,
                     uint64_t relative_byte_offset = 0) const;
  /*! \brief A copy on a device. */
  NDArray CopyTo(const DLDevice& dev) const {
    NDArray made = Empty(Shape(), checked().dtype, dev);
    CopyTo(made);
    return made;
  }

 private:
  using Handle = detail::Owned<detail::release_tensor>;

  DLTensor& checked() const {
    if (!defined()) throw InternalError("the NDArray has no tensor");
    return *handle();
  }
  static void copy(const DLTensor* from, DLTensor* to) {
    detail::check_call(TVMArrayCopyFromTo(const_cast<DLTensor*>(from), to, nullptr));
  }

  Handle tensor_;
};

}  // namespace runtime
}  // namespace tvm

#endif /* TVM_RUNTIME_CXX_NDARRAY_H_ */
