// A program over TVM's names: argv is a library of add_one, ..., a network, and the network's values.
// It ends with 0 and "done" if everything was as said; a check that fails throws.
#include <dlpack/dlpack.h>
#include <tvm/runtime/module.h>
#include <tvm/runtime/packed_func.h>
#include <tvm/runtime/registry.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

using namespace tvm::runtime;

namespace {

const DLDevice kCpu{kDLCPU, 0};

std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const std::exception& problem) {
    return problem.what();
  }
  return "";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

void values_keep_their_kinds() {
  PackedFunc echo([](TVMArgs args, TVMRetValue* result) { *result = args[0]; });
  ICHECK_EQ(static_cast<int>(echo(-7)), -7);
  ICHECK_EQ(echo(2.5).As<double>(), 2.5);
  ICHECK(echo(true).As<bool>());
  ICHECK_EQ(echo(nullptr).type_code(), static_cast<int>(kTVMNullptr));
  ICHECK_EQ(echo(std::string("text")).As<std::string>(), "text");
  std::string text = echo("text of C");
  ICHECK_EQ(text, "text of C");
  ICHECK_EQ(echo(kCpu).As<DLDevice>().device_type, kDLCPU);
  ICHECK_EQ(DLDataType2String(echo(DataType::Float(16, 4))), "float16x4");
  ICHECK(String2DLDataType("uint8").bits == 8 && DataType(String2DLDataType("bool")).is_bool());
  PackedFunc again = echo(echo);
  ICHECK_EQ(static_cast<int64_t>(again(int64_t(1) << 40)), int64_t(1) << 40);
  ICHECK(contains(error_of([&] { echo("one").As<int>(); }), "expected int but got str"));
  ICHECK(contains(error_of([&] { echo(int64_t(1) << 40).As<int>(); }), "does not fit 32 bits"));
  ICHECK(contains(error_of([&] { echo(); }), "not enough argument passed"));
  ICHECK(contains(error_of([] { PackedFunc()(1); }), "empty PackedFunc"));
}

void tensors_are_shared_and_copied() {
  NDArray x = NDArray::Empty({2, 3}, DLDataType{kDLFloat, 32, 1}, kCpu);
  const float values[6] = {1, 2, 3, 4, 5, 6};
  x.CopyFromBytes(values, sizeof(values));
  NDArray same = x, copy = x.CopyTo(kCpu);
  ICHECK_EQ(same->data, x->data);
  ICHECK_NE(copy->data, x->data);
  ICHECK(copy.Shape() == ShapeTuple({2, 3}) && copy.DataType() == DataType::Float(32));
  float found[6] = {0};
  copy.CopyToBytes(found, sizeof(found));
  ICHECK_EQ(found[5], 6);
  NDArray back = NDArray::FromDLPack(x.ToDLPack());
  ICHECK_EQ(back->data, x->data);
  NDArray tail = x.CreateView({3}, x.DataType(), 3 * sizeof(float));
  tail.CopyToBytes(found, 3 * sizeof(float));
  ICHECK_EQ(found[0], 4);
  ICHECK(contains(error_of([&] { x.CreateView({7}, x.DataType()); }), "only contains 24 bytes"));
  ICHECK(error_of([&] { x.CopyFromBytes(values, 5); }) != "");
  ICHECK(error_of([] { NDArray().Shape(); }) != "");
}

void typed_functions_check_their_arguments() {
  TypedPackedFunc<int(int, int)> add([](int a, int b) { return a + b; }, "add");
  ICHECK_EQ(add(3, 4), 7);
  TypedPackedFunc<int(int, int)> through(add.packed());
  ICHECK_EQ(through(5, 6), 11);
  ICHECK(contains(error_of([&] { add.packed()(1); }),
                  "Function add expects 2 arguments, but 1 were provided."));
  TypedPackedFunc<void()> fails([] { throw std::runtime_error("what went wrong"); });
  ICHECK(contains(error_of([&] { fails(); }), "what went wrong"));
}

void library_of_functions(const char* path) {
  Module library = Module::LoadFromFile(path);
  ICHECK_EQ(static_cast<int>(library.GetFunction("add_one")(41)), 42);
  ICHECK_EQ(library.GetFunction("sum_of")(1, 2.5, true).As<double>(), 4.5);
  ICHECK(library.GetFunction("not_there") == nullptr);
  ICHECK(library->type_key() != "");
  TypedPackedFunc<int(int)> doubled([](int x) { return 2 * x; });
  ICHECK_EQ(static_cast<int>(library.GetFunction("call_twice")(doubled, 5)), 20);
  ICHECK(contains(error_of([&] { library.GetFunction("add_one")("text"); }), "expected int"));
  ICHECK(contains(error_of([&] { library.GetFunction("add_one")(); }), "add_one expects 1"));
  NDArray matrix = NDArray::Empty({2, 2}, DLDataType{kDLFloat, 32, 1}, kCpu);
  ICHECK(contains(error_of([&] { library.GetFunction("scale")(matrix, 2.0); }),
                  "Check failed: tensor->ndim == 1 (2 vs. 1) : scale takes a vector"));
  const PackedFunc* greet = Registry::Get("test.cxx.greet");
  ICHECK(greet != nullptr);
  ICHECK_EQ((*greet)("you", true).As<std::string>(), "hello you!");
  ICHECK(Registry::Get("test.cxx.none") == nullptr);
  Registry::Register("test.cxx.mine").set_body_typed([](double x) { return x / 2; });
  ICHECK_EQ((*Registry::Get("test.cxx.mine"))(3).As<double>(), 1.5);
  ICHECK(error_of([] { Registry::Register("test.cxx.mine").set_body_typed([] {}); }) != "");
  ICHECK(Registry::Remove("test.cxx.mine") && Registry::Get("test.cxx.mine") == nullptr);
  bool caught = false;
  try {
    Module::LoadFromFile("/no/such/library.so");
  } catch (const dmlc::Error& problem) {
    caught = contains(problem.what(), "/no/such/library.so");
  }
  ICHECK(caught);
}

void network(const char* path, char** values, int count) {
  Module executor = Module::LoadFromFile(path).GetFunction("default")(kCpu);
  NDArray x = NDArray::Empty({1, count}, DLDataType{kDLFloat, 32, 1}, kCpu);
  for (int i = 0; i < count; ++i) static_cast<float*>(x->data)[i] = std::strtof(values[i], nullptr);
  executor.GetFunction("set_input")("x", x);
  executor.GetFunction("run")();
  NDArray y = executor.GetFunction("get_output")(0);
  std::vector<float> result(static_cast<size_t>(y.Shape()[1]));
  y.CopyToBytes(result.data(), result.size() * sizeof(float));
  for (float value : result) std::printf("%.6f\n", static_cast<double>(value));
  DLTensor view = *x.operator->();
  executor.GetFunction("set_input")(0, &view);
  Map<String, ObjectRef> info = executor.GetFunction("get_input_info")();
  ICHECK_EQ(info.size(), 2u);
  ICHECK(info.count("shape") == 1 && info.count("dtype") == 1);
  auto shapes = Downcast<Map<String, ObjectRef>>(info["shape"]);
  ICHECK(Downcast<ShapeTuple>(shapes["x"]) == ShapeTuple({1, count}));
  ICHECK(contains(error_of([&] { executor.GetFunction("set_input")("nosuch", x); }), "nosuch"));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    values_keep_their_kinds();
    tensors_are_shared_and_copied();
    typed_functions_check_their_arguments();
    library_of_functions(argv[1]);
    network(argv[2], argv + 3, argc - 3);
  } catch (const std::exception& problem) {
    std::fprintf(stderr, "%s\n", problem.what());
    return 1;
  }
  LOG(INFO) << "done";
  return 0;
}
