"""Nodes whose shapes or attributes ONNX forbids, with onnxruntime as reference."""

from __future__ import annotations

import warnings

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper
from onnx_graph import model

from tvmrt.compiler.frontend.onnx import import_model
from tvmrt.compiler.frontend.onnx.check_node import checked_import
from tvmrt.compiler.frontend.onnx.operator_constraints import ROWS, contract_of

onnxruntime.set_default_logger_severity(4)


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


IMAGE = ones(1, 4, 7, 7)
STEPS = ones(3, 2, 4)
ZERO = np.zeros(1, np.uint8)


class Sample:
    """A valid node: its operands (None if omitted; the first is the network's input)."""

    def __init__(self, op: str, *operands, opset: int = 17, outputs: int = 1, **attributes) -> None:
        self.op, self.operands, self.opset = op, list(operands), opset
        self.outputs, self.attributes = outputs, attributes

    def model(self, operands=None, attributes=None) -> onnx.ModelProto:
        operands = self.operands if operands is None else operands
        attributes = self.attributes if attributes is None else attributes
        names = ["" if o is None else f"o{i}" for i, o in enumerate(operands)]
        outputs = [f"y{i}" for i in range(self.outputs)]
        node = helper.make_node(self.op, names, outputs, "bad", **attributes)
        given = {name: o for name, o in zip(names, operands) if name}
        first = {names[0]: given.pop(names[0])}
        return model([node], first, outputs, given, opset=self.opset)

    def mutants(self):
        """Yield operands with one axis changed, added or removed, and attributes out of range."""
        for i, operand in enumerate(self.operands):
            for shape in [] if operand is None else _other_shapes(operand.shape):
                changed = [*self.operands]
                changed[i] = np.resize(operand, shape).astype(operand.dtype)
                yield f"operand {i} of {list(shape)}", changed, self.attributes
        for name, value in self.attributes.items():
            for other in _other_values(value):
                yield f"{name} = {other}", self.operands, {**self.attributes, name: other}


def _other_shapes(shape):
    for axis, extent in enumerate(shape):
        yield (*shape[:axis], extent + 1, *shape[axis + 1 :])
        yield shape[:axis] + shape[axis + 1 :]
        if extent > 1:
            yield (*shape[:axis], extent - 1, *shape[axis + 1 :])
    yield (1, *shape)


def _other_values(value):
    if isinstance(value, str):
        yield "unheard_of"
    elif isinstance(value, list):
        yield from (value[:-1], [*value, 1], [*value[:-1], 0], [*value[:-1], -1], [9] * len(value))
    elif isinstance(value, int):
        yield from (-1, 0, value + 1, 2**31)
    else:
        yield from (-1.0, 0.0)


SAMPLES = {
    "Conv": Sample(
        "Conv", IMAGE, ones(6, 2, 3, 3), ones(6), group=2, kernel_shape=[3, 3], strides=[2, 2],
        dilations=[1, 1], pads=[1, 1, 1, 1],
    ),
    "ConvTranspose": Sample(
        "ConvTranspose", IMAGE, ones(4, 3, 3, 3), ones(6), group=2, kernel_shape=[3, 3],
        strides=[2, 2], dilations=[1, 1], pads=[1, 1, 1, 1], output_padding=[1, 1],
    ),
    "ConvInteger": Sample(
        "ConvInteger", IMAGE.astype(np.uint8), ones(6, 4, 3, 3).astype(np.uint8), ZERO[0], ZERO[0],
        kernel_shape=[3, 3], pads=[1, 1, 1, 1],
    ),
    "QLinearConv": Sample(
        "QLinearConv", IMAGE.astype(np.uint8), ones(), ZERO[0], ones(6, 4, 3, 3).astype(np.uint8),
        ones(6), np.zeros(6, np.uint8), ones(), ZERO[0], np.ones(6, np.int32), kernel_shape=[3, 3],
    ),
    "MaxPool": Sample(
        "MaxPool", IMAGE, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], ceil_mode=1
    ),
    "AveragePool": Sample("AveragePool", IMAGE, kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
    "LpPool": Sample("LpPool", IMAGE, kernel_shape=[3, 3], pads=[1, 1, 1, 1], p=2),
    "LSTM": Sample(
        "LSTM", STEPS, ones(2, 12, 4), ones(2, 12, 3), ones(2, 24), np.array([3, 2], np.int32),
        ones(2, 2, 3), ones(2, 2, 3), ones(2, 9), hidden_size=3, direction="bidirectional",
    ),
    "GRU": Sample(
        "GRU", STEPS, ones(1, 9, 4), ones(1, 9, 3), ones(1, 18), np.array([3, 2], np.int32),
        ones(1, 2, 3), hidden_size=3, direction="reverse",
    ),
    "RNN": Sample(
        "RNN", STEPS, ones(1, 3, 4), ones(1, 3, 3), ones(1, 6), np.array([3, 2], np.int32),
        ones(1, 2, 3), hidden_size=3,
    ),
    "BatchNormalization": Sample("BatchNormalization", IMAGE, *[ones(4)] * 4),
    "InstanceNormalization": Sample("InstanceNormalization", IMAGE, ones(4), ones(4)),
    "GroupNormalization": Sample(
        "GroupNormalization", IMAGE, ones(4), ones(4), opset=21, num_groups=2
    ),
    "LayerNormalization": Sample("LayerNormalization", STEPS, ones(4), ones(4), axis=-1),
    "LRN": Sample("LRN", IMAGE, size=3, alpha=1e-4, beta=0.75),
    "LpNormalization": Sample("LpNormalization", IMAGE, axis=1, p=2),
    "QuantizeLinear": Sample("QuantizeLinear", IMAGE, ones(4), np.zeros(4, np.uint8), axis=1),
    "DequantizeLinear": Sample(
        "DequantizeLinear", IMAGE.astype(np.uint8), ones(4), np.zeros(4, np.uint8), axis=1
    ),
    "Gemm": Sample("Gemm", ones(2, 4), ones(5, 4), ones(5), transB=1),
    "PRelu": Sample("PRelu", IMAGE, ones(4, 1, 1)),
    "Resize": Sample(
        "Resize", IMAGE, None, np.array([1, 1, 2, 2], np.float32), mode="linear",
        coordinate_transformation_mode="half_pixel", nearest_mode="floor",
    ),
    "ReduceMax": Sample("ReduceMax", IMAGE, ints(1, 2), opset=18, keepdims=1),
    "ArgMax": Sample("ArgMax", IMAGE, axis=1),
    "CumSum": Sample("CumSum", IMAGE, ints(1)),
    "Reshape": Sample("Reshape", IMAGE, ints(1, -1)),
    "Expand": Sample("Expand", IMAGE, ints(2, 4, 7, 7)),
    "Tile": Sample("Tile", IMAGE, ints(1, 2, 1, 1)),
    "Concat": Sample("Concat", IMAGE, IMAGE, axis=1),
    "Split": Sample("Split", IMAGE, ints(1, 3), outputs=2, axis=1),
    "Slice": Sample("Slice", IMAGE, ints(0), ints(2), ints(1), ints(1)),
    "Transpose": Sample("Transpose", IMAGE, perm=[0, 2, 3, 1]),
    "Unsqueeze": Sample("Unsqueeze", IMAGE, ints(0, 2)),
    "Squeeze": Sample("Squeeze", ones(1, 4, 1), ints(0, 2)),
    "DepthToSpace": Sample("DepthToSpace", IMAGE, blocksize=2, mode="CRD"),
    "SpaceToDepth": Sample("SpaceToDepth", ones(1, 4, 6, 6), blocksize=2),
    "Pad": Sample("Pad", IMAGE, ints(0, 0, 1, 1, 0, 0, 1, 1), np.float32(1), mode="constant"),
    "TopK": Sample("TopK", IMAGE, ints(3), outputs=2, axis=1),
    "OneHot": Sample("OneHot", ints(0, 1), ints(3), np.array([0, 1], np.float32), axis=-1),
    "RoiAlign": Sample(
        "RoiAlign", IMAGE, ones(2, 4), ints(0, 0), mode="avg", output_height=2, output_width=2,
        sampling_ratio=2,
    ),
    "GridSample": Sample("GridSample", IMAGE, ones(1, 2, 2, 2), mode="bilinear", align_corners=1),
    "ReverseSequence": Sample("ReverseSequence", STEPS, ints(3, 2), batch_axis=1, time_axis=0),
    "MatMul": Sample("MatMul", ones(2, 3, 4), ones(4, 5)),
    "RMSNormalization": Sample("RMSNormalization", STEPS, ones(2, 4), opset=23, axis=1),
    "STFT": Sample("STFT", ones(1, 32, 1), np.array(4), ones(8), np.array(8)),
    "Einsum": Sample("Einsum", ones(2, 3), ones(3, 4), equation="ij,jk->ik"),
}  # fmt: skip


# Valid ONNX that onnxruntime does not support.
LACKING = (
    "NOT_IMPLEMENTED",
    "X_shape.NumDimensions() == 4 was false",  # LRN of tensors that are not images
)


def _refusal(network: onnx.ModelProto, sample: Sample, first: np.ndarray) -> str | None:
    """Return onnxruntime's error; None if it computes the node, or has no kernel for it."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    try:
        session = onnxruntime.InferenceSession(network.SerializeToString(), options)
        session.run(None, {session.get_inputs()[0].name: first} if session.get_inputs() else {})
    except Exception as problem:
        return None if any(text in str(problem) for text in LACKING) else str(problem)
    return None


@pytest.mark.parametrize("name", SAMPLES)
def test_valid_node_is_taken(name):
    sample = SAMPLES[name]
    network = sample.model()
    assert _refusal(network, sample, sample.operands[0]) is None
    assert import_model(network).outputs


@pytest.mark.parametrize("name", SAMPLES)
def test_nodes_that_onnxruntime_refuses_are_refused(name):
    sample = SAMPLES[name]
    taken = []
    for what, operands, attributes in sample.mutants():
        network = sample.model(operands, attributes)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                import_model(network)
        except (ValueError, NotImplementedError) as problem:
            assert "bad" in str(problem), what
            continue
        reason = _refusal(network, sample, operands[0])
        if reason is not None:
            taken.append((what, reason[-200:]))
    assert not taken


REFUSED = {
    "peepholes of no elements": (
        Sample("LSTM", STEPS, ones(1, 12, 4), ones(1, 12, 3), None, None, None, None, ones(1, 0)),
        r"operand p is float32\[1, 0\], expected any\[D, 3\*H\] = \[1, 9\]",
    ),
    "lengths of one of two samples": (
        Sample("LSTM", STEPS, ones(1, 12, 4), ones(1, 12, 3), None, np.array([3], np.int32)),
        "lengths has one number for each sample",
    ),
    "hidden_size of another cell": (
        Sample("LSTM", STEPS, ones(1, 12, 4), ones(1, 12, 3), hidden_size=4),
        "hidden_size is H; found hidden_size = 4, H = 3",
    ),
    "one direction of two": (
        Sample("LSTM", STEPS, ones(1, 12, 4), ones(1, 12, 3), direction="bidirectional"),
        "D is 2 where the direction is bidirectional",
    ),
    "kernel_shape in addition to weights": (
        Sample("Conv", IMAGE, ones(4, 4, 3, 3), kernel_shape=[5, 5]),
        r"attribute kernel_shape is \[5, 5\], the weights are float32\[4, 4, 3, 3\]",
    ),
    "negative pads": (
        Sample("Conv", IMAGE, ones(4, 4, 3, 3), pads=[-1] * 4),
        r"attribute pads is \[-1, -1, -1, -1\], expected 4 integers from 0",
    ),
    "dilation beyond 32 bits": (
        Sample("Conv", IMAGE, ones(4, 4, 1, 1), dilations=[2**31, 1]),
        "attribute dilations .* expected 2 integers from 1 to 2147483647",
    ),
    "output_padding of a hundred": (
        Sample("ConvTranspose", IMAGE, ones(4, 2, 3, 3), output_padding=[100, 100]),
        r"output_padding is \[100, 100\], expected numbers below the stride or the dilation",
    ),
    "pads beyond the window": (
        Sample("MaxPool", IMAGE, kernel_shape=[2, 2], pads=[5] * 4),
        r"pads is \[5, 5, 5, 5\], expected numbers below \[2, 2\], the window",
    ),
    "window of nothing": (
        Sample("MaxPool", IMAGE, kernel_shape=[0, 0]),
        r"attribute kernel_shape is \[0, 0\], expected 2 integers from 1",
    ),
    "scale of nothing": (
        Sample("Resize", IMAGE, None, np.array([1, 1, 0, 0], np.float32)),
        "scales are above 0",
    ),
    "one scale for four channels": (
        Sample("BatchNormalization", IMAGE, ones(1), ones(4), ones(4), ones(4)),
        "dimension mismatch in unification between 1 and 4",
    ),
    "one zero point for four scales": (
        Sample("QuantizeLinear", IMAGE, ones(4), ZERO),
        "scale and zero_point have one shape",
    ),
    "sum larger than the product": (
        Sample("Gemm", ones(1, 4), ones(4, 5), ones(3, 5)),
        "c broadcasts to the product",
    ),
    "axis of a scalar": (
        Sample("ReduceMax", np.float32(1), ints(1), opset=18),
        "axis 1 is outside a tensor of rank 0",
    ),
    "axis that is named twice": (
        Sample("ReduceMax", IMAGE, axes=[1, -3]),
        r"axes \[1, -3\] name an axis twice",
    ),
    "padding that is given and automatic": (
        Sample("Conv", IMAGE, ones(4, 4, 3, 3), pads=[1] * 4, auto_pad="SAME_UPPER"),
        r"attribute pads is \[1, 1, 1, 1\], but auto_pad is SAME_UPPER",
    ),
    "attribute that ONNX has not": (
        Sample("Relu", IMAGE, slope=1),
        "unknown attribute slope; there are none",
    ),
    "truth that is neither": (
        Sample("ReduceMax", IMAGE, ints(0), opset=18, keepdims=2),
        "attribute keepdims is 2, expected 0 or 1",
    ),
    "more inputs than there are": (Sample("Neg", IMAGE, IMAGE), "2 inputs, expected 1: X"),
    "operator that is no more": (
        Sample("Upsample", IMAGE, np.array([1, 1, 2, 2], np.float32)),
        "opset 17 no longer has this operator",
    ),
    "addends of two types": (
        Sample("Add", IMAGE, IMAGE.astype(np.float64)),
        r"input 1 \(B\) is float64, expected float32 as A",
    ),
    "half among floats": (
        Sample("Add", IMAGE, IMAGE.astype(np.float16)),
        r"B has inconsistent type tensor\(float16\)",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_error_names_operand_expected_and_actual_value(name):
    sample, sentence = REFUSED[name]
    with pytest.raises(ValueError, match=f"node bad .*{sentence}"):
        import_model(sample.model())


def test_axis_of_a_split_shape_beyond_32_bits_is_refused():
    """The onnx package reads 2**40 as axis 0."""
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Split", ["shape"], ["a", "b"], "bad", axis=2**40, num_outputs=2),
    ]
    network = model(nodes, {"x": IMAGE}, ["a", "b"], opset=18)
    network.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "n"
    with pytest.raises(ValueError, match=r"node bad .*axis 1099511627776 is outside"):
        import_model(network, dims={"n": (1, 9)})


def test_weights_at_run_time_that_contradict_kernel_shape_are_refused():
    sample = Sample("Conv", ones(1, 1, 7, 5), ones(1, 1, 3, 7), kernel_shape=[3, 3])
    network = sample.model()
    weights = network.graph.initializer.pop()
    network.graph.input.append(helper.make_tensor_value_info("o1", 1, list(weights.dims)))
    with pytest.raises(
        ValueError, match=r"node bad .*kernel_shape is \[3, 3\], the weights .*3, 7\]"
    ):
        import_model(network)


def test_operator_withdrawn_in_its_first_version_is_taken():
    # GroupNormalization of opset 18, withdrawn by ONNX and supported by onnxruntime
    sample = Sample("GroupNormalization", IMAGE, ones(2), ones(2), opset=18, num_groups=2)
    assert import_model(sample.model()).outputs


@pytest.mark.parametrize("op", sorted({op for op, _ in ROWS}))
def test_row_names_attributes_and_inputs_that_some_opset_has(op):
    versions = [
        s for s in onnx.defs.get_all_schemas_with_history() if s.name == op and not s.domain
    ]
    known = {name for schema in versions for name in schema.attributes}
    for contract in (contract_of(op, first) for name, first in ROWS if name == op):
        assert contract.attributes.keys() <= known
        assert len(contract.operands) <= max(schema.max_input for schema in versions)


def test_operators_of_other_domains_have_no_row():
    node = helper.make_node("Conv", ["x"], ["y"], domain="somebody")
    with checked_import(node, {"somebody": 1}, [], lambda value: None):
        pass
