/*!
 * \file tvm/runtime/data_type.h
 * \brief C++: element types and their names ("float32", "int8x4").
 *
 * Header only, C++11 to C++20.
 */
#ifndef TVM_RUNTIME_DATA_TYPE_H_
#define TVM_RUNTIME_DATA_TYPE_H_

#include <tvm/runtime/logging.h>

#include <cstdint>
#include <cstdlib>
#include <string>

namespace tvm {

/*! \brief A device: its type and index. */
using Device = DLDevice;

namespace runtime {

/*! \brief An element type: a DLDataType with query functions. */
class DataType {
 public:
  enum TypeCode {
    kInt = kDLInt,
    kUInt = kDLUInt,
    kFloat = kDLFloat,
    kHandle = kTVMOpaqueHandle,
    kBFloat = kDLBfloat
  };

  /*! \brief void. */
  DataType() : DataType(kHandle, 0, 0) {}
  DataType(DLDataType type) : type_(type) {}  // NOLINT: implicit
  DataType(int code, int bits, int lanes) {
    type_.code = static_cast<uint8_t>(code);
    type_.bits = static_cast<uint8_t>(bits);
    type_.lanes = static_cast<uint16_t>(lanes);
  }

  static DataType Int(int bits, int lanes = 1) { return DataType(kInt, bits, lanes); }
  static DataType UInt(int bits, int lanes = 1) { return DataType(kUInt, bits, lanes); }
  static DataType Float(int bits, int lanes = 1) { return DataType(kFloat, bits, lanes); }
  static DataType BFloat(int bits, int lanes = 1) { return DataType(kBFloat, bits, lanes); }
  static DataType Bool(int lanes = 1) { return UInt(1, lanes); }
  static DataType Handle(int bits = 64, int lanes = 1) { return DataType(kHandle, bits, lanes); }
  static DataType Void() { return DataType(); }

  int code() const { return type_.code; }
  int bits() const { return type_.bits; }
  /*! \brief Bytes of one element, rounded up. */
  int bytes() const { return (bits() + 7) / 8; }
  int lanes() const { return type_.lanes; }
  bool is_scalar() const { return lanes() == 1; }
  bool is_vector() const { return lanes() > 1; }
  bool is_int() const { return code() == kInt; }
  bool is_uint() const { return code() == kUInt; }
  bool is_float() const { return code() == kFloat; }
  bool is_bfloat16() const { return code() == kBFloat && bits() == 16; }
  bool is_float16() const { return is_float() && bits() == 16; }
  bool is_bool() const { return is_uint() && bits() == 1; }
  bool is_handle() const { return code() == kHandle && !is_void(); }
  bool is_void() const { return code() == kHandle && bits() == 0 && lanes() == 0; }
  DataType with_lanes(int lanes) const { return DataType(code(), bits(), lanes); }
  DataType with_bits(int bits) const { return DataType(code(), bits, lanes()); }
  DataType element_of() const { return with_lanes(1); }
  bool operator==(const DataType& other) const {
    return code() == other.code() && bits() == other.bits() && lanes() == other.lanes();
  }
  bool operator!=(const DataType& other) const { return !(*this == other); }
  operator DLDataType() const { return type_; }  // NOLINT: implicit

 private:
  DLDataType type_;
};

/*! \brief Whether a type has a type code, a number of bits and a number of lanes. */
inline bool TypeMatch(DLDataType type, int code, int bits, int lanes = 1) {
  return DataType(type) == DataType(code, bits, lanes);
}

/*! \brief Name of a type: "float32", "uint8x4", "bool", "handle"; "" for void. */
inline std::string DLDataType2String(DLDataType type) {
  const DataType t(type);
  if (t.is_void()) return "";
  if (t.is_bool() && t.is_scalar()) return "bool";
  std::ostringstream out;
  switch (t.code()) {
    case DataType::kInt:
      out << "int";
      break;
    case DataType::kUInt:
      out << "uint";
      break;
    case DataType::kFloat:
      out << "float";
      break;
    case DataType::kBFloat:
      out << "bfloat";
      break;
    case DataType::kHandle:
      out << "handle";
      break;
    default:
      out << "custom[" << t.code() << ']';
      break;
  }
  if (t.code() != DataType::kHandle) out << t.bits();
  if (t.lanes() != 1) out << 'x' << t.lanes();
  return out.str();
}

/*! \brief Type of a name, as returned by DLDataType2String(). Throws InternalError for others. */
inline DLDataType String2DLDataType(const std::string& text) {
  static const struct {
    const char* name;
    int code, bits;
  } kinds[] = {{"bfloat", DataType::kBFloat, 16},
               {"float", DataType::kFloat, 32},
               {"uint", DataType::kUInt, 32},
               {"int", DataType::kInt, 32},
               {"handle", DataType::kHandle, 64}};
  if (text.empty() || text == "void") return DataType::Void();
  if (text == "bool") return DataType::Bool();
  for (const auto& kind : kinds) {
    const std::string name = kind.name;
    if (text.compare(0, name.size(), name) != 0) continue;
    const char* at = text.c_str() + name.size();
    char* end = nullptr;
    long bits = std::strtol(at, &end, 10), lanes = 1;
    if (end == at) bits = kind.bits;
    if (*end == 'x') {
      at = end + 1;
      lanes = std::strtol(at, &end, 10);
      if (end == at) break;
    }
    if (*end != '\0' || bits < 1 || bits > 255 || lanes < 1 || lanes > 65535) break;
    return DataType(kind.code, static_cast<int>(bits), static_cast<int>(lanes));
  }
  throw InternalError("unknown type " + text);
}

inline std::ostream& operator<<(std::ostream& out, const DataType& type) {
  return out << DLDataType2String(type);
}

/*! \brief Size of a compact tensor in bytes. */
inline size_t GetDataSize(const DLTensor& tensor) {
  size_t elements = 1;
  for (int i = 0; i < tensor.ndim; ++i) elements *= static_cast<size_t>(tensor.shape[i]);
  return elements * ((tensor.dtype.bits * tensor.dtype.lanes + 7u) / 8u);
}

/*! \brief Whether the elements are contiguous in row-major order. */
inline bool IsContiguous(const DLTensor& tensor) {
  if (tensor.strides == nullptr) return true;
  int64_t expected = 1;
  for (int i = tensor.ndim - 1; i >= 0; --i) {
    if (tensor.shape[i] != 1 && tensor.strides[i] != expected) return false;
    expected *= tensor.shape[i];
  }
  return true;
}

}  // namespace runtime
}  // namespace tvm

#endif /* TVM_RUNTIME_DATA_TYPE_H_ */
