/*!
 * \file tvm/runtime/typed_packed_func.h
 * \brief C++: packed functions with types, and functions that a library exports. Included by
 *        packed_func.h.
 */
#ifndef TVM_RUNTIME_TYPED_PACKED_FUNC_H_
#define TVM_RUNTIME_TYPED_PACKED_FUNC_H_

#include <tvm/runtime/convert.h>

namespace tvm {
namespace runtime {

namespace detail {

template <size_t... I>
struct Indices {};
template <size_t N, size_t... I>
struct MakeIndices : MakeIndices<N - 1, N - 1, I...> {};
template <size_t... I>
struct MakeIndices<0, I...> {
  using type = Indices<I...>;
};

/*! \brief The signature of a callable. */
template <typename F>
struct Signature : Signature<decltype(&F::operator())> {};
template <typename C, typename R, typename... Args>
struct Signature<R (C::*)(Args...) const> {
  using type = R(Args...);
};
template <typename C, typename R, typename... Args>
struct Signature<R (C::*)(Args...)> {
  using type = R(Args...);
};
template <typename R, typename... Args>
struct Signature<R (*)(Args...)> {
  using type = R(Args...);
};

/*! \brief Calls a callable with its own argument types. */
template <typename Signature>
struct Unpacked;
template <typename R, typename... Args>
struct Unpacked<R(Args...)> {
  template <typename F>
  static void call(const F& body, const std::string& name, TVMArgs args, TVMRetValue* result) {
    if (args.size() != static_cast<int>(sizeof...(Args))) {
      std::ostringstream text;
      text << "Function " << (name.empty() ? "<anonymous>" : name) << " expects " << sizeof...(Args)
           << " arguments, but " << args.size() << " were provided.";
      throw InternalError(text.str());
    }
    run(body, args, result, typename MakeIndices<sizeof...(Args)>::type(), std::is_void<R>());
  }

 private:
  template <typename F, size_t... I>
  static void run(const F& body, TVMArgs args, TVMRetValue*, Indices<I...>, std::true_type) {
    (void)args;
    body(args[static_cast<int>(I)].template As<typename std::decay<Args>::type>()...);
  }
  template <typename F, size_t... I>
  static void run(const F& body, TVMArgs args, TVMRetValue* result, Indices<I...>,
                  std::false_type) {
    (void)args;
    *result = body(args[static_cast<int>(I)].template As<typename std::decay<Args>::type>()...);
  }
};

template <typename R>
struct Result {
  static R of(const TVMRetValue& value) { return value.As<R>(); }
};
template <>
struct Result<void> {
  static void of(const TVMRetValue&) {}
};

}  // namespace detail

/*! \brief A packed function with types for its arguments and its result. */
template <typename R, typename... Args>
class TypedPackedFunc<R(Args...)> {
 public:
  TypedPackedFunc() = default;
  TypedPackedFunc(std::nullptr_t) {}                                  // NOLINT: implicit
  TypedPackedFunc(PackedFunc packed) : packed_(std::move(packed)) {}  // NOLINT: implicit
  TypedPackedFunc(const detail::Value& value) : packed_(value.As<PackedFunc>()) {}  // NOLINT
  /*! \brief Create a function from a callable; `name` is used in error texts. */
  template <typename F, typename = typename std::enable_if<
                            std::is_convertible<F, std::function<R(Args...)>>::value>::type>
  TypedPackedFunc(F body, std::string name = "")  // NOLINT: implicit
      : packed_([body, name](TVMArgs args, TVMRetValue* result) {
          detail::Unpacked<R(Args...)>::call(body, name, args, result);
        }) {}

  R operator()(Args... args) const {
    return detail::Result<R>::of(packed_(std::forward<Args>(args)...));
  }
  const PackedFunc& packed() const { return packed_; }
  operator PackedFunc() const { return packed_; }  // NOLINT: implicit
  bool operator==(std::nullptr_t) const { return packed_ == nullptr; }
  bool operator!=(std::nullptr_t) const { return packed_ != nullptr; }

 private:
  PackedFunc packed_;
};

namespace detail {

/*! \brief Body of a function that a library exports under its C name. */
template <typename Body>
int exported(const Body& body, TVMValue* args, int* codes, int num_args, TVMValue* out_value,
             int* out_code) {
  return guarded([&] {
    TVMRetValue result;
    body(TVMArgs(args, codes, num_args), &result);
    result.MoveToCHost(out_value, out_code);
  });
}

}  // namespace detail
}  // namespace runtime
}  // namespace tvm

#define TVMRT_EXPORT_PACKED(name, body)                                                           \
  extern "C" TVM_DLL int name(TVMValue* args, int* type_codes, int num_args, TVMValue* out_value, \
                              int* out_code, void* resource);                                     \
  extern "C" int name(TVMValue* args, int* type_codes, int num_args, TVMValue* out_value,         \
                      int* out_code, void* resource) {                                            \
    (void)resource;                                                                               \
    return ::tvm::runtime::detail::exported(body, args, type_codes, num_args, out_value,          \
                                            out_code);                                            \
  }

/*! \brief Export `void f(TVMArgs, TVMRetValue*)` from a library under a C name. */
#define TVM_DLL_EXPORT_PACKED_FUNC(ExportName, Function) TVMRT_EXPORT_PACKED(ExportName, Function)

/*! \brief Export a function or lambda with typed arguments from a library under a C name. */
#define TVM_DLL_EXPORT_TYPED_FUNC(ExportName, Function)                                    \
  TVMRT_EXPORT_PACKED(ExportName, [](::tvm::runtime::TVMArgs packed_args,                  \
                                     ::tvm::runtime::TVMRetValue* packed_result) {         \
    auto packed_function = Function;                                                       \
    ::tvm::runtime::detail::Unpacked<typename ::tvm::runtime::detail::Signature<           \
        decltype(packed_function)>::type>::call(packed_function, #ExportName, packed_args, \
                                                packed_result);                            \
  })

#endif /* TVM_RUNTIME_TYPED_PACKED_FUNC_H_ */
