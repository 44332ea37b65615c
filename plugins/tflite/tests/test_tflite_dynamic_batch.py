"""Compare networks with a dynamic batch with LiteRT's reference kernels at several sizes."""

from __future__ import annotations

import numpy as np
import pytest
from tflite_case import FILES, Net, assert_like, ours

import tvmrt
from tvmrt.cli.session import Session
from tvmrt.error import UnsupportedError

pytest.importorskip("ai_edge_litert")

OPEN = FILES / "open"
EVERYDAY = ("convolutional_int8", "gated_units_dynamic")
NAMES = sorted(path.stem for path in OPEN.glob("*.tflite"))


def _resized(data: bytes, batch: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return inputs of this batch size, and LiteRT's results."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    kind = OpResolverType.BUILTIN_REF
    interpreter = Interpreter(model_content=data, experimental_op_resolver_type=kind)
    for detail in interpreter.get_input_details():
        shape = [batch, *(int(n) for n in detail["shape"][1:])]
        interpreter.resize_tensor_input(detail["index"], shape)
    interpreter.allocate_tensors()
    rng, feeds = np.random.default_rng(batch), []
    for detail in interpreter.get_input_details():
        values = rng.standard_normal(detail["shape"])
        if detail["dtype"] == np.int8:
            values = rng.integers(-128, 128, detail["shape"])
        feeds.append(values.astype(detail["dtype"]))
        interpreter.set_tensor(detail["index"], feeds[-1])
    interpreter.invoke()
    outputs = interpreter.get_output_details()
    return feeds, [interpreter.get_tensor(detail["index"]).copy() for detail in outputs]


def _check(data: bytes, path, **options) -> None:
    tvmrt.compile(data, executor="aot", **options).export_library(str(path))
    session = Session(path, 1)
    for batch in (1, 3, 8):
        feeds, right = _resized(data, batch)
        found = session.run({i.name: a for i, a in zip(session.inputs, feeds)})
        assert_like(list(found.values()), right)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in EVERYDAY else pytest.mark.slow) for n in NAMES]
)
def test_keras_networks_run_at_any_batch(name, tmp_path):
    data = (OPEN / f"{name}.tflite").read_bytes()
    _check(data, tmp_path / "net.so", dims={"batch": (1, 8)})


def _ints(net: Net, *values: int) -> int:
    return net.const(np.array(values, np.int32))


class _Shapes:
    """Operators on the shape of x, float32[N, 3, 4], as converters write them; each result named
    ``out`` is an output."""

    def __init__(self, net: Net) -> None:
        self.net, self.x = net, net.input((1, 3, 4), "float32")
        self.shape = self.made("SHAPE", [self.x], (3,), out=True, options="ShapeOptions", outType=2)
        self.batch = self.cut(0, shrink=1)

    def made(self, name: str, inputs, shape, out=False, dtype="int32", **fields) -> int:
        index = (self.net.output if out else self.net.tensor)(shape, dtype)
        self.net.op(name, inputs, [index], **fields)
        return index

    def cut(self, at: int, shrink: int = 0, out: bool = False) -> int:
        operands = [self.shape, *(_ints(self.net, n) for n in (at, at + 1, 1))]
        fields = {"options": "StridedSliceOptions", "shrinkAxisMask": shrink}
        return self.made("STRIDED_SLICE", operands, () if shrink else (1,), out, **fields)

    def number(self, name: str, a: int, b: int, out: bool = False, **fields) -> int:
        return self.made(name, [a, b], (), out, **fields)

    def pack(self, *parts: int) -> int:
        fields = {"options": "PackOptions", "valuesCount": len(parts)}
        return self.made("PACK", list(parts), (len(parts),), **fields)

    def float_of(self, name: str, inputs: list[int], shape, **fields) -> None:
        self.made(name, inputs, shape, True, "float32", **fields)


def _chains(net: Net) -> None:
    s = _Shapes(net)
    two, four, twelve = (net.const(np.int32(n)) for n in (2, 4, 12))
    twice = s.number("MUL", s.batch, two, True, options="MulOptions")
    s.number("FLOOR_DIV", s.number("ADD", s.batch, four, options="AddOptions"), two, True)
    s.number("MAXIMUM", s.batch, two, True)
    total = s.made("REDUCE_PROD", [s.shape, _ints(net, 0)], (), True, options="ReducerOptions")
    wide = s.made("CAST", [s.batch], (), dtype="int64", options="CastOptions")
    s.made("CAST", [wide], (), True, options="CastOptions")
    s.float_of("RESHAPE", [s.x, s.pack(s.batch, twelve)], (1, 12))
    line = s.made("EXPAND_DIMS", [total, _ints(net, 0)], (1,))
    s.float_of("RESHAPE", [s.x, line], (12,))
    joined = s.made("CONCATENATION", [s.cut(0), _ints(net, -1, 2)], (3,),
                    options="ConcatenationOptions")  # fmt: skip
    s.float_of("RESHAPE", [s.x, joined], (1, 6, 2))
    s.float_of("FILL", [s.pack(twice, two), net.const(np.float32(1.5))], (2, 2))
    s.float_of("BROADCAST_TO", [net.const(np.ones(4, np.float32)), s.shape], (1, 3, 4), version=2)
    s.float_of("TILE", [net.const(np.ones((1, 2), np.float32)), s.pack(s.batch, two)], (1, 4))
    s.made("RANGE", [net.const(np.int32(0)), twice, net.const(np.int32(1))], (2,), True,
           options="RangeOptions")  # fmt: skip
    places = s.made("GATHER", [s.shape, _ints(net, 2, 0)], (2,), options="GatherOptions")
    s.float_of("BROADCAST_TO", [net.const(np.float32(2)), places], (4, 1), version=2)
    s.float_of("ZEROS_LIKE", [s.x], (1, 3, 4))
    backward = [_ints(net, *numbers) for numbers in ((0, 2, 0), (0, 0, 4), (-1, -1, 2))]
    s.float_of("STRIDED_SLICE", [s.x, *backward], (1, 2, 2), options="StridedSliceOptions",
               beginMask=1, endMask=1)  # fmt: skip


def test_shapes_that_a_network_computes_are_followed(tmp_path):
    net = Net()
    _chains(net)
    _check(net.data(), tmp_path / "net.so", shapes={"t0": ("N<=8", 3, 4)})


def _rounds(net: Net) -> None:
    """Double x until its largest element is at least 40."""
    x = net.input((1, 3), "float32")
    condition, body = Net(net), Net(net)
    v, largest = condition.input((1, 3), "float32"), condition.tensor((1,), "float32")
    axes = condition.const(np.array([0, 1], np.int32))
    condition.op("REDUCE_MAX", [v, axes], [largest], options="ReducerOptions")
    limit = condition.const(np.float32(40))
    condition.op("LESS", [largest, limit], [condition.output((), "bool")])
    v = body.input((1, 3), "float32")
    body.op("ADD", [v, v], [body.output((1, 3), "float32")], options="AddOptions")
    net.op("WHILE", [x], [net.output((1, 3), "float32")], options="WhileOptions",
           condSubgraphIndex=1, bodySubgraphIndex=2)  # fmt: skip


def test_loop_carried_values_may_change_size(tmp_path):
    net = Net()
    _rounds(net)
    _check(net.data(), tmp_path / "net.so", shapes={"t0": ("N<=8", 3)})


@pytest.mark.parametrize(("name", "axis"), [("convolutional_int8", "RESHAPE"),
                                            ("upsampling_float", "TRANSPOSE_CONV")])  # fmt: skip
def test_fixed_batch_in_the_file_is_an_error(name, axis):
    """LiteRT cannot run these at another batch size, either."""
    data = (FILES / f"{name}.tflite").read_bytes()
    with pytest.raises((RuntimeError, ValueError), match=axis):
        _resized(data, 3)
    model = tvmrt.plugins.tflite.frontend.load_model(data)
    shape = model.subgraphs[0].tensors[model.subgraphs[0].inputs[0]].shape
    with pytest.raises(UnsupportedError, match=f"{axis}.* one size alone"):
        tvmrt.compile(data, shapes={"x": ("N<=8", *shape[1:])})


def test_dim_option_needs_a_dynamic_dimension(tmp_path):
    with pytest.raises(KeyError, match="no input has the dimension batch"):
        ours(FILES / "convolutional_int8.tflite", [], tmp_path, dims={"batch": 8})
