"""Row fusion: results equal onnxruntime's in a part of the memory, with no writes outside of it, on
the host and on a board."""

from __future__ import annotations

import json
import re
import subprocess
from functools import lru_cache

import boards
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from test_memory_proof import run_here, run_on_board

import tvmrt
from tvmrt.cli import main

SCALE = 1 / 32  # with even zero points, ties of averages round as in onnxruntime
ZERO = {"x_zero": np.int8(4), "one": np.int8(0)}


class Network:
    """Quantised layers of random weights, each applied to the previous result."""

    def __init__(self, channels: int) -> None:
        self.rng = np.random.default_rng(channels)
        self.nodes: list[onnx.NodeProto] = []
        self.tensors: dict[str, np.ndarray] = {"scale": np.float32(SCALE), **ZERO}
        self.channels, self.last, self.shift = channels, "x", "x_zero"

    def quantize(self) -> None:
        self._add("QuantizeLinear", [self.last, "scale", "x_zero"])

    def conv(self, out, kernel, stride=1, depthwise=False, pads=None, dilation=1) -> None:
        shape = (out, 1 if depthwise else self.channels, kernel, kernel)
        size, n = shape[1] * kernel * kernel, len(self.nodes)
        self.tensors[f"w{n}"] = self.rng.integers(-127, 128, shape).astype(np.int8)
        self.tensors[f"s{n}"] = self.rng.uniform(0.5, 1, out).astype(np.float32) / size**0.5 / 50
        self.tensors[f"b{n}"] = self.rng.integers(-900, 900, out).astype(np.int32)
        self.tensors[f"z{n}"] = np.int8(2 * self.rng.integers(-4, 5))
        down, across = (dilation, dilation) if isinstance(dilation, int) else dilation
        reach = (kernel - 1) * across
        pads = pads or [reach // 2, reach // 2, reach - reach // 2, reach - reach // 2]
        names = [self.last, "scale", self.shift, f"w{n}", f"s{n}", "one", "scale", f"z{n}"]
        self._add("QLinearConv", [*names, f"b{n}"], strides=[stride] * 2, pads=pads,
                  dilations=[down, across], group=out if depthwise else 1)  # fmt: skip
        self.channels, self.shift = out, f"z{n}"

    def add(self, other: str, shift: str) -> None:
        names = [self.last, "scale", self.shift, other, "scale", shift, "scale", "x_zero"]
        self._add("QLinearAdd", names, domain="com.microsoft")
        self.shift = "x_zero"

    def pool(self, op: str, **attributes) -> None:
        zero = None if op == "MaxPool" else self.shift
        names = [self.last] if zero is None else [self.last, "scale", zero, "scale", zero]
        domain = "" if zero is None else "com.microsoft"
        self._add(op, names, domain=domain, **attributes)

    def block(self, out: int, stride: int) -> None:
        """Add two branches of layers and sum their results."""
        before = self.last, self.shift, self.channels
        self.conv(out, 1, stride, pads=[0] * 4)
        short = self.last, self.shift
        self.last, self.shift, self.channels = before
        self.conv(out, 3, stride, pads=[1] * 4)
        self.conv(out, 3, pads=[1] * 4)
        self.add(*short)

    def bottleneck(self, wide: int, residual: bool) -> None:
        before, shift, channels = self.last, self.shift, self.channels
        self.conv(wide, 1)
        self.conv(wide, 3, depthwise=True, pads=[1] * 4)
        self.conv(channels, 1)
        if residual:
            self.add(before, shift)

    def _add(self, op: str, inputs: list[str], **attributes) -> None:
        self.last = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [self.last], self.last, **attributes))

    def model(self, shape, kind=TensorProto.FLOAT) -> onnx.ModelProto:
        x = helper.make_tensor_value_info("x", kind, shape)
        y = helper.make_tensor_value_info(self.last, TensorProto.INT8, None)
        weights = [numpy_helper.from_array(np.asarray(a), n) for n, a in self.tensors.items()]
        graph = helper.make_graph(self.nodes, "rows", [x], [y], weights)
        opset = [helper.make_opsetid("", 13), helper.make_opsetid("com.microsoft", 1)]
        return onnx.shape_inference.infer_shapes(
            helper.make_model(graph, opset_imports=opset, ir_version=8)
        )


def separable() -> onnx.ModelProto:
    """Depthwise layers of all kernels, odd sizes, padding of all kinds; 3 channels in."""
    net = Network(3)
    net.quantize()
    net.conv(10, 3, 2, pads=[0, 0, 1, 1])
    net.conv(10, 3, depthwise=True)
    net.conv(18, 1)
    net.conv(18, 5, depthwise=True, pads=[3, 1, 1, 3])
    net.conv(18, 1)
    net.conv(18, 3, 2, depthwise=True, pads=[1, 1, 1, 1])
    net.conv(7, 1)
    return net.model([1, 3, 85, 18])


def dense() -> onnx.ModelProto:
    """Convolutions that read rows in place, one of them dilated; quantised inputs and outputs."""
    net = Network(4)
    net.conv(9, 3)
    net.conv(12, 3, dilation=2)
    net.conv(5, 4, 2)
    net.conv(6, 2, pads=[0, 0, 0, 0])
    return net.model([1, 4, 24, 15], TensorProto.INT8)


def bottlenecks() -> onnx.ModelProto:
    """Blocks that widen and narrow again, with residual adds."""
    net = Network(3)
    net.conv(6, 3, pads=[1] * 4)
    for _ in range(3):
        net.bottleneck(24, residual=True)
    net.bottleneck(20, residual=False)
    return net.model([1, 3, 40, 12], TensorProto.INT8)


def branches() -> onnx.ModelProto:
    """Blocks of two branches and one with its input, pools of all kinds between; two images."""
    net = Network(3)
    net.conv(8, 3, pads=[1] * 4)
    net.pool("MaxPool", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 0, 0], ceil_mode=1)
    net.block(12, 2)
    net.bottleneck(20, residual=True)
    net.pool("QLinearAveragePool", kernel_shape=[3, 2], strides=[1, 1], pads=[1, 1, 1, 0],
             count_include_pad=1)  # fmt: skip
    net.conv(6, 1)
    net.pool("QLinearAveragePool", kernel_shape=[2, 2], strides=[2, 2])
    return net.model([2, 3, 43, 14], TensorProto.INT8)


def floats() -> onnx.ModelProto:
    """Float layers: dense, depthwise, pointwise, pools, a block of two branches, two images."""
    rng, nodes, tensors = np.random.default_rng(8), [], []

    def add(op: str, *inputs: str, **attributes) -> str:
        nodes.append(
            helper.make_node(op, inputs, [f"t{len(nodes)}"], f"t{len(nodes)}", **attributes)
        )
        return nodes[-1].output[0]

    def conv(
        x: str, before: int, out: int, kernel: int, depthwise=False, relu=True, **given
    ) -> str:
        shape = (out, 1 if depthwise else before, kernel, kernel)
        w = rng.standard_normal(shape) * (2 / (shape[1] * kernel**2)) ** 0.5
        for kind, values in (("w", w), ("b", rng.standard_normal(out) / 10)):
            name = f"{kind}{len(nodes)}"
            tensors.append(numpy_helper.from_array(values.astype(np.float32), name))
        group = out if depthwise else 1
        y = add("Conv", x, f"w{len(nodes)}", f"b{len(nodes)}", group=group, **given)
        return add("Relu", y) if relu else y

    x = conv("x", 3, 8, 3, pads=[1, 1, 1, 1])
    x = add("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    y = conv(conv(x, 8, 24, 1), 24, 24, 3, True, pads=[1, 1, 1, 1])
    x = add("Add", conv(y, 24, 8, 1, relu=False), x)
    short = conv(x, 8, 10, 1, relu=False, strides=[2, 2])
    y = conv(
        conv(x, 8, 10, 3, strides=[2, 2], pads=[1, 1, 1, 1]), 10, 10, 5, True, False, pads=[2] * 4
    )
    x = add("Relu", add("Add", y, short))
    x = add("Sigmoid", conv(x, 10, 10, 1, relu=False))
    x = add("AveragePool", x, kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1)
    add("AveragePool", x, kernel_shape=[2, 2], pads=[0, 0, 1, 1])
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3, 46, 15])
    made = helper.make_tensor_value_info(nodes[-1].output[0], TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "floats", [given], [made], tensors)
    opset = [helper.make_opsetid("", 13)]
    return onnx.shape_inference.infer_shapes(
        helper.make_model(graph, opset_imports=opset, ir_version=8)
    )


def averages() -> onnx.ModelProto:
    """Two images, reduced to the mean of each channel, with odd rows and channels."""
    net = Network(3)
    net.quantize()
    net.conv(12, 3, pads=[1] * 4)
    net.conv(12, 3, depthwise=True, pads=[1] * 4)
    net.conv(21, 1)
    net._add("QLinearGlobalAveragePool", [net.last, "scale", net.shift, "scale", "x_zero"],
             domain="com.microsoft")  # fmt: skip
    net.shift = "x_zero"
    net.conv(5, 1)
    return net.model([2, 3, 19, 16])


def float_end(op: str, **attributes) -> onnx.ModelProto:
    """A float layer, a reduction of each of its channels, plus a constant."""
    rng = np.random.default_rng(3)
    values = {"w": rng.standard_normal((9, 3, 3, 3)), "b": rng.standard_normal(9), "c": 0.25}
    tensors = [numpy_helper.from_array(np.asarray(v, np.float32), n) for n, v in values.items()]
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["t"], pads=[1] * 4),
        helper.make_node("Relu", ["t"], ["u"]),
        helper.make_node(op, ["u"], ["v"], **attributes),
        helper.make_node("Add", ["v", "c"], ["y"]),
    ]
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3, 17, 14])
    made = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "end", [given], [made], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    return onnx.shape_inference.infer_shapes(model)


NETWORKS = {
    "averages": averages,
    "mean": lambda: float_end("GlobalAveragePool"),
    "most": lambda: float_end("ReduceMax", axes=[2, 3], keepdims=0),
    "separable": separable,
    "dense": dense,
    "bottlenecks": bottlenecks,
    "branches": branches,
    "floats": floats,
}


def example(model: onnx.ModelProto):
    """Return an input, and onnxruntime's outputs."""
    runtime = pytest.importorskip("onnxruntime")
    x, rng = model.graph.input[0].type.tensor_type, np.random.default_rng(5)
    shape = [d.dim_value for d in x.shape.dim]
    values = rng.integers(-128, 128, shape)
    real = x.elem_type == TensorProto.FLOAT
    inputs = {"x": (values * SCALE).astype(np.float32) if real else values.astype(np.int8)}
    plain = runtime.SessionOptions()
    plain.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = runtime.InferenceSession(
        model.SerializeToString(), plain, providers=["CPUExecutionProvider"]
    )
    names = [o.name for o in session.get_outputs()]
    return inputs, dict(zip(names, session.run(None, inputs)))


def compile_within(model, ram: int | None, target="cortex-m4", **options):
    return tvmrt.compile(
        model, target=target, interface_api="c", module_name="net", ram=ram, **options
    )


@lru_cache(None)
def network(name: str) -> onnx.ModelProto:
    return NETWORKS[name]()


@lru_cache(None)
def plans_of(name: str, target="cortex-m4"):
    """Return the available plans, beginning with that of whole layers."""
    return compile_within(network(name), 1 << 30, target).summary.row_plans


def minimum(name: str, target="cortex-m4") -> int:
    """Return the minimum memory of all plans."""
    return plans_of(name, target)[-1].ram_bytes


def least_at_once(name: str, target="cortex-m4") -> int:
    """Return the minimum memory of the plans that recompute nothing."""
    return min(p.ram_bytes for p in plans_of(name, target) if set(p.patches) <= {1})


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "separable",
        pytest.param("dense", marks=pytest.mark.slow),
        "bottlenecks",
        "branches",
        "averages",
    ],
)
def test_row_fusion_gives_equal_bytes_in_the_stated_memory(name, tmp_path):
    inputs, expected = example(network(name))
    bytes_ = minimum(name)
    library = compile_within(network(name), bytes_, pools={"sram": bytes_})
    assert library.summary.arena_bytes == bytes_ < 0.8 * plans_of(name)[0].ram_bytes
    check(run_here(library, inputs, tmp_path), expected)


def check(found, expected) -> None:
    """Integers are equal; floats agree within the error of another order of summation."""
    for key, array in expected.items():
        if array.dtype == np.float32:
            np.testing.assert_allclose(found[key], array, rtol=1e-4, atol=1e-5)
        else:
            np.testing.assert_array_equal(found[key], array)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["floats", "mean", "most"])
def test_float_row_fusion_is_bit_identical(name, tmp_path):
    inputs, expected = example(network(name))
    found, least_bytes, whole_bytes = [], minimum(name), plans_of(name)[0].ram_bytes
    for ram in (least_bytes, whole_bytes):
        library = compile_within(network(name), ram, pools={"sram": ram})
        assert library.summary.arena_bytes == ram
        folder = tmp_path / str(ram)
        folder.mkdir()
        found.append(run_here(library, inputs, folder))
    assert least_bytes < 0.3 * whole_bytes
    for key, array in found[1].items():
        np.testing.assert_array_equal(found[0][key], array)
    check(found[0], expected)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "target", "bytes_of"),
    [
        ("separable", "cortex-m4", minimum),
        ("branches", "cortex-m4", least_at_once),
        ("averages", "cortex-m4", minimum),
        ("floats", "cortex-m4", least_at_once),
        pytest.param("bottlenecks", "cortex-m55", minimum, marks=pytest.mark.slow),
        pytest.param("separable", "cortex-m55", minimum, marks=pytest.mark.slow),
        pytest.param("floats", "cortex-m55", minimum, marks=pytest.mark.slow),
        pytest.param("branches", "riscv32", minimum, marks=pytest.mark.slow),
    ],
)
def test_row_fusion_on_a_board_stays_within_the_stated_stack(name, target, bytes_of, tmp_path):
    inputs, expected = example(network(name))
    bytes_ = bytes_of(name, target)
    library = compile_within(network(name), bytes_, target, pools={"sram": bytes_})
    check(run_on_board(library, inputs, tmp_path), expected)


MOVES = """\
#include <tvm/runtime/kernels/board/row_fusion.h>
void move(tvmrt_row_fusion_progress *at, int32_t kept, uint8_t *place) {
  tvmrt_row_fusion_drop_rows(at, kept, place, 512);
}
"""


@pytest.mark.parametrize("target", ["riscv32", "cortex-m0plus", "cortex-m4"])
def test_rows_are_copied_with_few_calls(target, tmp_path):
    """memcpy() of a small C library copies single bytes."""
    board = boards.BOARDS[target]
    (tmp_path / "moves.c").write_text(MOVES)
    command = [f"{board.tool}-gcc", "--specs=picolibc.specs", *board.flags, "-std=c99", "-Os"]
    command += [f"-I{folder}" for folder in tvmrt.libinfo.find_include_path()]
    subprocess.run([*command, "-c", "moves.c", "-o", "moves.o"], cwd=tmp_path, check=True)
    listed = subprocess.run(
        [f"{board.tool}-nm", "-u", "moves.o"], cwd=tmp_path, check=True, capture_output=True
    )
    assert b"mem" not in listed.stdout


@pytest.mark.slow
def test_row_fusion_cost_matches_the_plan(tmp_path):
    board = boards.BOARDS["riscv32"]
    inputs, _ = example(network("branches"))
    plans = plans_of("branches", board.target)
    taken = []
    for nbytes in (plans[0].ram_bytes, least_at_once("branches", board.target)):
        library = compile_within(network("branches"), nbytes, board.target)
        place = tmp_path / str(nbytes)
        taken.append(boards.run_network(board, library, inputs, place, True).instructions)
    (plan,) = (p for p in plans if p.ram_bytes == nbytes)
    assert plan.chains
    assert taken[1] - taken[0] == pytest.approx(plan.instructions, rel=0.3)


def test_unlimited_plan_has_whole_layers_and_patches_report_recomputation():
    whole = compile_within(network("separable"), None).summary
    assert whole.arena_bytes == plans_of("separable")[0].ram_bytes
    rows = [plan for plan in plans_of("separable") if set(plan.patches) == {1}][-1]
    for plan in (rows, plans_of("separable")[-1]):
        summary = compile_within(network("separable"), plan.ram_bytes).summary
        twice = sum(o.macs for o in summary.operators) - sum(o.macs for o in whole.operators)
        assert plan.surplus_macs == twice
    assert rows.surplus_macs == 0 < twice
    assert max(plans_of("separable")[-1].patches) > 1


def test_fastest_plan_that_fits_is_used():
    plans = plans_of("separable")
    assert [p.chains for p in plans].index(()) == 0
    assert len(plans) > 2
    for before, after in zip(plans, plans[1:]):
        assert after.ram_bytes < before.ram_bytes
        assert after.instructions >= before.instructions
    taken = compile_within(network("separable"), plans[0].ram_bytes - 1).summary.arena_bytes
    assert taken == plans[1].ram_bytes


def test_windows_with_too_many_rows_are_not_fused():
    net = Network(4)
    net.conv(8, 1)
    net.conv(8, 3)
    net.conv(8, 3, dilation=(130, 1), pads=[0, 1, 0, 1])
    net.conv(4, 1)
    model = net.model([1, 4, 600, 6], TensorProto.INT8)
    plans = compile_within(model, 1 << 30).summary.row_plans
    assert len(plans) > 1
    library = compile_within(model, plans[-1].ram_bytes)
    text = "".join(library.sources.files.values())
    tables = re.findall(r"tvmrt_row_fusion_call calls\[\d+\] = \{([^;]*)\};", text)
    assert tables
    assert max(int(n) for table in tables for n in re.findall(r"\d+", table)) < 256


def test_pool_too_small_for_whole_layers_fits_row_fusion():
    bytes_ = minimum("separable")
    summary = compile_within(network("separable"), None, pools={"sram": bytes_}).summary
    assert summary.pools[0].used_bytes <= bytes_
    sizes = [str(plan.ram_bytes) for plan in plans_of("separable")]
    with pytest.raises(ValueError, match=r"is 16 bytes too small .* operator t\w+") as caught:
        compile_within(network("separable"), None, pools={"sram": bytes_ - 16})
    report = f"enlarge sram to {sizes[-1]} bytes; faster plans with row-wise fusion need "
    assert report + f"{', '.join(sizes[:-1])} bytes" in str(caught.value)


def test_too_little_ram_error_reports_the_minimum():
    plans = plans_of("separable")
    missing = plans[-1].ram_bytes - 1000
    sentence = f"ram of 1000 bytes is {missing} bytes too small for the network, .* operator t"
    with pytest.raises(ValueError, match=sentence) as caught:
        compile_within(network("separable"), 1000)
    for plan in plans:
        assert f"{plan.ram_bytes} bytes" in str(caught.value)


def test_the_command_prints_the_plans_and_inspect_finds_them(tmp_path, capsys):
    onnx.save(dense(), tmp_path / "net.onnx")
    call = ["compile", str(tmp_path / "net.onnx"), "-o", str(tmp_path / "net.tar"), "--target",
            "cortex-m4", "--interface-api", "c", "--ram", "100000", "--json"]  # fmt: skip
    assert main(call) == 0
    plans = json.loads(capsys.readouterr().out)["row_plans"]
    assert plans[0]["chains"] == []
    assert main(["inspect", str(tmp_path / "net.tar")]) == 0
    shown = capsys.readouterr().out.replace(",", "")
    for plan in plans:
        assert str(plan["ram_bytes"]) in shown
        assert str(plan["surplus_macs"]) in shown
    assert plans[-1]["surplus_macs"] > 0
    assert f"patch-based ({plans[-1]['surplus_macs']} repeated multiply-adds)" in " ".join(
        shown.split()
    )
    assert f"in {plans[-1]['patches'][0]} patches" in shown
