"""Calls of the runtime on systems whose linker needs to know which file defines a function.

The library has a variable for each function, which the loader sets, and a function of the same
name that calls through it.
"""

from __future__ import annotations

# result, name, types and names of parameters, as in c_backend_api.h and c_packed_func.h
FUNCTIONS = (
    ("void ", "TVMAPISetLastError", (("const char *", "msg"),)),
    ("int ", "TVMBackendGetFuncFromEnv",
     (("void *", "mod_node"), ("const char *", "func_name"), ("TVMFunctionHandle *", "out"))),
    ("void *", "TVMBackendAllocWorkspace",
     (("int ", "device_type"), ("int ", "device_id"), ("uint64_t ", "nbytes"),
      ("int ", "dtype_code_hint"), ("int ", "dtype_bits_hint"))),
    ("int ", "TVMBackendFreeWorkspace",
     (("int ", "device_type"), ("int ", "device_id"), ("void *", "ptr"))),
    ("int ", "TVMBackendParallelLaunch",
     (("FTVMParallelLambda ", "flambda"), ("void *", "cdata"), ("int ", "num_task"))),
    ("int ", "TVMBackendParallelBarrier",
     (("int ", "task_id"), ("TVMParallelGroupEnv *", "penv"))),
    ("int ", "TVMFuncCall",
     (("TVMFunctionHandle ", "func"), ("TVMValue *", "arg_values"), ("int *", "type_codes"),
      ("int ", "num_args"), ("TVMValue *", "ret_val"), ("int *", "ret_type_code"))),
)  # fmt: skip


def source() -> str:
    """Return the text of the C file."""
    lines = [
        "/* Runtime functions that this library calls, as pointers that the loader sets. */",
        "#include <tvm/runtime/c_backend_api.h>",
        "#include <tvm/runtime/c_packed_func.h>",
        "",
    ]
    for result, name, parameters in FUNCTIONS:
        declared = ", ".join(kind + each for kind, each in parameters)
        call = f"__{name}({', '.join(each for _, each in parameters)});"
        lines += [
            f"TVM_DLL extern {result}(*__{name})({declared});",
            f"{result}(*__{name})({declared}) = 0;",
            f"TVM_DLL {result}{name}({declared});",
            f"{result}{name}({declared}) {{",
            f"  {call}" if result == "void " else f"  return {call}",
            "}",
            "",
        ]
    return "\n".join(lines)
