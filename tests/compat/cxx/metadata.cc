// Prints the metadata of a library: argv is its path and the name of a network, which may be empty.
#include <tvm/runtime/module.h>

#include <iostream>

using namespace tvm::runtime;

static void print(const char* kind, const std::vector<ParameterInfo>& parameters) {
  for (const ParameterInfo& each : parameters) {
    std::cout << kind << ' ' << each.relay_name_hint() << ' ' << each.tir_name_hint() << ' '
              << DLDataType2String(each.dtype()) << ' ' << each.device().device_type;
    for (int64_t extent : each.shape()) std::cout << ' ' << extent;
    std::cout << '\n';
  }
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  try {
    const ModelMetadata metadata =
        ModelMetadata::FromModule(Module::LoadFromFile(argv[1]), argv[2]);
    std::cout << metadata.module_name() << ' ' << metadata.version() << '\n';
    for (const FunctionInfo& each : metadata.functions()) {
      std::cout << each.function_name() << ' ' << each.workspace_size_bytes() << ' '
                << each.io_size_bytes() << ' ' << each.constant_size_bytes() << '\n';
      print("in", each.inputs());
      print("out", each.outputs());
    }
  } catch (const std::exception& problem) {
    std::cerr << problem.what();
    return 1;
  }
  return 0;
}
