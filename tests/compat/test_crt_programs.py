"""Test that C programs written for TVM's C runtime build with these headers and run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from artefacts import firmware, network, stream, toolchain
from artefacts.releases import RELEASES
from onnx import helper
from onnx_graph import model
from test_firmware_graphs import NUMBERS, firmware_archive

import tvmrt
from tvmrt import libinfo

STRICT = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter"]

# As TVM 0.8 to 0.18 declare them: conflicting declarations here are compile errors.
PROTOTYPES = """
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/crt/aot_executor.h>
#include <tvm/runtime/crt/crt.h>
#include <tvm/runtime/crt/func_registry.h>
#include <tvm/runtime/crt/graph_executor.h>
#include <tvm/runtime/crt/module.h>
#include <tvm/runtime/crt/packed_func.h>
#include <tvm/runtime/crt/page_allocator.h>
#include <tvm/runtime/crt/platform.h>
#include <tvm/runtime/crt/stack_allocator.h>
tvm_crt_error_t TVMInitializeRuntime(void);
int TVMModCreateFromCModule(const TVMModule* mod, TVMModuleHandle* out);
const TVMModule* TVMSystemLibEntryPoint(void);
DLDataType String2DLDataType(const char* s);
TVMArgs TVMArgs_Create(TVMValue* values, uint32_t* tcodes, uint32_t values_count);
int TVMPackedFunc_InitGlobalFunc(TVMPackedFunc* pf, const char* name, const TVMArgs* args);
int TVMPackedFunc_InitModuleFunc(TVMPackedFunc* pf, TVMModuleHandle module, const char* name,
                                 const TVMArgs* args);
int TVMPackedFunc_Call(TVMPackedFunc* pf);
void TVMPackedFunc_SetArgs(TVMPackedFunc* pf, const TVMArgs* args);
uint16_t TVMFuncRegistry_GetNumFuncs(const TVMFuncRegistry* reg);
int TVMFuncRegistry_SetNumFuncs(const TVMFuncRegistry* reg, const uint16_t num_funcs);
const char* TVMFuncRegistry_Get0thFunctionName(const TVMFuncRegistry* reg);
tvm_crt_error_t TVMFuncRegistry_Lookup(const TVMFuncRegistry* reg, const char* name,
                                       tvm_function_index_t* function_index);
tvm_crt_error_t TVMFuncRegistry_GetByIndex(const TVMFuncRegistry* reg, tvm_function_index_t index,
                                           TVMBackendPackedCFunc* out_func);
tvm_crt_error_t TVMMutableFuncRegistry_Create(TVMMutableFuncRegistry* reg, uint8_t* buffer,
                                              size_t buffer_size_bytes);
tvm_crt_error_t TVMMutableFuncRegistry_Set(TVMMutableFuncRegistry* reg, const char* name,
                                           TVMBackendPackedCFunc func, int override);
int TVMGraphExecutor_Create(const char* sym_json, TVMModuleHandle module_handle,
                            const DLDevice* devices, TVMGraphExecutor** executor);
int TVMGraphExecutor_GetInputIndex(TVMGraphExecutor* executor, const char* name);
int TVMGraphExecutor_GetNumInputs();
int TVMGraphExecutor_GetNumOutputs();
int TVMGraphExecutor_GetOutput(TVMGraphExecutor* executor, const int32_t index, DLTensor* out);
int TVMGraphExecutor_LoadParams(TVMGraphExecutor* executor, const char* blob, const uint32_t size);
int TVMGraphExecutor_Release(TVMGraphExecutor** executor);
int TVMAotExecutor_GetNumInputs(TVMAotExecutor* executor);
int TVMAotExecutor_GetNumOutputs(TVMAotExecutor* executor);
int TVMAotExecutor_GetInputIndex(TVMAotExecutor* executor, const char* name);
int TVMAotExecutor_GetInputName(TVMAotExecutor* executor, int index, RELEASE char** name);
tvm_crt_error_t PageMemoryManagerCreate(MemoryManagerInterface** manager, uint8_t* memory_pool,
                                        size_t memory_pool_size_bytes, size_t page_size_bytes_log2);
tvm_crt_error_t StackMemoryManager_Init(tvm_workspace_t* ws, uint8_t* pool, size_t num_bytes);
tvm_crt_error_t StackMemoryManager_Allocate(tvm_workspace_t* ws, int32_t nbytes, void** out);
tvm_crt_error_t StackMemoryManager_Free(tvm_workspace_t* ws, void* ptr);
tvm_crt_error_t TVMPlatformMemoryAllocate(size_t num_bytes, DLDevice dev, void** out_ptr);
tvm_crt_error_t TVMPlatformMemoryFree(void* ptr, DLDevice dev);
size_t TVMPlatformFormatMessage(char* out, size_t out_size, const char* fmt, va_list args);
tvm_crt_error_t TVMPlatformTimerStart();
tvm_crt_error_t TVMPlatformTimerStop(double* elapsed_time_seconds);
tvm_crt_error_t TVMPlatformGenerateRandom(uint8_t* buffer, size_t num_bytes);
size_t entry(void) { return kTvmAverageFuncEntrySizeBytes + kTvmAverageFunctionNameStrlenBytes; }
int member(TVMPackedFunc* pf, const TVMArgs* args) {
  void (*set)(struct TVMPackedFunc*, const struct TVMArgs*) = pf->SetArgs;
  int (*call)(struct TVMPackedFunc*) = pf->Call;
  set(pf, args);
  return call(pf);
}
int name_of(TVMAotExecutor* executor, RELEASE char** name) {
  return TVMAotExecutor_GetInputName(executor, 0, name);
}
"""

CALLS_IN_CXX = """
#include <tvm/runtime/crt/aot_executor.h>
int old(TVMAotExecutor* e, char** name) { return TVMAotExecutor_GetInputName(e, 0, name); }
int later(TVMAotExecutor* e, const char** name) { return TVMAotExecutor_GetInputName(e, 0, name); }
"""


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("release", ["", "const"], ids=["0.12", "0.13-0.18"])
def test_prototypes_equal_the_releases(compiler, release, tmp_path):
    source = tmp_path / "prototypes.c"
    source.write_text(PROTOTYPES)
    command = [toolchain.find_compiler(compiler), *STRICT, "-fsyntax-only", f"-DRELEASE={release}"]
    toolchain.execute([*command, *toolchain.includes(), source])
    source = tmp_path / "calls.cc"
    source.write_text(CALLS_IN_CXX)
    command = [toolchain.find_compiler(compiler), "-std=c++11", "-Werror", "-fsyntax-only"]
    toolchain.execute([*command, *toolchain.includes(), source])


def test_entry_size_equals_the_releases(tmp_path):
    source = tmp_path / "sizes.c"
    source.write_text(
        "#include <stdio.h>\n#include <tvm/runtime/crt/func_registry.h>\n"
        'int main(void) { char names[] = "__a\\0b"; TVMFuncRegistry table = {names, 0};\n'
        "  int rc = TVMFuncRegistry_SetNumFuncs(&table, 2);\n"
        '  printf("%d %d %d", rc, TVMFuncRegistry_GetNumFuncs(&table), '
        "(int)kTvmAverageFuncEntrySizeBytes - (int)sizeof(void*)); return 0; }\n"
    )
    program = toolchain.program(tmp_path / "sizes", source, libraries=toolchain.backend_archive())
    assert toolchain.execute([program]) == "0 2 11"


@pytest.mark.parametrize("release", [RELEASES[0], RELEASES[-1]], ids=lambda release: release.name)
@pytest.mark.parametrize("kind", ["linked", "opened", "opened over libtvm_runtime"])
def test_bundle_of_network_and_runtime(release, kind, tmp_path):
    """Bundle network and runtime as TVM's examples do: in the program, or in a library that it
    opens."""
    (tmp_path / "table.c").write_text(firmware.table(release, firmware.Build("c", unpacked=True)))
    parts = [toolchain.source("crt_bundle.c"), tmp_path / "table.c"]
    # operators in the style of the release
    loose = ["-std=gnu11", "-Wno-unused-parameter"]
    operators = toolchain.source("c_graph.c")
    board = "runtime" not in kind
    libraries: list[object] = [*firmware_archive()]
    if not board:
        shared = Path(libinfo.find_lib_path("libtvm_runtime.so")[0])
        libraries = [shared, f"-Wl,-rpath,{shared.parent}"]
    defines = [f"MINOR={release.first}", *(["BOARD"] if board else [])]
    (tmp_path / "graph.json").write_text(network.graph_text(release))
    (tmp_path / "net.params").write_bytes(stream.params({"w": network.W}))
    files = [tmp_path / "graph.json", tmp_path / "net.params"]
    main = toolchain.source("crt_bundle_main.c")
    if kind == "linked":
        program = toolchain.program(
            tmp_path / "demo", main, *parts, operators,
            libraries=libraries, defines=defines, flags=loose,
        )  # fmt: skip
    else:
        program = toolchain.program(tmp_path / "demo", main, defines=["OPENED"],
                                    libraries=["-ldl"], flags=STRICT)  # fmt: skip
        files.append(tmp_path / "bundle.so")
        toolchain.program(
            files[-1], *parts, operators, libraries=libraries, defines=defines,
            flags=[*loose, "-shared", "-fPIC", "-Wl,-z,defs"],
        )  # fmt: skip
    assert toolchain.execute([program, *files]).strip() == f"{NUMBERS} refused"


@pytest.mark.parametrize("unpacked", [False, True], ids=["packed", "unpacked"])
def test_network_compiled_ahead_takes_the_pools_of_its_metadata(unpacked, tmp_path):
    """The executor of TVM's C runtime passes pools after inputs and outputs."""
    nodes = [
        helper.make_node("Add", ["x", "w"], ["y"]),
        helper.make_node("Softmax", ["y"], ["s"]),
        helper.make_node("Mul", ["s", "two"], ["z"]),
    ]
    constants = {"w": network.W, "two": np.full((2, 3), 2, np.float32)}
    graph = model(nodes, {"x": network.X}, ["z"], constants)
    tvmrt.compile(graph, target="cortex-m4", interface_api="packed", unpacked_api=unpacked).export(
        tmp_path / "net"
    )
    program = toolchain.program(
        tmp_path / "program", toolchain.source("aot_caller.c"),
        *sorted((tmp_path / "net").glob("*.c")),
        libraries=[*toolchain.backend_archive(), "-lm"], flags=["-std=c11", "-w"],
    )  # fmt: skip
    *numbers, _, count, _ = toolchain.execute([program]).split()
    shifted = np.exp(network.X + network.W - (network.X + network.W).max(1, keepdims=True))
    expected = 2 * shifted / shifted.sum(1, keepdims=True)
    np.testing.assert_allclose(np.array(numbers, float), expected.ravel(), rtol=1e-5, atol=1e-30)
    assert int(count) > 2
