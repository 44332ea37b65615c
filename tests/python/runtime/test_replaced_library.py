"""Libraries that are exported again to the path of a loaded one, as in notebook cells."""

from __future__ import annotations

import shutil
import subprocess

import numpy as np
import onnx
import pytest

import tvmrt
from tvmrt.contrib.graph_executor import GraphModule
from tvmrt.runtime.executor import AotModule

X = np.array([1, 4, 9], np.float32)
EXPECTED = {"Neg": -X, "Sqrt": np.sqrt(X), "Abs": X}


def network_of(operator: str) -> onnx.ModelProto:
    header = '<ir_version: 8, opset_import: ["" : 17]>'
    body = f"g (float[3] x) => (float[3] y) {{ y = {operator}(x) }}"
    return onnx.parser.parse_model(header + body)


@pytest.mark.parametrize(("kind", "wrapper"), [("graph", GraphModule), ("aot", AotModule)])
def test_new_network_is_loaded_and_the_old_one_stays(tmp_path, kind, wrapper):
    path = tmp_path / "net.so"
    networks = {}
    for operator in EXPECTED:
        tvmrt.compile(network_of(operator), executor=kind).export_library(path)
        networks[operator] = wrapper(tvmrt.runtime.load_module(path)["default"](tvmrt.cpu(0)))

    def answers():
        for network in networks.values():
            network.set_input("x", X)
            network.run()
        return {name: network.get_output(0).numpy() for name, network in networks.items()}

    for operator, value in answers().items():
        np.testing.assert_array_equal(value, EXPECTED[operator], err_msg=operator)
    del networks["Abs"], networks["Sqrt"]
    networks["Abs"] = wrapper(tvmrt.runtime.load_module(path)["default"](tvmrt.cpu(0)))
    for operator, value in answers().items():
        np.testing.assert_array_equal(value, EXPECTED[operator], err_msg=operator)


def test_replaced_library_finds_files_next_to_it(tmp_path):
    """Dependencies are found by $ORIGIN in its own folder, in every version."""
    compiler = shutil.which("cc") or pytest.skip("needs a C compiler")
    path = tmp_path / "net.so"
    modules = []
    for number in (1, 2):
        helper = tmp_path / f"libhelper{number}.so"
        source = tmp_path / "helper.c"
        source.write_text(f"int helper{number}(void) {{ return {number}; }}")
        subprocess.run([compiler, "-shared", "-fPIC", source, "-o", helper], check=True)
        source = tmp_path / "net.c"
        source.write_text(
            "#include <tvm/runtime/c_backend_api.h>\n"
            f"int helper{number}(void);\n"
            "int which(TVMValue *args, int *codes, int count, TVMValue *out, int *out_code,"
            " void *resource) {\n"
            f"  out->v_int64 = helper{number}();\n  *out_code = kTVMArgInt;\n  return 0;\n}}\n"
        )
        include = [f"-I{folder}" for folder in tvmrt.libinfo.find_include_path()]
        new = tmp_path / "new.so"
        command = [compiler, "-shared", "-fPIC", *include, source, "-o", new, helper]
        subprocess.run([*command, "-Wl,-rpath,$ORIGIN"], check=True)
        new.rename(path)
        modules.append(tvmrt.runtime.load_module(path))
    assert [module["which"]() for module in modules] == [1, 2]


def test_library_that_is_cut_off_is_an_error(graph_library, tmp_path):
    data = graph_library.read_bytes()
    for size in range(64, len(data), 512):
        path = tmp_path / f"cut{size}.so"
        path.write_bytes(data[:size])
        try:
            module = tvmrt.runtime.load_module(path)
        except (OSError, tvmrt.TVMError):
            continue
        # only data that is not read at run time is missing: symbols and debug strings
        network = GraphModule(module["default"](tvmrt.cpu(0)))
        network.run()
