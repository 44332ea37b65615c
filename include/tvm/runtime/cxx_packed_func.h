/*!
 * \file tvm/runtime/cxx_packed_func.h
 * \brief C++: packed functions, their arguments and results. Included by packed_func.h.
 *
 * Header only, C++11 to C++20. Calls go over the C ABI: caller and callee may be C, C++ or Python.
 * Errors are exceptions (logging.h); an exception in a callee becomes the error of the call.
 */
#ifndef TVM_RUNTIME_CXX_PACKED_FUNC_H_
#define TVM_RUNTIME_CXX_PACKED_FUNC_H_

#include <tvm/runtime/cxx_module.h>
#include <tvm/runtime/cxx_ndarray.h>
#include <tvm/runtime/cxx_string.h>

#include <functional>
#include <limits>
#include <type_traits>
#include <utility>

namespace tvm {
namespace runtime {

class TVMArgValue;
class TVMRetValue;
template <typename Signature>
class TypedPackedFunc;

namespace detail {

template <typename T>
struct Convert;

/*! \brief A value and its type code; the common part of arguments and results. */
class Value {
 public:
  int type_code() const { return code_; }
  const TVMValue& value() const { return value_; }
  template <typename T>
  T* ptr() const {
    return static_cast<T*>(value_.v_handle);
  }
  /*! \brief The value as a T; throws InternalError if it has another type. */
  template <typename T>
  T As() const {
    return Convert<T>::from(*this);
  }
  template <typename T>
  T AsObjectRef() const {
    return As<T>();
  }
  template <typename T, typename = decltype(&Convert<T>::from)>
  operator T() const {  // NOLINT: implicit conversion is intended
    return Convert<T>::from(*this);
  }

  /*! \brief Throw an error that another type was expected. */
  [[noreturn]] void refuse(const char* expected) const {
    throw InternalError(std::string("expected ") + expected + " but got " + type_name(code_));
  }
  /*! \brief An owned handle with type code `code`, or NULL. */
  void* owned(int code, const char* expected) const {
    if (code_ == kTVMNullptr) return nullptr;
    TVMValue value = value_;
    int found = code_;
    if (found != code && found != kTVMObjectRValueRefArg) refuse(expected);
    check_call(TVMCbArgToReturn(&value, &found));
    return value.v_handle;
  }

 protected:
  Value() : code_(kTVMNullptr) { value_.v_handle = nullptr; }
  Value(TVMValue value, int code) : value_(value), code_(code) {}
  Value(const Value&) = default;
  Value& operator=(const Value&) = default;
  TVMValue value_;
  int code_;
};

inline bool is_integer(int code) { return code == kTVMArgInt || code == kTVMArgBool; }

}  // namespace detail

/*! \brief One argument, borrowed for the duration of the call. */
class TVMArgValue : public detail::Value {
 public:
  TVMArgValue() = default;
  TVMArgValue(TVMValue value, int code) : Value(value, code) {}
};

/*! \brief The arguments of a call, borrowed. */
class TVMArgs {
 public:
  const TVMValue* values;
  const int* type_codes;
  int num_args;

  TVMArgs(const TVMValue* values, const int* type_codes, int num_args)
      : values(values), type_codes(type_codes), num_args(num_args) {}
  int size() const { return num_args; }
  TVMArgValue operator[](int i) const {
    if (i < 0 || i >= num_args) {
      std::ostringstream text;
      text << "not enough argument passed, " << num_args << " passed but request arg[" << i << "].";
      throw InternalError(text.str());
    }
    return TVMArgValue(values[i], type_codes[i]);
  }
};

/*! \brief A packed function; copies share it. */
class PackedFunc {
 public:
  using FType = std::function<void(TVMArgs, TVMRetValue*)>;

  PackedFunc() = default;
  PackedFunc(std::nullptr_t) {}  // NOLINT: implicit from nullptr
  /*! \brief Create a function from a callable `void(TVMArgs args, TVMRetValue* result)`. */
  template <typename F,
            typename = typename std::enable_if<
                std::is_convertible<F, FType>::value &&
                !std::is_base_of<PackedFunc, typename std::decay<F>::type>::value>::type>
  PackedFunc(F body) : PackedFunc(FType(std::move(body)), 0) {}  // NOLINT: implicit
  /*! \brief Take ownership of a handle. */
  static PackedFunc FromOwned(TVMFunctionHandle handle) {
    PackedFunc made;
    made.function_ = detail::Owned<TVMFuncFree>(handle);
    return made;
  }

  /*! \brief Call with arguments of any kind that packed functions take. */
  template <typename... Args>
  TVMRetValue operator()(Args&&... args) const;
  /*! \brief Call with arguments that are packed already. */
  void CallPacked(TVMArgs args, TVMRetValue* result) const;

  /*! \brief The handle, borrowed; NULL for none. */
  TVMFunctionHandle handle() const { return function_.get(); }
  bool defined() const { return handle() != nullptr; }
  bool operator==(std::nullptr_t) const { return !defined(); }
  bool operator!=(std::nullptr_t) const { return defined(); }

 private:
  PackedFunc(FType body, int);
  detail::Owned<TVMFuncFree> function_;
};

/*! \brief A result, which owns its value. */
class TVMRetValue : public detail::Value {
 public:
  TVMRetValue() = default;
  TVMRetValue(const TVMRetValue& other) : Value() { assign(other.value_, other.code_); }
  TVMRetValue(TVMRetValue&& other) noexcept : Value() { swap(other); }
  template <typename T, typename = typename std::enable_if<!std::is_base_of<
                            TVMRetValue, typename std::decay<T>::type>::value>::type>
  TVMRetValue(T&& value) : Value() {  // NOLINT: implicit, for return statements
    *this = std::forward<T>(value);
  }
  ~TVMRetValue() { clear(); }
  TVMRetValue& operator=(const TVMRetValue& other) {
    if (this != &other) assign(other.value_, other.code_);
    return *this;
  }
  TVMRetValue& operator=(TVMRetValue&& other) noexcept {
    swap(other);
    return *this;
  }
  template <typename T, typename = typename std::enable_if<!std::is_base_of<
                            TVMRetValue, typename std::decay<T>::type>::value>::type>
  TVMRetValue& operator=(T&& value);

  /*! \brief Transfer the value to a C caller: text as a string object; bytes are refused with an
   * exception. */
  void MoveToCHost(TVMValue* value, int* code);
  /*! \brief Take ownership of the result of a C ABI function. */
  static TVMRetValue MoveFromCHost(TVMValue value, int code) {
    TVMRetValue made;
    if (code == kTVMStr || code == kTVMBytes) {
      made.assign(value, code);
    } else {
      made.value_ = value;
      made.code_ = code;
    }
    return made;
  }

 private:
  /*! \brief Copy a value; text and bytes are copied, objects retained. */
  void assign(TVMValue value, int code) {
    if (code == kTVMStr) {
      set_text(value.v_str, std::char_traits<char>::length(value.v_str), code);
    } else if (code == kTVMBytes) {
      const TVMByteArray* bytes = static_cast<TVMByteArray*>(value.v_handle);
      set_text(bytes->data, bytes->size, code);
    } else {
      detail::check_call(TVMCbArgToReturn(&value, &code));
      clear();
      value_ = value;
      code_ = code;
    }
  }
  void set_text(const char* data, size_t size, int code) {
    std::unique_ptr<Text> text(new Text{std::string(data, size), {nullptr, 0}});
    text->bytes.data = text->text.data();
    text->bytes.size = size;
    clear();
    text_ = std::move(text);
    code_ = code;
    if (code == kTVMStr) {
      value_.v_str = text_->text.c_str();
    } else {
      value_.v_handle = &text_->bytes;
    }
  }
  void clear() {
    switch (code_) {
      case kTVMObjectHandle:
        TVMObjectFree(value_.v_handle);
        break;
      case kTVMModuleHandle:
        TVMModFree(value_.v_handle);
        break;
      case kTVMPackedFuncHandle:
        TVMFuncFree(value_.v_handle);
        break;
      case kTVMNDArrayHandle:
        TVMArrayFree(static_cast<TVMArrayHandle>(value_.v_handle));
        break;
      default:
        break;
    }
    code_ = kTVMNullptr;
    text_.reset();
  }
  void swap(TVMRetValue& other) noexcept {
    std::swap(value_, other.value_);
    std::swap(code_, other.code_);
    std::swap(text_, other.text_);
  }

  struct Text {
    std::string text;
    TVMByteArray bytes;
  };
  std::unique_ptr<Text> text_;
};

/*! \brief Writes arguments into arrays; pointers and texts must outlive the call. */
class TVMArgsSetter {
 public:
  TVMArgsSetter(TVMValue* values, int* type_codes) : values_(values), codes_(type_codes) {}

  template <typename T>
  typename std::enable_if<std::is_integral<T>::value || std::is_enum<T>::value>::type operator()(
      size_t i, T value) const {
    if (std::is_unsigned<T>::value &&
        static_cast<uint64_t>(value) > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      throw InternalError("an integer argument does not fit into int64");
    }
    values_[i].v_int64 = static_cast<int64_t>(value);
    codes_[i] = kTVMArgInt;
  }
  void operator()(size_t i, double value) const {
    values_[i].v_float64 = value;
    codes_[i] = kTVMArgFloat;
  }
  void operator()(size_t i, std::nullptr_t) const { set(i, nullptr, kTVMNullptr); }
  void operator()(size_t i, void* value) const { set(i, value, kTVMOpaqueHandle); }
  void operator()(size_t i, const DLTensor* value) const {
    set(i, const_cast<DLTensor*>(value), kTVMDLTensorHandle);
  }
  void operator()(size_t i, const char* value) const {
    values_[i].v_str = value;
    codes_[i] = kTVMStr;
  }
  void operator()(size_t i, const std::string& value) const { (*this)(i, value.c_str()); }
  void operator()(size_t i, const TVMByteArray& value) const {
    set(i, const_cast<TVMByteArray*>(&value), kTVMBytes);
  }
  void operator()(size_t i, DLDevice value) const {
    values_[i].v_device = value;
    codes_[i] = kDLDevice;
  }
  void operator()(size_t i, DLDataType value) const {
    values_[i].v_type = value;
    codes_[i] = kTVMDataType;
  }
  void operator()(size_t i, DataType value) const { (*this)(i, static_cast<DLDataType>(value)); }
  void operator()(size_t i, const NDArray& value) const {
    set(i, value.handle(), kTVMNDArrayHandle);
  }
  void operator()(size_t i, const Module& value) const { set(i, value.handle(), kTVMModuleHandle); }
  void operator()(size_t i, const PackedFunc& value) const {
    set(i, value.handle(), kTVMPackedFuncHandle);
  }
  template <typename Signature>
  void operator()(size_t i, const TypedPackedFunc<Signature>& value) const {
    (*this)(i, value.packed());
  }
  void operator()(size_t i, const ObjectRef& value) const { set(i, value.get(), kTVMObjectHandle); }
  void operator()(size_t i, const detail::Value& value) const {
    values_[i] = value.value();
    codes_[i] = value.type_code();
  }

 private:
  void set(size_t i, void* handle, int code) const {
    values_[i].v_handle = handle;
    codes_[i] = handle == nullptr ? static_cast<int>(kTVMNullptr) : code;
  }
  TVMValue* values_;
  int* codes_;
};

namespace detail {

inline void set_all(const TVMArgsSetter&, size_t) {}
template <typename First, typename... Rest>
void set_all(const TVMArgsSetter& set, size_t i, First&& first, Rest&&... rest) {
  set(i, std::forward<First>(first));
  set_all(set, i + 1, std::forward<Rest>(rest)...);
}

/*! \brief Run a body for a C caller: its exception becomes the caller's error. */
template <typename Body>
int guarded(const Body& body) {
  try {
    body();
    return 0;
  } catch (const std::exception& problem) {
    TVMAPISetLastError(problem.what());
  } catch (...) {
    TVMAPISetLastError("a C++ function threw something that is not a std::exception");
  }
  return -1;
}

inline int call_body(TVMValue* args, int* codes, int num_args, TVMRetValueHandle ret, void* body) {
  return guarded([&] {
    TVMRetValue result;
    (*static_cast<PackedFunc::FType*>(body))(TVMArgs(args, codes, num_args), &result);
    TVMValue value = result.value();
    int code = result.type_code();
    check_call(TVMCFuncSetReturn(ret, &value, &code, 1));
  });
}

inline void delete_body(void* body) { delete static_cast<PackedFunc::FType*>(body); }

/*! \brief Look up a global function of the runtime; throws if there is none. */
inline PackedFunc global(const char* name) {
  TVMFunctionHandle found = nullptr;
  check_call(TVMFuncGetGlobal(name, &found));
  if (found == nullptr) throw InternalError(std::string("there is no global function ") + name);
  return PackedFunc::FromOwned(found);
}

}  // namespace detail

template <typename T, typename>
TVMRetValue& TVMRetValue::operator=(T&& value) {
  TVMValue packed;
  int code = kTVMNullptr;
  TVMArgsSetter(&packed, &code)(0, std::forward<T>(value));
  assign(packed, code);
  return *this;
}

inline PackedFunc::PackedFunc(FType body, int) {
  TVMFunctionHandle made = nullptr;
  std::unique_ptr<FType> owned(new FType(std::move(body)));
  detail::check_call(
      TVMFuncCreateFromCFunc(detail::call_body, owned.get(), detail::delete_body, &made));
  (void)owned.release();
  function_ = detail::Owned<TVMFuncFree>(made);
}

inline void PackedFunc::CallPacked(TVMArgs args, TVMRetValue* result) const {
  if (!defined()) throw InternalError("an empty PackedFunc is called; compare it with nullptr");
  TVMValue value;
  int code = kTVMNullptr;
  value.v_handle = nullptr;
  detail::check_call(TVMFuncCall(handle(), const_cast<TVMValue*>(args.values),
                                 const_cast<int*>(args.type_codes), args.num_args, &value, &code));
  *result = TVMRetValue::MoveFromCHost(value, code);
}

template <typename... Args>
TVMRetValue PackedFunc::operator()(Args&&... args) const {
  TVMValue values[sizeof...(Args) + 1];
  int codes[sizeof...(Args) + 1];
  detail::set_all(TVMArgsSetter(values, codes), 0, std::forward<Args>(args)...);
  TVMRetValue result;
  CallPacked(TVMArgs(values, codes, static_cast<int>(sizeof...(Args))), &result);
  return result;
}

}  // namespace runtime
}  // namespace tvm

#endif /* TVM_RUNTIME_CXX_PACKED_FUNC_H_ */
