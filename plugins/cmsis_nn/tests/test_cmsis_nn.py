"""Test the device cmsis-nn: layers become calls of CMSIS-NN functions, which a mock implements."""

from __future__ import annotations

import ctypes
import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
from archives import unpack
from boards import BOARDS, run_network
from cmsis_nn_mock import PATH, compiled, loaded, make
from onnx import TensorProto, helper, numpy_helper

import tvmrt
from tvmrt import plugin
from tvmrt.cli import main
from tvmrt.compiler.export.vendors import vendor_code
from tvmrt.error import UnsupportedError
from tvmrt.plugins.cmsis_nn.device import CMSIS_NN
from tvmrt.plugins.cmsis_nn.layers import Convolution, Requantization, Window
from tvmrt.plugins.cmsis_nn.scratch import scratch_bytes

ort = pytest.importorskip("onnxruntime")
RNG = np.random.default_rng(5)
X, Y = (0.047, 3), (0.193, -20)  # scales and zero points


class Layers:
    """Network of independent int8 layers: each reads inputs only and is an output."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: dict[str, np.ndarray] = {}
        self.inputs: dict[str, np.ndarray] = {}
        self.outputs: list[str] = []

    def _const(self, value: np.ndarray) -> str:
        name = f"c{len(self.weights)}"
        self.weights[name] = value
        return name

    def _node(self, op: str, inputs, output: str, **attrs) -> str:
        name = f"{op}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [output], name=name, **attrs))
        return output

    def _numbers(self, meaning, kind: str) -> list[str]:
        scale, zero = meaning
        return [self._const(np.asarray(scale, np.float32)), self._const(np.array(zero, kind))]

    def input(self, name: str, shape, meaning, kind: str = "int8") -> str:
        """Add an int8 input and return its dequantised float tensor."""
        info = np.iinfo(kind)
        self.inputs[name] = RNG.integers(info.min, info.max + 1, shape).astype(kind)
        return self._node("DequantizeLinear", [name, *self._numbers(meaning, kind)], f"{name}_f")

    def parameter(self, shape, scales, zero: int = 0, axis: int = 0) -> str:
        data = self._const(RNG.integers(-127, 128, shape).astype(np.int8))
        scale = np.asarray(scales, np.float32)
        parts = [self._const(scale), self._const(np.full(scale.shape, zero, np.int8))]
        name = f"p{len(self.weights)}"
        return self._node("DequantizeLinear", [data, *parts], name, axis=axis)

    def bias(self, count: int, scales) -> str:
        data = self._const(RNG.integers(-3000, 3000, count).astype(np.int32))
        scale = np.broadcast_to(np.asarray(scales, np.float32), count)
        parts = [self._const(np.array(scale)), self._const(np.zeros(count, np.int32))]
        return self._node("DequantizeLinear", [data, *parts], f"b{len(self.weights)}", axis=0)

    def layer(self, name: str, op: str, inputs, meaning, kind: str = "int8", **attrs) -> None:
        result = self._node(op, inputs, f"{name}_f", **attrs)
        numbers = self._numbers(meaning, kind)
        self.outputs.append(self._node("QuantizeLinear", [result, *numbers], name))

    def model(self) -> onnx.ModelProto:
        kinds = {"int8": TensorProto.INT8, "uint8": TensorProto.UINT8}
        value = helper.make_tensor_value_info
        given = [value(k, kinds[v.dtype.name], v.shape) for k, v in self.inputs.items()]
        of = {
            n.output[0]: self.weights[n.input[2]].dtype for n in self.nodes if "Quant" in n.op_type
        }
        found = [value(n, kinds[of[n].name], None) for n in self.outputs]
        parts = [numpy_helper.from_array(v, k) for k, v in self.weights.items()]
        graph = helper.make_graph(self.nodes, "layers", given, found, parts)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def judged(layers: Layers) -> dict[str, np.ndarray]:
    """Return the float results of onnxruntime for every layer."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    data = layers.model().SerializeToString()
    session = ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    return dict(zip(layers.outputs, session.run(None, layers.inputs)))


def every_layer() -> Layers:
    net = Layers()
    x, other = net.input("x", (2, 6, 9, 8), X), net.input("other", (2, 6, 9, 8), Y)
    line, rows = net.input("line", (1, 4, 11), X), net.input("rows", (3, 20), X)
    each = np.linspace(0.001, 0.004, 10)
    net.layer("conv", "Conv", [x, net.parameter((10, 6, 3, 2), each), net.bias(10, each * X[0])],
              Y, strides=[2, 1], pads=[1, 0, 0, 1])  # fmt: skip
    net.layer("relu", "Conv", [x, net.parameter((5, 6, 1, 1), 0.003)], (0.05, -128))
    net.layer("dilated", "Conv", [x, net.parameter((4, 6, 3, 3), 0.002)], Y, dilations=[2, 3])
    net.layer("depthwise", "Conv", [x, net.parameter((6, 1, 5, 5), each[:6])], Y,
              group=6, pads=[2, 2, 2, 2])  # fmt: skip
    net.layer("doubled", "Conv", [x, net.parameter((12, 1, 3, 3), 0.004)], Y, group=6)
    net.layer("flat", "Conv", [line, net.parameter((6, 4, 3), 0.004)], Y, pads=[2, 0])
    net.layer("sum", "Add", [x, other], (0.211, 4))
    net.layer("product", "Mul", [x, other], (0.613, 4))
    net.layer("dense", "MatMul", [rows, net.parameter((20, 7), 0.003)], Y)
    net.layer("columns", "MatMul", [rows, net.parameter((20, 7), each[:7], axis=1)], Y)
    return net


LAYERS = every_layer()


@pytest.fixture(scope="module")
def right() -> dict[str, np.ndarray]:
    return judged(LAYERS)


def assert_close(found, right) -> None:
    """Allow one quantisation step of difference, and only rarely: double rounding moves ties."""
    assert found.keys() == right.keys()
    for name, wanted in right.items():
        away = np.abs(found[name].astype(int) - wanted.astype(int))
        assert away.max() <= 1, name
        assert np.mean(away > 0) < 0.02, name


def called(folder: Path) -> set[str]:
    text = next(folder.rglob("*_device_cmsis_nn.c")).read_text()
    return {word for word in text.replace("(", " ").split() if word.startswith("arm_")}


def test_every_layer_is_a_call_and_right(right, tmp_path):
    library = compiled(LAYERS.model(), interface_api="c")
    layers = [row for row in library.summary.nodes if "Linear" not in row.op_type]
    assert {row.device for row in layers} == {"cmsis-nn"}
    network = loaded(library, tmp_path)
    assert_close(network.run(LAYERS.inputs), right)
    kernels = {name for name in called(tmp_path) if not name.endswith("_size")}
    assert kernels == {
        "arm_convolve_wrapper_s8", "arm_depthwise_conv_wrapper_s8", "arm_fully_connected_s8",
        "arm_elementwise_add_s8", "arm_elementwise_mul_s8",
    } | {"arm_cmsis_nn_status"}  # fmt: skip


def run_on(board: str, net: Layers, folder: Path, monkeypatch):
    """Compile the network and return the library and the outputs computed on a board."""
    monkeypatch.setenv("CMSIS_NN", str(PATH))
    library = tvmrt.compile(
        net.model(), target=board, interface_api="c", module_name="net", devices=["cmsis-nn"]
    )
    return library, run_network(BOARDS[board], library, net.inputs, folder).outputs


def test_every_layer_is_right_on_a_board(right, tmp_path, monkeypatch):
    """Run every layer on a board, with the scratch size of processors with DSP instructions."""
    library, found = run_on("cortex-m4", LAYERS, tmp_path, monkeypatch)
    assert 2 * 6 * 25 in {row.scratch_bytes for row in library.summary.operators}
    assert_close(found, right)


@pytest.mark.slow
def test_helium_has_its_own_scratch_size_and_matmuls(tmp_path, monkeypatch):
    net = Layers()
    x, rows = net.input("x", (1, 6, 4, 4), X), net.input("rows", (2, 20), X)
    net.layer("depthwise", "Conv", [x, net.parameter((6, 1, 3, 3), 0.004)], Y, group=6)
    net.layer("dense", "MatMul", [rows, net.parameter((20, 7), 0.003)], Y)
    library, found = run_on("cortex-m55", net, tmp_path, monkeypatch)
    assert {row.scratch_bytes for row in library.summary.operators} >= {4 * 124 * 9, 4 * 32}
    assert_close(found, judged(net))
    assert "arm_fully_connected_s8" not in called(tmp_path)


def test_a_network_of_others_agrees_with_its_golden_outputs(tmp_path, models_dir):
    data = np.load(models_dir / "kws_dscnn_int8.npz")
    library = compiled(models_dir / "kws_dscnn_int8.onnx", interface_api="c")
    assert {row.device for row in library.summary.nodes if row.op_type == "Conv"} == {"cmsis-nn"}
    network = loaded(library, tmp_path, "CFLAGS=-O2 -fPIC")
    (found,) = network.run({"input_1": data["input_1"]}).values()
    away = np.abs(found.astype(int) - data["out:Identity"].astype(int))
    assert away.max() <= 1


def test_layers_unsupported_by_cmsis_nn_stay_on_the_cpu():
    net = Layers()
    x, bytes_ = net.input("x", (1, 6, 9, 8), X), net.input("u", (1, 6, 9, 8), (0.1, 130), "uint8")
    net.layer("grouped", "Conv", [x, net.parameter((6, 3, 3, 3), 0.01)], Y, group=2)
    net.layer("moved", "Conv", [x, net.parameter((6, 6, 3, 3), 0.01, zero=5)], Y)
    net.layer("unsigned", "Conv", [bytes_, net.parameter((6, 6, 3, 3), 0.01)], (0.1, 9), "uint8")
    rows = compiled(net.model(), interface_api="c").summary.nodes
    message = {row.op_type + row.name.rpartition("_")[2]: row for row in rows}
    reasons = [row.reason for row in message.values() if "Linear" not in row.op_type]
    wanted = ["not support 2 groups here", "weights with zero point 0", "int8 tensors, not uint8"]
    assert len(reasons) == len(wanted)
    for reason, words in zip(reasons, wanted):
        assert reason.startswith("cmsis-nn: ")
        assert words in reason


def test_floats_and_systems_are_refused_by_name():
    with pytest.raises(UnsupportedError, match="CMSIS-NN is for firmware; name a target such as"):
        tvmrt.compile(LAYERS.model(), devices=["cmsis-nn"], require_device=["cmsis-nn"])
    net = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"], name="r")], "g",
        *([helper.make_tensor_value_info(n, TensorProto.FLOAT, [2])] for n in "xy"),
    )  # fmt: skip
    model = helper.make_model(net, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with pytest.raises(UnsupportedError, match="CMSIS-NN computes in int8, not in float32"):
        compiled(model, interface_api="c", require_device=["cmsis-nn"])


@pytest.fixture(scope="module")
def small():
    """Return a network of one layer."""
    net = Layers()
    net.layer("y", "Conv", [net.input("x", (1, 3, 4, 4), X), net.parameter((2, 3, 3, 3), 0.01)], Y)
    return net, compiled(net.model(), interface_api="c")


def test_packed_functions_call_it_too(small, tmp_path):
    net = small[0]
    network = loaded(compiled(net.model(), interface_api="packed"), tmp_path)
    assert_close(network.run(net.inputs), judged(net))


@pytest.mark.parametrize("given", [None, "/nowhere"])
def test_make_reports_what_is_missing(given, small, tmp_path, monkeypatch):
    monkeypatch.delenv("CMSIS_NN", raising=False)
    done = make(small[1], tmp_path, *([f"CMSIS_NN={given}"] if given else []))
    assert done.returncode != 0
    sentence = (
        f"CMSIS-NN is not in '{given or ''}': name the folder with Include/arm_nnfunctions.h by "
        "CMSIS_NN=PATH"
    )
    assert sentence in done.stderr
    subprocess.run(["make", "-s", "clean"], cwd=tmp_path, check=True)


def test_errors_name_missing_parts_of_other_builds(small, tmp_path):
    small[1].export(tmp_path / "net")
    file = next((tmp_path / "net").glob("*_device_cmsis_nn.c"))
    include = [f"-I{path}" for path in tvmrt.libinfo.find_include_path()]
    done = subprocess.run(
        ["cc", "-fsyntax-only", *include, file], capture_output=True, text=True, check=False
    )
    assert "CMSIS-NN is not found: run make CMSIS_NN=PATH with the folder" in done.stderr
    strict = ["-fsyntax-only", "-Wall", "-Wextra", "-Werror", f"-I{PATH / 'Include'}"]
    for language in (["cc", "-std=c99", "-pedantic"], ["c++", "-x", "c++", "-std=c++17"]):
        subprocess.run([*language, *strict, *include, file], check=True)


def test_library_that_needs_more_scratch_memory_is_an_error(small, tmp_path):
    """Too little scratch memory is an error, and other tensors are not overwritten."""
    net, library = small
    network = loaded(library, tmp_path, "CFLAGS=-fPIC -O1 -DMOCK_EXTRA_SCRATCH=64")
    results = [np.zeros(t.shape, t.dtype) for t in library.summary.outputs]
    assert network.call(list(net.inputs.values()), results) != 0
    network.shared.TVMGetLastError.restype = ctypes.c_char_p
    assert b"wants more scratch memory than was planned" in network.shared.TVMGetLastError()


def test_program_with_the_library_gets_only_the_network(small, tmp_path):
    done = make(small[1], tmp_path, f"CMSIS_NN={PATH}", "CMSIS_NN_SOURCES=")
    assert done.returncode == 0, done.stderr
    symbols = subprocess.run(
        ["nm", tmp_path / "libnet.a"], capture_output=True, text=True, check=True
    ).stdout
    assert " U arm_convolve_wrapper_s8" in symbols
    assert " T arm_convolve_wrapper_s8" not in symbols


NAMES = Path(__file__).with_name("cmsis_nn_main.txt").read_text(encoding="utf-8").splitlines()
KERNELS = [name for name in NAMES if not name.startswith("#")]
FLOATS = [name for name in KERNELS if re.search(r"_(f16|f32|flt)\.c$", name)]


@pytest.fixture(scope="module")
def main_branch(tmp_path_factory) -> Path:
    """Return a folder with all file names of the main branch, filled with the mock's functions.
    Files of float kernels contain an error, as for a compiler without float16."""
    vendor = tmp_path_factory.mktemp("main") / "CMSIS-NN"
    shutil.copytree(PATH, vendor)
    (vendor / "Include" / "arm_nn_types_flt.h").write_text("typedef __no_such_type float16_t;\n")
    for name in KERNELS:
        file = vendor / "Source" / name
        file.parent.mkdir(exist_ok=True)
        include = '#include "arm_nn_types_flt.h"\n' if name in FLOATS else ""
        file.write_text(f"{include}int file_{file.stem};\n")
    return vendor


def members(archive: Path) -> set[str]:
    listed = subprocess.check_output(["ar", "t", archive], text=True).split()
    return {name.split(".")[0] for name in listed}


def stems(names) -> set[str]:
    return {Path(name).stem for name in names}


def test_main_branch_has_the_kernels_of_floats():
    assert sum(name.endswith("_f16.c") for name in KERNELS) == 36
    assert stems(KERNELS) - stems(FLOATS) >= {"arm_convolve_wrapper_s8", "arm_elementwise_add_s8"}


def test_main_branch_builds_without_its_kernels_of_floats(
    small, main_branch, tmp_path, monkeypatch
):
    done = make(small[1], tmp_path, f"CMSIS_NN={main_branch}")
    assert done.returncode == 0, done.stderr
    found = members(tmp_path / "libnet.a")
    assert found >= stems(KERNELS) - stems(FLOATS) and not found & stems(FLOATS)
    monkeypatch.setenv("CMSIS_NN", str(main_branch))  # as packages and commands find it
    copied = stems(path.name for path in vendor_code([CMSIS_NN]))
    assert copied >= stems(KERNELS) - stems(FLOATS) and not copied & stems(FLOATS)


def test_kernels_of_floats_are_built_if_they_are_named(small, main_branch, tmp_path):
    """Name the float kernels explicitly: the compiler then reports their errors."""
    sources = f"CMSIS_NN_SOURCES={main_branch}/Source/{FLOATS[0]}"
    done = make(small[1], tmp_path, f"CMSIS_NN={main_branch}", sources)
    assert done.returncode != 0 and "__no_such_type" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("which", ["stand-in", "main branch"])
def test_documented_cmake_build_works(which, small, main_branch, tmp_path):
    if shutil.which("cmake") is None:
        pytest.skip("cmake is not installed")
    vendor = main_branch if which == "main branch" else PATH
    page = Path(__file__).parents[1] / "docs" / "cmsis-nn.md"
    (text,) = re.findall(r"```cmake\n(.*?)```", page.read_text(), re.DOTALL)
    (tmp_path / "CMakeLists.txt").write_text(text)
    small[1].export(tmp_path / "net.tar")
    unpack(tmp_path / "net.tar", tmp_path / "digits")

    def configure(*options: str) -> subprocess.CompletedProcess:
        command = ["cmake", "-S", ".", "-B", "build", *options]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert "CMSIS-NN is not in ''" in configure().stderr
    done = configure(f"-DCMSIS_NN={vendor}")
    assert done.returncode == 0, done.stderr
    subprocess.run(["cmake", "--build", "build"], cwd=tmp_path, check=True, capture_output=True)
    (library,) = (tmp_path / "build").glob("libnetwork.a")
    if which == "main branch":
        assert members(library) >= stems(KERNELS) - stems(FLOATS)
        assert not members(library) & stems(FLOATS)


def test_commands_find_it_by_the_environment(small, tmp_path, monkeypatch, capsys):
    """Code and stack are measured with the library's headers; a run on a board also links its
    kernels."""
    library = tvmrt.compile(
        small[0].model(), target="cortex-m4", interface_api="c", devices=["cmsis-nn"]
    )
    if BOARDS["cortex-m4"].missing_tool():
        pytest.skip(f"{BOARDS['cortex-m4'].missing_tool()} is not installed")
    library.export(tmp_path / "net.tar")
    if not plugin.has("hooks", "inspect board"):
        pytest.skip("no plug-in estimates what boards take")
    command = ["inspect", str(tmp_path / "net.tar"), "--board", "cortex-m4", "--json"]
    monkeypatch.delenv("CMSIS_NN", raising=False)
    sentence = "the network calls CMSIS-NN: set the environment variable CMSIS_NN to the"
    assert main(command) == 2
    assert sentence in capsys.readouterr().err
    monkeypatch.setenv("CMSIS_NN", str(PATH))
    assert main(command) == 0
    (network,) = json.loads(capsys.readouterr().out)["networks"].values()
    assert "arm_convolve_wrapper_s8" in str(network["functions"])
    assert network["ram"]["stack_bytes"] > 100  # with that of the kernels


def helium_scratch_bytes(x: int, y: int, kernel: int, stride: int, pad: int, channels: int) -> int:
    """Return the scratch bytes that the CMSIS-NN documentation gives for windows 1 x ``kernel``:
    for the padded columns at the left or right end, or for other windows if all columns are
    padded."""
    odd = ((y - 1) * stride + kernel - x) % 2
    right = max(1, -(-(pad + odd) // stride)) if pad + odd else 0
    left = max(1, -(-pad // stride)) if pad else 0
    if right + left + max(y - right - left, 0) != y:
        return 4 * -(-channels * kernel // 16) * 16
    ends = kernel + pad, kernel - 1 + (right if odd else pad)
    return max(ends) * channels


def test_scratch_memory_is_enough_for_rows_on_helium():
    for _ in range(500):
        kernel, stride, channels = (int(RNG.integers(1, high)) for high in (12, 5, 40))
        pads = [int(RNG.integers(0, kernel)) for _ in range(2)]
        x = int(RNG.integers(kernel, 40))
        y = (x + sum(pads) - kernel) // stride + 1
        window = Window((1, 1, x, channels), (1, 1, y, 3), (1, kernel), (1, stride), (0, pads[0]),
                        (1, 1))  # fmt: skip
        none, weights = np.zeros(3, np.int32), np.zeros((3, 1, kernel, channels), np.int8)
        finish = Requantization(none, none, 0, -128, 127)
        layer = Convolution(None, window, weights, none, 0, finish, 0)
        wanted = helium_scratch_bytes(x, y, kernel, stride, pads[0], channels)
        assert scratch_bytes(layer, frozenset({"dsp", "mve"})) >= wanted, (layer.window, wanted)
