/*!
 * \file tvm/runtime/convert.h
 * \brief C++: conversions of arguments and results, one per type. Included by packed_func.h.
 *
 * To support another type, specialise `tvm::runtime::detail::Convert` with `static T from(const
 * Value&)`, which throws for values of other types.
 */
#ifndef TVM_RUNTIME_CONVERT_H_
#define TVM_RUNTIME_CONVERT_H_

#include <tvm/runtime/cxx_packed_func.h>

namespace tvm {
namespace runtime {
namespace detail {

template <typename T>
struct ConvertInteger {
  static T from(const Value& value) {
    if (!is_integer(value.type_code())) value.refuse("int");
    const int64_t found = value.value().v_int64;
    const T result = static_cast<T>(found);
    if (static_cast<int64_t>(result) != found) {
      std::ostringstream text;
      text << "the integer " << found << " does not fit " << sizeof(T) * 8 << " bits";
      throw InternalError(text.str());
    }
    return result;
  }
};
template <>
struct Convert<signed char> : ConvertInteger<signed char> {};
template <>
struct Convert<short> : ConvertInteger<short> {};
template <>
struct Convert<int> : ConvertInteger<int> {};
template <>
struct Convert<long> : ConvertInteger<long> {};
template <>
struct Convert<long long> : ConvertInteger<long long> {};
template <>
struct Convert<unsigned char> : ConvertInteger<unsigned char> {};
template <>
struct Convert<unsigned short> : ConvertInteger<unsigned short> {};
template <>
struct Convert<unsigned int> : ConvertInteger<unsigned int> {};
template <>
struct Convert<unsigned long> : ConvertInteger<unsigned long> {};
template <>
struct Convert<unsigned long long> : ConvertInteger<unsigned long long> {};
template <>
struct Convert<bool> {
  static bool from(const Value& value) {
    if (!is_integer(value.type_code())) value.refuse("bool");
    return value.value().v_int64 != 0;
  }
};
template <>
struct Convert<double> {
  static double from(const Value& value) {
    if (is_integer(value.type_code())) return static_cast<double>(value.value().v_int64);
    if (value.type_code() != kTVMArgFloat) value.refuse("float");
    return value.value().v_float64;
  }
};
template <>
struct Convert<float> {
  static float from(const Value& value) { return static_cast<float>(Convert<double>::from(value)); }
};
template <>
struct Convert<std::string> {
  static std::string from(const Value& value) {
    switch (value.type_code()) {
      case kTVMStr:
        return value.value().v_str;
      case kTVMBytes: {
        const TVMByteArray* bytes = value.ptr<TVMByteArray>();
        return std::string(bytes->data, bytes->size);
      }
      case kTVMDataType:
        return DLDataType2String(value.value().v_type);
      case kTVMObjectHandle:
        return from(global("runtime.GetFFIString")(value));
      default:
        value.refuse("str");
    }
  }
};
template <>
struct Convert<String> {
  static String from(const Value& value) { return String(Convert<std::string>::from(value)); }
};
template <>
struct Convert<DLDataType> {
  static DLDataType from(const Value& value) {
    if (value.type_code() == kTVMDataType) return value.value().v_type;
    if (value.type_code() == kTVMNullptr) return runtime::DataType::Void();
    return String2DLDataType(Convert<std::string>::from(value));
  }
};
template <>
struct Convert<DataType> {
  static DataType from(const Value& value) { return DataType(Convert<DLDataType>::from(value)); }
};
template <>
struct Convert<DLDevice> {
  static DLDevice from(const Value& value) {
    if (value.type_code() != kDLDevice) value.refuse("DLDevice");
    return value.value().v_device;
  }
};
template <>
struct Convert<void*> {
  static void* from(const Value& value) {
    switch (value.type_code()) {
      case kTVMNullptr:
        return nullptr;
      case kTVMOpaqueHandle:
      case kTVMDLTensorHandle:
      case kTVMNDArrayHandle:
        return value.value().v_handle;
      default:
        value.refuse("handle");
    }
  }
};
template <>
struct Convert<DLTensor*> {
  static DLTensor* from(const Value& value) {
    switch (value.type_code()) {
      case kTVMNullptr:
        return nullptr;
      case kTVMDLTensorHandle:
      case kTVMNDArrayHandle:
        return value.ptr<DLTensor>();
      default:
        value.refuse("DLTensor*");
    }
  }
};
template <>
struct Convert<NDArray> {
  static NDArray from(const Value& value) {
    return NDArray::FromOwned(
        static_cast<TVMArrayHandle>(value.owned(kTVMNDArrayHandle, "NDArray")));
  }
};
template <>
struct Convert<Module> {
  static Module from(const Value& value) {
    return Module::FromOwned(value.owned(kTVMModuleHandle, "Module"));
  }
};
template <>
struct Convert<PackedFunc> {
  static PackedFunc from(const Value& value) {
    return PackedFunc::FromOwned(value.owned(kTVMPackedFuncHandle, "PackedFunc"));
  }
};
template <typename Signature>
struct Convert<TypedPackedFunc<Signature>> {
  static TypedPackedFunc<Signature> from(const Value& value) {
    return TypedPackedFunc<Signature>(Convert<PackedFunc>::from(value));
  }
};
template <>
struct Convert<ObjectRef> {
  static ObjectRef from(const Value& value) {
    return ObjectRef::FromOwned(value.owned(kTVMObjectHandle, "Object"));
  }
};
template <>
struct Convert<ShapeTuple> {
  static ShapeTuple from(const Value& value) {
    const ObjectRef shape = Convert<ObjectRef>::from(value);
    std::vector<int64_t> extents;
    const int64_t size = global("runtime.GetShapeTupleSize")(shape).As<int64_t>();
    const PackedFunc extent = global("runtime.GetShapeTupleElem");
    for (int64_t i = 0; i < size; ++i) extents.push_back(extent(shape, i).As<int64_t>());
    return extents;
  }
};
template <>
struct Convert<TVMArgValue> {
  static TVMArgValue from(const Value& value) {
    return TVMArgValue(value.value(), value.type_code());
  }
};
template <>
struct Convert<TVMRetValue> {
  static TVMRetValue from(const Value& value) {
    TVMRetValue result;
    result = Convert<TVMArgValue>::from(value);
    return result;
  }
};

}  // namespace detail

/*! \brief Convert an object to its C++ type: `Downcast<Map<String, ObjectRef>>(object)`. */
template <typename T>
T Downcast(const ObjectRef& object) {
  TVMValue value;
  value.v_handle = object.get();
  return TVMArgValue(value, object.defined() ? static_cast<int>(kTVMObjectHandle)
                                             : static_cast<int>(kTVMNullptr))
      .As<T>();
}

/*! \brief Convert a result of `as()`: `GetRef<ShapeTuple>(object.as<ShapeTupleObj>())`. */
template <typename T, typename Tag>
T GetRef(const ObjectNode<Tag>* node) {
  void* handle = const_cast<ObjectNode<Tag>*>(node);
  if (handle == nullptr) {
    throw InternalError(std::string("GetRef: the argument is null, expected an object of type ") +
                        Tag::key());
  }
  detail::check_call(TVMObjectRetain(handle));
  return Downcast<T>(ObjectRef::FromOwned(handle));
}

inline NDArray NDArray::CreateView(const ShapeTuple& shape, DLDataType dtype,
                                   uint64_t relative_byte_offset) const {
  std::vector<TVMValue> values(shape.size() + 1);
  std::vector<int> codes(shape.size() + 1);
  const TVMArgsSetter set(values.data(), codes.data());
  TVMRetValue object;
  for (size_t i = 0; i < shape.size(); ++i) set(i, shape[i]);
  detail::global("runtime.ShapeTuple")
      .CallPacked(TVMArgs(values.data(), codes.data(), static_cast<int>(shape.size())), &object);
  return detail::global("runtime.TVMArrayCreateView")(*this, object, dtype, relative_byte_offset);
}

inline void TVMRetValue::MoveToCHost(TVMValue* value, int* code) {
  if (code_ == kTVMBytes) refuse("a result other than a byte array");
  if (code_ == kTVMStr) *this = detail::global("runtime.String")(*this);
  *value = value_;
  *code = code_;
  code_ = kTVMNullptr;
}

}  // namespace runtime

using runtime::Downcast;
using runtime::GetRef;

}  // namespace tvm

#endif /* TVM_RUNTIME_CONVERT_H_ */
