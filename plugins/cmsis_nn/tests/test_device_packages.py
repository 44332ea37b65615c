"""Test packages of networks with code of devices and custom operators: the package contains the
library that the code calls, or names it as a dependency."""

from __future__ import annotations

import ctypes
import importlib.util
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
from cmsis_nn_mock import PATH, compiled
from firmware_call import Network
from onnx import TensorProto, helper, numpy_helper

import tvmrt
from tvmrt.cli import main
from tvmrt.custom import GraphBuilder
from tvmrt.error import CompileError, UnsupportedError

pytest.importorskip("tvmrt.plugins.packages")
RNG = np.random.default_rng(11)
COPIES = ("arduino", "platformio", "esp-idf")
FEEDS = {"x": RNG.integers(-128, 128, (1, 3, 6, 6)).astype(np.int8)}


def convolution() -> onnx.ModelProto:
    """Return a model of one int8 convolution."""
    weights = {"w": RNG.integers(-127, 128, (4, 3, 3, 3)).astype(np.int8)}
    for name, scale in (("x", 0.05), ("w", 0.01), ("y", 0.2)):
        weights[f"{name}s"] = np.array(scale, np.float32)
        weights[f"{name}z"] = np.array(0, np.int8)
    node = helper.make_node
    nodes = [
        node("DequantizeLinear", ["x", "xs", "xz"], ["xf"]),
        node("DequantizeLinear", ["w", "ws", "wz"], ["wf"]),
        node("Conv", ["xf", "wf"], ["yf"]),
        node("QuantizeLinear", ["yf", "ys", "yz"], ["y"]),
    ]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "layer", [value("x", TensorProto.INT8, (1, 3, 6, 6))],
        [value("y", TensorProto.INT8, (1, 4, 4, 4))],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture(scope="module")
def model():
    return convolution()


@pytest.fixture(scope="module")
def layer(model):
    return compiled(model, interface_api="c")


def built(package, include, target) -> ctypes.CDLL:
    """Compile all C files of a package to one library and load it."""
    sources = sorted(map(str, (package / "src").rglob("*.c")))
    command = ["cc", "-std=gnu11", "-O1", "-shared", "-fPIC", "-Wl,-Bsymbolic", "-Wl,-z,defs"]
    command += [f"-I{package / include}", *sources, "-lm", "-o", str(target)]
    subprocess.run(command, check=True)
    return ctypes.CDLL(str(target))


def test_a_library_has_a_copy_of_the_kernels_and_runs(layer, model, tmp_path, monkeypatch):
    ort = pytest.importorskip("onnxruntime")
    monkeypatch.setenv("CMSIS_NN", str(PATH))
    layer.export_package(tmp_path / "package", "arduino")
    shared = built(tmp_path / "package", "src", tmp_path / "net.so")
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (right,) = session.run(None, FEEDS)
    (found,) = Network(layer, shared).run(FEEDS).values()
    assert np.ptp(right.astype(int)) > 20
    assert np.abs(found.astype(int) - right).max() <= 1
    shared.TVMGetLastError.restype = ctypes.c_char_p
    assert (
        shared.TVMGetLastError() == b""
    )  # a layer that is refused reports its error with this function


@pytest.mark.parametrize("kind", COPIES)
def test_formats_without_its_package_want_its_folder(layer, tmp_path, monkeypatch, kind):
    monkeypatch.delenv("CMSIS_NN", raising=False)
    with pytest.raises(CompileError, match="set the environment variable CMSIS_NN"):
        layer.export_package(tmp_path / "package", kind)
    assert not (tmp_path / "package").exists()
    vendor = tmp_path / "vendor"
    shutil.copytree(PATH, vendor)
    (vendor / "LICENSE").write_text("as is")
    monkeypatch.setenv("CMSIS_NN", str(vendor))
    layer.export_package(tmp_path / "package", kind)
    copied = {path.name for path in (tmp_path / "package").rglob("*")}
    assert {"arm_nnfunctions.h", "convolutions.c", "LICENSE"} <= copied
    if kind == "esp-idf":
        listed = (tmp_path / "package/CMakeLists.txt").read_text()
        assert '"src/cmsis_nn/Source/Kernels/convolutions.c"' in listed


def test_zephyr_selects_its_module(layer, tmp_path):
    kconfiglib = pytest.importorskip("kconfiglib")
    layer.export_package(tmp_path / "package", "zephyr")
    # as Zephyr's modules/cmsis-nn/Kconfig has them
    groups = "ACTIVATION BASICMATH CONVOLUTION FULLYCONNECTED NNSUPPORT POOLING SOFTMAX SVD".split()
    there = ["CMSIS_NN", *(f"CMSIS_NN_{group}" for group in groups)]
    texts = [f'config {name}\n\tbool "{name}"\n' for name in there]
    own = tmp_path / "package/zephyr/Kconfig"
    (tmp_path / "Kconfig").write_text("\n".join([*texts, f'source "{own}"\n']))
    found = kconfiglib.Kconfig(str(tmp_path / "Kconfig"))
    assert found.syms["CMSIS_NN"].str_value == "n"
    found.syms["NET_NETWORK"].set_value("y")
    values = {name: found.syms[name].str_value for name in there}
    assert {
        values.pop(f"CMSIS_NN_{name}") for name in ("ACTIVATION", "POOLING", "SOFTMAX", "SVD")
    } == {"n"}
    assert set(values.values()) == {"y"} and not found.warnings
    assert not list((tmp_path / "package").rglob("arm_*"))
    listed = (tmp_path / "package/zephyr/CMakeLists.txt").read_text()
    assert {"../src/tvmgen_net_device_cmsis_nn.c",
            "../src/runtime/src_backend/last_error.c"} <= set(listed.split())  # fmt: skip


def test_a_pack_requires_its_pack(layer, tmp_path):
    etree = pytest.importorskip("lxml.etree")
    layer.export_package(tmp_path / "package", "cmsis-pack")
    (pdsc,) = (tmp_path / "package").glob("*.pdsc")
    root = etree.parse(str(pdsc)).getroot()
    (needed,) = root.findall("requirements/packages/package")
    assert (needed.get("vendor"), needed.get("name")) == ("ARM", "CMSIS-NN")
    (condition,) = root.findall("conditions/condition")
    (wanted,) = condition.findall("require")
    assert dict(wanted.attrib) == {"Cclass": "CMSIS", "Cgroup": "NN Lib"}
    assert root.find("components/component").get("condition") == condition.get("id")
    for file in root.iter("file"):
        assert (tmp_path / "package" / file.get("name")).exists()


@pytest.mark.skipif(importlib.util.find_spec("ethosu") is None, reason="needs vela")
def test_ethos_u_is_named_and_gets_aligned_tensors(model, tmp_path):
    pytest.importorskip("ethosu.vela")
    library = tvmrt.compile(model, devices=["ethos-u"], target="cortex-m55", interface_api="c")
    assert any(row.device == "ethos-u" for row in library.summary.nodes)
    library.export_package(tmp_path / "zephyr", "zephyr")
    assert "\tselect ARM_ETHOS_U\n" in (tmp_path / "zephyr/zephyr/Kconfig").read_text()
    example_text = (tmp_path / "zephyr/samples/run/src/main.c").read_text()
    assert "static uint64_t input_x[15];" in example_text  # 108 bytes and what aligning takes
    assert "inputs.x = (void *)(((uintptr_t)input_x + 15) & ~(uintptr_t)15);" in example_text
    library.export_package(tmp_path / "pack", "cmsis-pack")
    (pdsc,) = (tmp_path / "pack").glob("*.pdsc")
    required = r'<require Cclass="Machine Learning" Cgroup="NPU Support" Csub="Ethos-U Driver"/>'
    assert re.search(required, pdsc.read_text())


def test_a_custom_operator_comes_with_its_body(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3] / "examples/custom_ops"))
    g = GraphBuilder("own")
    swish = importlib.import_module("hard_swish").hard_swish
    g.output("y", g.add(swish, g.input("x", (2, 3)), out_scale=0.1))
    library = tvmrt.compile(g, target="host", runtime="crt", executor="aot", interface_api="c")
    library.export_package(tmp_path / "package", "platformio")
    shared = built(tmp_path / "package", "include", tmp_path / "net.so")
    x = np.linspace(-4, 4, 6, dtype=np.float32).reshape(2, 3)
    (found,) = Network(library, shared).run({"x": x}).values()
    np.testing.assert_allclose(found, 0.1 * x * np.clip(x / 6 + 0.5, 0, 1), 1e-6, 1e-7)


def test_code_that_needs_the_full_runtime_is_refused(layer, tmp_path, monkeypatch):
    (name,) = layer.sources.flags
    text = layer.sources.files[name] + "\nvoid *more(void) { return TVMBackendAllocWorkspace(); }\n"
    monkeypatch.setitem(layer.sources.files, name, text)
    with pytest.raises(UnsupportedError, match=r"calls TVMBackendAllocWorkspace\(\) .* a \.tar"):
        layer.export_package(tmp_path / "package", "zephyr")


def test_command_reports_what_a_package_requires(model, tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("CMSIS_NN", raising=False)
    onnx.save(model, tmp_path / "net.onnx")
    asked = ["--board", "stm32f4", "--interface-api", "c", "--device", "cmsis-nn"]
    where = ["compile", str(tmp_path / "net.onnx"), "-o", str(tmp_path / "out")]
    assert main([*where, *asked, "--format", "arduino"]) != 0
    said = capsys.readouterr().err
    assert "CMSIS_NN to the folder with Include/arm_nnfunctions.h" in said
    assert main([*where, *asked, "--format", "zephyr"]) == 0
