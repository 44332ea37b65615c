// A graph, its library and its parameters apart, and what the graph says of its inputs and outputs:
// usage: runner FOLDER VALUE...
#include <tvm/runtime/container/map.h>
#include <tvm/runtime/module.h>
#include <tvm/runtime/ndarray.h>
#include <tvm/runtime/packed_func.h>
#include <tvm/runtime/profiling.h>
#include <tvm/runtime/registry.h>

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

using tvm::runtime::GetRef;
using tvm::runtime::MapNode;
using tvm::runtime::Module;
using tvm::runtime::NDArray;
using tvm::runtime::ShapeTuple;
using tvm::runtime::ShapeTupleObj;
using tvm::runtime::StringObj;

using Info = tvm::Map<tvm::String, tvm::ObjectRef>;

static std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
}

static size_t bytes_of(const NDArray& array) {
  size_t count = (array->dtype.bits * array->dtype.lanes + 7) / 8;
  for (int i = 0; i < array->ndim; ++i) count *= static_cast<size_t>(array->shape[i]);
  return count;
}

// The name of the only input or output; what it is goes to standard error.
static std::string describe(const Info& info) {
  const Info shapes = GetRef<Info>(info["shape"].as<MapNode>());
  const Info dtypes = GetRef<Info>(info["dtype"].as<MapNode>());
  std::string name;
  ICHECK(info["shape"].as<StringObj>() == nullptr);
  for (const auto& pair : shapes) {
    const auto shape = GetRef<ShapeTuple>(pair.second.as<ShapeTupleObj>());
    name = pair.first;
    std::cerr << name << " " << GetRef<tvm::String>(dtypes[pair.first].as<StringObj>());
    for (const int64_t extent : shape) std::cerr << " " << extent;
    std::cerr << "\n";
  }
  return name;
}

int main(int argc, char** argv) {
  const std::string folder = argv[1];
  const DLDevice cpu{kDLCPU, 0};
  const Module library = Module::LoadFromFile((folder + "/mod.so").c_str(), "so");
  const std::string graph = read_file(folder + "/mod.json"),
                    params = read_file(folder + "/mod.params");
  TVMByteArray bytes;
  bytes.data = params.c_str();
  bytes.size = params.length();
  Module executor = (*tvm::runtime::Registry::Get("tvm.graph_executor.create"))(graph, library,
                                                                                cpu.device_type, 0);
  executor.GetFunction("load_params")(bytes);
  const Info inputs = executor.GetFunction("get_input_info")();
  const std::string input = describe(inputs);

  std::vector<float> values;
  for (int i = 2; i < argc; ++i) values.push_back(std::strtof(argv[i], nullptr));
  const NDArray old = executor.GetFunction("get_input")(input);
  NDArray x = NDArray::Empty(old.Shape(), old->dtype, old->device);
  x.CopyFromBytes(values.data(), bytes_of(x));
  executor.GetFunction("set_input_zero_copy")(input, x);
  tvm::runtime::Timer timer = tvm::runtime::Timer::Start(cpu);
  executor.GetFunction("run")();
  timer->Stop();
  const int64_t once = timer->SyncAndGetElapsedNanos();
  ICHECK(once > 0 && once < 1000000000) << once;
  timer->Start();
  for (int i = 0; i < 200; ++i) executor.GetFunction("run")();
  timer->Stop();
  ICHECK_GT(timer->SyncAndGetElapsedNanos(), once / 1000);

  const Info outputs = executor.GetFunction("get_output_info")();
  NDArray y = executor.GetFunction("get_output")(describe(outputs));
  std::vector<float> result(bytes_of(y) / sizeof(float));
  y.CopyToBytes(result.data(), bytes_of(y));
  for (const float value : result) std::cout << value << "\n";
  try {
    GetRef<ShapeTuple>(inputs["shape"].as<ShapeTupleObj>());
  } catch (const tvm::runtime::InternalError& error) {
    std::cerr << error.what() << "\n";
  }
  return 0;
}
