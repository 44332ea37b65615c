"""C sources with names that ``tvm/runtime/c_runtime_api.h`` had before its headers were split."""
