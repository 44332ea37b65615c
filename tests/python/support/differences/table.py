"""The table of intentional differences; ``docs/reference/accuracy.md`` lists them by name."""

from __future__ import annotations

from collections.abc import Callable

from .difference_types import Difference, Judge, NodeView

MICROSOFT, ML = "com.microsoft", "ai.onnx.ml"
SUB_BYTE = ("int4", "uint4", "int2", "uint2")
NO_SCALE = ("align_corners", "tf_crop_and_resize")  # source coordinates need none
EXACT, REFERENCE, RULE = Judge.EXACT, Judge.REFERENCE, Judge.RULE


def _always(node: NodeView) -> bool:
    return True


def _floats(node: NodeView) -> bool:
    return node.may_be_float()


def _integers(node: NodeView) -> bool:
    return node.is_integer()


def _resize(mode: str, by: int) -> Callable[[NodeView], bool]:
    """Return the condition that a Resize of that mode takes scales (operand 2) or sizes (3)."""

    def applies(node: NodeView) -> bool:
        has_mode = node.attr("mode", "nearest") == mode
        if node.op == "Upsample" or node.opset < 11:
            return by == 2 and has_mode
        # before opset 13 an empty tensor of scales is present if sizes are given
        return has_mode and node.has(by) and (by == 3 or not node.has(3))

    return applies


def _coordinates(node: NodeView) -> str:
    return node.attr("coordinate_transformation_mode", "half_pixel")


def _nearest_sizes(node: NodeView) -> bool:
    return _resize("nearest", 3)(node) and _coordinates(node) != "tf_crop_and_resize"


def _nearest_scales(node: NodeView) -> bool:
    return _resize("nearest", 2)(node) and _coordinates(node) not in NO_SCALE


def _scaled_corners(node: NodeView) -> bool:
    return node.has(2) and not node.has(3) and _coordinates(node) == "align_corners"


def _one_element(node: NodeView) -> bool:
    return node.attr("mode", "nearest") == "cubic" and _coordinates(node) == "pytorch_half_pixel"


def _blended_integers(node: NodeView) -> bool:
    return node.is_integer() and node.attr("mode", "nearest") in ("linear", "cubic", "bilinear")


def _cast_type(node: NodeView) -> str | None:
    """Return the element type that a Cast or CastLike converts to, None if it is unknown."""
    result = node.results[0] if node.results else None
    return result or (node.type_of(1) if node.op == "CastLike" else None)


def _float_to_integer(node: NodeView) -> bool:
    if node.op == "Pow":
        return node.is_integer() and node.may_be_float(1)
    to = _cast_type(node)
    to_integer = to is None or (to.startswith(("int", "uint")) and to not in SUB_BYTE)
    return node.may_be_float() and to_integer


def _half_precision(node: NodeView) -> bool:
    return any(kind in ("float16", "bfloat16") for kind in node.types)


def _recurrent_attributes(node: NodeView) -> bool:
    names = ("clip", "activations", "input_forget", "linear_before_reset")
    return node.has(4) or any(node.attr(n) for n in names) or node.attr("direction") is not None


def _before(opset: int) -> Callable[[NodeView], bool]:
    return lambda node: node.opset < opset


def _row(
    name: str,
    operators: str,
    judge: Judge,
    applies: Callable[[NodeView], bool] = _always,
    data: bool = False,
    differs: str = "",
) -> Difference:
    """Return a row. ``differs``: runtimes that do, by default not the judge."""
    other = "" if judge is RULE else "evaluator" if judge is Judge.ONNXRUNTIME else "onnxruntime"
    runtimes = frozenset((differs or other).split())
    return Difference(name, tuple(operators.split()), judge, runtimes, applies, data)


def _gap(
    name: str, operators: str, applies: Callable[[NodeView], bool] | None = None
) -> Difference:
    """Return a row where the evaluator is wrong; without ``applies``, for some numbers only."""
    return _row(name, operators, Judge.ONNXRUNTIME, applies or _always, applies is None)


BOTH = "onnxruntime evaluator"
TABLE: tuple[Difference, ...] = (
    # Resize
    _row("resize-nearest-sizes", "Resize", EXACT, _nearest_sizes),
    _gap("resize-nearest-scales", "Resize Upsample", _nearest_scales),
    _gap("resize-align-corners-scales", "Resize", _scaled_corners),
    _gap("resize-one-element", "Resize", _one_element),
    _gap("resize-integers", "Resize Upsample", _blended_integers),
    _gap("resize-infinities", "Resize"),
    # NaN and infinities
    _row("nan-extremes", "ReduceMax ReduceMin GlobalMaxPool MaxRoiPool RoiAlign ScatterElements "
         "ScatterND", RULE, _floats, True, "onnxruntime"),
    _row("nan-order", "ArgMax ArgMin Hardmax TopK", RULE, _floats, True, "onnxruntime"),
    _row("nan-unique", "Unique", RULE, _floats, True, BOTH),
    _row("nan-grid", "GridSample", Judge.ONNXRUNTIME, _floats, True),
    _gap("nan-quantize", f"QuantizeLinear {MICROSOFT}:QuantizeLinear"),
    _row("nan-max-pool", "MaxPool", EXACT, _floats, True, BOTH),
    _row("nan-recurrent", "GRU LSTM RNN", REFERENCE, data=True),
    _row("nan-softmax", "LogSoftmax SoftmaxCrossEntropyLoss", RULE, data=True, differs=BOTH),
    _row("special-sums", "ConvTranspose DFT STFT AveragePool LayerNormalization LRN "
         "SoftmaxCrossEntropyLoss", RULE, data=True, differs=BOTH),
    _gap("average-of-nan", "AveragePool LpPool"),
    _gap("prelu-infinity", "PRelu"),
    _gap("halves-overflow", "ReduceL2"),
    _row("log-sum-exp", "ReduceLogSumExp", RULE, data=True, differs=BOTH),
    _gap("log-softmax-digits", "LogSoftmax SoftmaxCrossEntropyLoss"),
    _row("dynamic-range", "DynamicQuantizeLinear", RULE, data=True, differs=BOTH),
    # conversions and integers
    _row("float-to-integer", "Cast CastLike Pow", EXACT, _float_to_integer, True, BOTH),
    _row("float-to-4-bits", "Cast CastLike", EXACT,
         lambda node: node.may_be_float() and _cast_type(node) in SUB_BYTE, differs=BOTH),
    _row("exponent-of-negative", "Cast CastLike", REFERENCE,
         lambda node: node.may_be_float() and _cast_type(node) == "float8_e8m0fnu", True),
    _row("integer-sums", "ReduceSum ReduceSumSquare ReduceProd ReduceL1 ReduceL2 CumSum MatMul "
         "Gemm Einsum Sum Pow", REFERENCE, _integers, True),
    _gap("integer-mean", "ReduceMean"),
    _row("integer-division", "Div Mod", RULE, _integers, True, "onnxruntime"),
    _row("integer-power", "Pow", Judge.ONNXRUNTIME, _integers, True),
    _row("shrink-integers", "Shrink", RULE, _integers, differs=BOTH),
    # no element, a scalar
    _row("empty-mean", "ReduceMean", REFERENCE, _floats, True),
    _row("empty-reduction", "ReduceMax ReduceMin ReduceProd", REFERENCE, data=True),
    _row("nonzero-scalar", "NonZero", REFERENCE, data=True),
    # digits
    _gap("half-precision-steps", "Attention RMSNormalization RotaryEmbedding Gelu Swish "
         "LayerNormalization GroupNormalization Softmax LogSoftmax MeanVarianceNormalization "
         "AveragePool SoftmaxCrossEntropyLoss", _half_precision),
    _row("double-in-single", "Attention GroupNormalization Shrink", Judge.ONNXRUNTIME,
         differs="onnxruntime"),
    _gap("dft-zeros", "DFT"),
    # attributes and versions
    _row("forest-labels", f"{ML}:TreeEnsembleClassifier", RULE, differs="onnxruntime"),
    _row("forest-base-values", f"{ML}:TreeEnsembleClassifier {ML}:TreeEnsembleRegressor", RULE,
         lambda node: bool(node.attr("base_values")), differs="onnxruntime"),
    _gap("training-statistics", "BatchNormalization", _before(14)),
    _gap("transposed-groups", "ConvTranspose", lambda node: node.attr("group", 1) > 1),
    _gap("recurrent-attributes", "GRU LSTM RNN", _recurrent_attributes),
    _gap("global-pool-axes", "GlobalMaxPool"),
    _gap("cubic-border", "GridSample",
         lambda node: "cubic" in node.attr("mode", "") and node.attr("padding_mode") == "border"),
    _gap("softmax-before-13", "Hardmax LogSoftmax Softmax", _before(13)),
    _gap("lrn-channels", "LRN", lambda node: node.attr("size", 1) % 2 == 0),
    _gap("l1-norm", "LpNormalization", lambda node: node.attr("p", 2) == 1),
    _gap("max-pool-places", "MaxPool",
         lambda node: node.attr("auto_pad") == "SAME_LOWER" or len(node.results) > 1),
    _gap("roi-coordinates", "RoiAlign", _before(16)),
    _gap("result-types", "AffineGrid BatchNormalization Det LayerNormalization ReduceSumSquare",
         lambda node: node.type_of(0) not in (None, "float32")),
    _row("unpool-shape", "MaxUnpool", REFERENCE, lambda node: node.has(2)),
    _row("attention-masks", "Attention", REFERENCE, data=True),
    # random numbers
    _row("random-numbers", "RandomNormal RandomNormalLike RandomUniform RandomUniformLike "
         "Multinomial Bernoulli", Judge.UNDEFINED, differs=BOTH),
    _row("random-dropout", "Dropout", Judge.UNDEFINED, lambda node: node.has(2), differs=BOTH),
)  # fmt: skip
