"""C sources that use names which ``tvm/runtime/c_runtime_api.h`` had before its headers split."""
