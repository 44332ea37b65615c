// A library whose functions are C++, exported by the macros: what load_module() of Python sees too.
#include <tvm/runtime/packed_func.h>
#include <tvm/runtime/registry.h>

#include <string>

using namespace tvm::runtime;

namespace {

int AddOne(int x) { return x + 1; }

void SumOf(TVMArgs args, TVMRetValue* result) {
  double sum = 0;
  for (int i = 0; i < args.size(); ++i) sum += args[i].As<double>();
  *result = sum;
}

void Scale(DLTensor* tensor, double factor) {
  ICHECK_EQ(tensor->ndim, 1) << "scale takes a vector";
  float* data = static_cast<float*>(tensor->data);
  for (int64_t i = 0; i < tensor->shape[0]; ++i) data[i] *= static_cast<float>(factor);
}

}  // namespace

TVM_DLL_EXPORT_TYPED_FUNC(add_one, AddOne);
TVM_DLL_EXPORT_PACKED_FUNC(sum_of, SumOf);
TVM_DLL_EXPORT_TYPED_FUNC(scale, Scale);
TVM_DLL_EXPORT_TYPED_FUNC(spell, [](int x) { return "number " + std::to_string(x); });
TVM_DLL_EXPORT_TYPED_FUNC(call_twice, [](PackedFunc f, int x) -> int { return f(f(x)); });

TVM_REGISTER_GLOBAL("test.cxx.greet").set_body_typed([](std::string name, bool loud) {
  return "hello " + name + (loud ? "!" : "");
});
TVM_REGISTER_GLOBAL("test.cxx.whole").set_body([](TVMArgs args, TVMRetValue* result) {
  NDArray array = args[0];
  *result = array.CopyTo(DLDevice{kDLCPU, 0});
});
