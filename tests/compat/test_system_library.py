"""Test programs that contain their networks: constructors register everything before main."""

from __future__ import annotations

import json

import numpy as np
import pytest
from artefacts import network, stream, toolchain
from artefacts.releases import each_release

X = np.arange(1, 7, dtype=np.float32).reshape(2, 3)


def devc_source(blob: bytes, prefix: str) -> str:
    """Return the packer's output for a system library: the module tree and its constructor."""
    symbol = f"{prefix}__tvm_dev_mblob"
    return (
        toolchain.blob_source(blob, symbol)
        + "int TVMBackendRegisterSystemLibSymbol(const char* name, void* ptr);\n"
        + "__attribute__((constructor)) static void _GLOBAL__sub_I_devc(void) {\n"
        + f'  TVMBackendRegisterSystemLibSymbol("{symbol}", (void*){symbol});\n'
        + "}\n"
    )


def graph_blob(prefix: str = "") -> bytes:
    """Return the module tree of a network whose graph calls functions with a prefix."""
    graph = network.graph()
    for node in graph["nodes"]:
        if node["op"] == "tvm_op":
            node["attrs"]["func_name"] = prefix + node["attrs"]["func_name"]
    factory = stream.graph_factory(json.dumps(graph), {"w": network.W})
    entries = [stream.module("GraphExecutorFactory", factory), stream.LIBRARY]
    return stream.blob(entries, [0, 1, 1], [1])


@pytest.fixture
def link(tmp_path):
    """Link a program of the networks given as (prefix, factor, blob)."""

    def make(*networks, libraries=None, flags=()):
        objects = []
        for prefix, factor, blob in networks:
            defines = [f"PREFIX={prefix}", f"FACTOR={factor}"]
            code = tmp_path / f"{prefix}lib0.o"
            objects.append(toolchain.object_file(code, toolchain.source("llvm_system.c"), defines))
            if blob is not None:
                devc = tmp_path / f"{prefix}devc.c"
                devc.write_text(devc_source(blob, prefix))
                objects.append(toolchain.object_file(devc.with_suffix(".o"), devc))
        return toolchain.program(
            tmp_path / "program",
            toolchain.source("system_main.c"),
            *objects,
            libraries=libraries or toolchain.runtime_archive(),
            flags=["-std=c99", *flags],
        )

    return make


def expected(factor: int) -> str:
    values = " ".join(f"{value:g}" for value in ((X + network.W) * factor).ravel())
    return f"GraphExecutorFactory {values} threads"


@each_release(until=12)
def test_one_library_without_prefix(link, release):
    program = link(("", 2, graph_blob()))
    assert toolchain.execute([program]).splitlines() == [expected(2)], release.name


@each_release(since=13)
@pytest.mark.parametrize("in_graph", [True, False], ids=["prefix-in-graph", "bare-names-in-graph"])
def test_several_libraries_by_their_prefixes(link, release, in_graph):
    prefixes = {"net_a_": 2, "net_b_": 5}
    networks = [(p, f, graph_blob(p if in_graph else "")) for p, f in prefixes.items()]
    program = link(*networks)
    printed = toolchain.execute([program, *prefixes]).splitlines()
    assert printed == [expected(factor) for factor in prefixes.values()], release.name


def test_library_without_a_tree(link):
    program = link(("", 2, None))
    assert toolchain.execute([program]).splitlines() == ["library threads"]


def test_program_over_the_shared_runtime(link, tmp_path):
    """The program's constructors may run before or after those of the shared library."""
    from tvmrt import libinfo

    shared = libinfo.find_lib_path("libtvm_runtime.so")[0]
    program = link(
        ("", 3, graph_blob()),
        libraries=[shared, "-lm"],
        flags=[f"-Wl,-rpath,{shared.rpartition('/')[0]}"],
    )
    assert toolchain.execute([program]).splitlines() == [expected(3)]


def test_unknown_kind_is_named_by_the_program(link):
    entries = [
        stream.module("GraphExecutorFactory", stream.graph_factory("{}", {})),
        stream.LIBRARY,
        stream.module("cuda", b""),
    ]
    program = link(("", 2, stream.blob(entries, [0, 1, 2, 2], [1, 2])))
    with pytest.raises(pytest.fail.Exception, match=r"load: .*kind 'cuda'"):
        toolchain.execute([program])


def crt_source(wide: bool) -> str:
    """Return the function table of firmware code: the count takes one byte or two."""
    count = "\\003\\000" if wide else "\\003"
    names = ["tvmgen_default_fused_add", "tvmgen_default_fused_multiply", "num_threads"]
    text = "\\000".join(names) + "\\000"
    parameters = "TVMValue* args, int* type_code, int num_args, TVMValue* out_value, int* out_type"
    if wide:
        parameters += ", void* resource_handle"
    functions = ""
    for name, expression in zip(names, ["A(0)[i] + A(1)[i]", "A(0)[i] * 4", ""]):
        body = (
            f"  for (int i = 0; i < 6; ++i) A(num_args - 1)[i] = {expression};\n"
            if expression
            else "  out_value->v_int64 = 1;\n  *out_type = kTVMArgInt;\n"
        )
        functions += (
            f"TVM_DLL int32_t {name}({parameters});\n"
            f"TVM_DLL int32_t {name}({parameters}) {{\n{body}  return 0;\n}}\n"
        )
    casts = "".join(f"    (TVMBackendPackedCFunc){name},\n" for name in names)
    return (
        "#include <tvm/runtime/crt/module.h>\n"
        "#define A(k) ((float*)((DLTensor*)args[k].v_handle)->data)\n"
        f"{functions}"
        f"static TVMBackendPackedCFunc _tvm_func_array[] = {{\n{casts}}};\n"
        "static const TVMFuncRegistry _tvm_func_registry = {\n"
        f'    "{count}{text}",\n    _tvm_func_array,\n}};\n'
        "static const TVMModule _tvm_system_lib = {\n    &_tvm_func_registry,\n};\n"
        "const TVMModule* TVMSystemLibEntryPoint(void) {\n    return &_tvm_system_lib;\n}\n"
    )


@pytest.mark.parametrize("wide", [False, True], ids=["0.8", "0.9-0.18"])
def test_table_of_firmware_code_is_a_system_library_too(tmp_path, wide):
    source = tmp_path / "default_lib0.c"
    source.write_text(crt_source(wide))
    program = toolchain.program(
        tmp_path / "program",
        toolchain.source("system_main.c"),
        source,
        libraries=toolchain.runtime_archive(),
    )
    assert toolchain.execute([program]).splitlines() == ["library threads"]
