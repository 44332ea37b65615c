"""The table of intentional differences."""

from __future__ import annotations

from .difference_types import ORT, REFERENCE, TEXT, Difference, Judge, NodeView
from .evaluator_rows import EVALUATOR_ROWS

MICROSOFT, ML = "com.microsoft", "ai.onnx.ml"
NUMPY = "numpy"
TORCH, SKLEARN = "PyTorch", "scikit-learn"
LITERT, TFLM = "LiteRT's reference kernels", "TFLM"


def _of(domain: str, names: str) -> tuple[str, ...]:
    return tuple(f"{domain}:{name}" for name in names.split())


def _is_resize(node: NodeView, mode: str, by: int) -> bool:
    """Return whether a Resize of that mode takes scales (operand 2) or sizes (operand 3)."""
    if node.op == "Upsample" or node.opset < 11:
        return by == 2 and node.attr("mode", "nearest") == mode
    # before opset 13 an empty tensor of scales is present if sizes are given
    return node.attr("mode", "nearest") == mode and node.has(by) and (by == 3 or not node.has(3))


NO_SCALE = ("align_corners", "tf_crop_and_resize")  # source coordinates need none


def _coordinates(node: NodeView) -> str:
    return node.attr("coordinate_transformation_mode", "half_pixel")


def _by_sizes(node: NodeView) -> bool:
    return _is_resize(node, "nearest", 3) and _coordinates(node) != "tf_crop_and_resize"


def _by_scales(node: NodeView) -> bool:
    return _is_resize(node, "nearest", 2) and _coordinates(node) not in NO_SCALE


def _scaled_corners(node: NodeView) -> bool:
    scaled = node.has(2) and not node.has(3)
    return node.op == "Resize" and scaled and _coordinates(node) == "align_corners"


def _single_element(node: NodeView) -> bool:
    cubic = node.op == "Resize" and node.attr("mode", "nearest") == "cubic"
    return cubic and _coordinates(node) == "pytorch_half_pixel"


def _blended_integers(node: NodeView) -> bool:
    return node.is_integer() and node.attr("mode", "nearest") in ("linear", "cubic", "bilinear")


SUB_BYTE = ("int4", "uint4", "int2", "uint2")


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


def _float_to_sub_byte(node: NodeView) -> bool:
    return node.may_be_float() and _cast_type(node) in SUB_BYTE


def _floats(node: NodeView) -> bool:
    return node.may_be_float()


def _integers(node: NodeView) -> bool:
    return node.is_integer()


def _int8_activations(node: NodeView) -> bool:
    return bool(node.attr("accuracy_level", 0) == 4)


def _half_precision(node: NodeView) -> bool:
    return any(kind in ("float16", "bfloat16") for kind in node.types)


RESIZE = (
    Difference(
        "resize-nearest-sizes",
        ("Resize",),
        "`mode` nearest, by `sizes`",
        "source coordinates are quotients of integers, rounded by `nearest_mode` without an error",
        "a coordinate that is a whole number or lies half way between two decides which element is "
        "taken; rounded to a float it may lie on the other side",
        ("exact fractions", f"{REFERENCE}, but for coordinates that float64 rounds"),
        (f"{ORT} (float32: `floor`, `ceil`)",),
        Judge.EXACT,
        _by_sizes,
    ),
    Difference(
        "resize-nearest-scales",
        ("Resize", "Upsample"),
        "`mode` nearest, by `scales`",
        "source coordinates are quotients in float32: 1 / 0.33333334 is 3",
        "a scale of float32 stands for the number that was rounded to it",
        (ORT, TORCH),
        (f"{REFERENCE} (float64: 1 / 0.33333334 is below 3)",),
        Judge.ONNXRUNTIME,
        _by_scales,
    ),
    Difference(
        "resize-align-corners-scales",
        ("Resize",),
        "`align_corners`, by `scales` that give no whole extent",
        "the corners of the result are those of the input",
        "that is what the mode is for",
        (ORT,),
        (f"{REFERENCE} (divides by the fractional extent, and so do the suite's "
         "`resize_downsample_scales_{linear,cubic}_align_corners`)",),
        Judge.ONNXRUNTIME,
        _scaled_corners,
    ),
    Difference(
        "resize-one-element",
        ("Resize",),
        "`pytorch_half_pixel`, `mode` cubic, to one element",
        "the source coordinate is 0",
        "the standard's text says so",
        (TEXT, ORT),
        (f"{REFERENCE} (-0.5)",),
        Judge.ONNXRUNTIME,
        _single_element,
    ),
    Difference(
        "resize-integers",
        ("Resize", "Upsample"),
        "`mode` linear or cubic of integers",
        "the blended number loses its fraction; with `antialias` it is rounded to nearest",
        "networks of integers come from tools that were tried with onnxruntime",
        (ORT,),
        (f"{REFERENCE} (always rounds to nearest)",),
        Judge.ONNXRUNTIME,
        _blended_integers,
    ),
)  # fmt: skip

NAN = (
    Difference(
        "nan-extremes",
        (
            "ReduceMax",
            "ReduceMin",
            "GlobalMaxPool",
            "MaxRoiPool",
            "RoiAlign",
            "ScatterElements",
            "ScatterND",
        ),
        "NaN among the numbers",
        "the result is NaN, on every processor",
        "IEEE arithmetic; others keep a NaN in some elements of a row and not in others",
        (NUMPY, TORCH),
        (ORT,),
        Judge.RULE,
        _floats,
        data=True,
    ),
    Difference(
        "nan-order",
        ("ArgMax", "ArgMin", "Hardmax", "TopK"),
        "NaN among the numbers",
        "ArgMax, ArgMin and Hardmax find the first NaN (the last by `select_last_index`), and for "
        "TopK NaN is larger than every number",
        "one order of numbers for all operators",
        (NUMPY, REFERENCE),
        (ORT,),
        Judge.RULE,
        _floats,
        data=True,
    ),
    Difference(
        "nan-unique",
        ("Unique",),
        "several NaN",
        "NaN as an element equals NaN; along an axis of several, a slice with NaN equals none, and "
        "NaN is larger than every number",
        "numpy, which the standard refers to",
        (f"{NUMPY} (but slices of float16, where it takes NaN for the smallest number)",),
        (
            f"{REFERENCE} (also without NaN: it takes elements along axis 0 if not `sorted`)",
            f"{TORCH} (each NaN is an element of its own)",
            f"{ORT} (loses other elements)",
        ),
        Judge.RULE,
        _floats,
        data=True,
    ),
    Difference(
        "nan-grid",
        ("GridSample",),
        "NaN as a coordinate",
        "NaN stands for -1",
        "what the two runtimes that compute it give",
        (ORT, TORCH),
        (f"{REFERENCE} (refuses it)",),
        Judge.ONNXRUNTIME,
        _floats,
        data=True,
    ),
    Difference(
        "nan-quantize",
        ("QuantizeLinear", *_of(MICROSOFT, "QuantizeLinear")),
        "NaN, an infinity, or a quotient beyond int32",
        "it saturates: NaN becomes the smallest number of the type, an infinity its bound",
        "the standard asks for saturation and leaves NaN open",
        (ORT,),
        (f"{REFERENCE} (such a number wraps around)",),
        Judge.ONNXRUNTIME,
        data=True,
    ),
    Difference(
        "nan-forest",
        _of(ML, "TreeEnsemble TreeEnsembleClassifier TreeEnsembleRegressor"),
        "NaN in a column",
        "NaN goes where `nodes_missing_value_tracks_true` of the file says",
        "skl2onnx does not write how scikit-learn routes missing values, so that the file itself "
        "differs from the estimator",
        (ORT,),
        (f"{SKLEARN} (the estimator that the file was made from)",),
        Judge.ONNXRUNTIME,
        data=True,
    ),
)

INTEGERS = (
    Difference(
        "float-to-integer",
        ("Cast", "CastLike", "Pow"),
        "a float beyond the integer's range, or NaN",
        "the nearest bound of the integer; NaN becomes 0",
        "the standard leaves it open, and others give what the processor gives",
        (),
        (ORT, REFERENCE),
        Judge.EXACT,
        _float_to_integer,
        data=True,
    ),
    Difference(
        "float-to-4-bits",
        ("Cast", "CastLike"),
        "a float to int4, uint4, int2 or uint2",
        "the lowest bits of the nearest integer, ties to even; NaN and infinities become 0",
        "the standard's pages on 4-bit and 2-bit integers; they do not mention NaN",
        (TEXT,),
        (f"{ORT} (ties away from zero)", f"{REFERENCE} (toward zero)"),
        Judge.EXACT,
        _float_to_sub_byte,
    ),
    Difference(
        "exponent-of-negative",
        ("Cast", "CastLike"),
        "a negative float to float8e8m0",
        "the power of two that is nearest to the magnitude, by `round_mode`",
        "the type has no sign; the standard leaves it open",
        (REFERENCE,),
        (f"{ORT} (the smallest number)",),
        Judge.REFERENCE,
        lambda node: node.may_be_float() and _cast_type(node) == "float8_e8m0fnu",
        data=True,
    ),
    Difference(
        "integer-sums",
        (
            "ReduceSum", "ReduceSumSquare", "ReduceProd", "ReduceL1", "ReduceL2", "CumSum",
            "MatMul", "Gemm", "Einsum", "Sum", "Pow",
        ),
        "integers whose sum, product or power is beyond the type",
        "it wraps around",
        "two's complement, as sums and products of two elements",
        (NUMPY, REFERENCE),
        (f"{ORT} (adds some up in floats, whose results saturate and lose digits)",),
        Judge.REFERENCE,
        _integers,
        data=True,
    ),
    Difference(
        "integer-division",
        ("Div", "Mod"),
        "an integer divided by 0",
        "the quotient and the remainder are 0",
        "the standard leaves it open; a run does not end for one element",
        (f"{REFERENCE}, by way of {NUMPY}",),
        (f"{ORT} (refuses the run or ends the process)",),
        Judge.RULE,
        _integers,
        data=True,
    ),
    Difference(
        "integer-power",
        ("Pow",),
        "an integer to a negative whole power",
        "0, unless the base is 1 or -1",
        "the quotient rounded toward zero",
        (ORT,),
        (f"{REFERENCE} (refuses it)",),
        Judge.ONNXRUNTIME,
        _integers,
        data=True,
    ),
    Difference(
        "empty-mean",
        ("ReduceMean",),
        "along an axis of no element",
        "NaN",
        "0 / 0, as for every sum divided by its number of terms",
        (NUMPY, REFERENCE),
        (f"{ORT} (0)",),
        Judge.REFERENCE,
        _floats,
        data=True,
    ),
    Difference(
        "empty-reduction",
        ("ReduceMax", "ReduceMin", "ReduceProd"),
        "along an axis of no element",
        "one element with the operator's neutral number",
        "the standard",
        (REFERENCE,),
        (f"{ORT} (folds the axis to no element in some forms)",),
        Judge.REFERENCE,
        data=True,
    ),
)  # fmt: skip

ROUNDING = (
    Difference(
        "quantized-steps",
        _of(
            MICROSOFT,
            "QLinearAdd QLinearMul QLinearConcat QLinearSigmoid QLinearLeakyRelu QLinearSoftmax "
            "QLinearAveragePool QLinearGlobalAveragePool QLinearReduceMean QLinearWhere QGemm",
        ),
        "results half way between two steps",
        "a result of bytes is rounded once, ties to even; means of QLinearAveragePool are those "
        "of the bytes",
        f"{ORT}'s own kernels multiply by quotients of scales, and round differently from "
        "processor to processor",
        ("the formula of the operator",),
        (f"{ORT} (by one step)",),
        Judge.ONNXRUNTIME,
        data=True,
        steps=1,
    ),
    Difference(
        "state-in-floats",
        _of(MICROSOFT, "DynamicQuantizeLSTM"),
        "more than one time step",
        "the state stays in floats",
        "rounding it to bytes at each step loses digits for nothing",
        ("the formula of the operator",),
        (f"{ORT} (rounds the state to bytes at each step)",),
        Judge.ONNXRUNTIME,
    ),
    Difference(
        "activations-in-floats",
        _of(MICROSOFT, "MatMulNBits"),
        "`accuracy_level` 4",
        "activations stay in floats, unless `precision` is int8",
        "the attribute permits rounding to 8 bits and does not ask for it",
        (f"{ORT} without the attribute, as `tvmrt verify` runs it",),
        (f"{ORT} (rounds activations to 8 bits)",),
        Judge.ONNXRUNTIME,
        _int8_activations,
    ),
    Difference(
        "half-precision-steps",
        (
            "Attention", "RMSNormalization", "RotaryEmbedding", "Gelu", "Swish",
            "LayerNormalization", "GroupNormalization", "Softmax", "LogSoftmax",
            "MeanVarianceNormalization", "AveragePool", "SoftmaxCrossEntropyLoss",
        ),
        "operands in float16 or bfloat16",
        "composed operators round their results, not the steps inside",
        "fewer roundings; the difference is in the last digit of the type",
        (),
        (f"{REFERENCE} (rounds each step)", f"{ORT} (a part of the operators)"),
        Judge.ONNXRUNTIME,
        _half_precision,
    ),
    Difference(
        "double-in-single",
        ("Attention", "GroupNormalization", "Shrink"),
        "operands in float64",
        "every step is computed in float64",
        "the type of the operands",
        (REFERENCE,),
        (f"{ORT} (a factor, what `stash_type` names, or a sum in float32)",),
        Judge.ONNXRUNTIME,
    ),
)  # fmt: skip

TREES = (
    Difference(
        "forest-labels",
        _of(ML, "TreeEnsembleClassifier"),
        "two classes with scores of their own",
        "the label of the first of the greatest scores",
        "the standard",
        (SKLEARN,),
        (f"{ORT} (the second class if its score is positive)",),
        Judge.RULE,
    ),
    Difference(
        "forest-base-values",
        _of(ML, "TreeEnsembleClassifier TreeEnsembleRegressor"),
        "`base_values` of results that no leaf adds to",
        "the base value",
        "the standard",
        (REFERENCE,),
        (f"{ORT} (0, and one of the two base values is left out for two classes)",),
        Judge.RULE,
        lambda node: bool(node.attr("base_values")),
    ),
)

TRANSFORMS = (
    Difference(
        "dft-zeros",
        ("DFT",),
        "results that are 0 but for rounding",
        "the sum of products, about 1e-15 of the largest",
        "no term is left out",
        ("exact arithmetic",),
        (f"{REFERENCE} ({NUMPY}'s rounding, 1.9e-7 in the suite's `dft_inverse`)",),
        Judge.ONNXRUNTIME,
        data=True,
    ),
)

RANDOM = (
    Difference(
        "random-numbers",
        (
            "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial",
            "Bernoulli",
        ),
        "always",
        "numbers of Philox, the same on every processor for a seed",
        "the standard leaves the generator open",
        (),
        (ORT, f"{REFERENCE} ({NUMPY}'s generator)"),
        Judge.UNDEFINED,
    ),
    Difference(
        "random-dropout",
        ("Dropout",),
        "in training mode",
        "the mask is made of Philox's numbers",
        "the standard leaves the generator open",
        (),
        (ORT, f"{REFERENCE} ({NUMPY}'s generator)"),
        Judge.UNDEFINED,
        lambda node: node.has(2),
    ),
)  # fmt: skip

TFLITE = (
    Difference(
        "tflite-lstm",
        ("tflite:UNIDIRECTIONAL_SEQUENCE_LSTM", "tflite:BIDIRECTIONAL_SEQUENCE_LSTM"),
        "int8, with either rounding of `.tflite` kernels",
        f"the integers of {LITERT}",
        "the file is judged by the interpreter that it was made for",
        (LITERT,),
        (f"{TFLM} (its own gates: by steps)",),
        Judge.RULE,
    ),
    Difference(
        "tflite-sum",
        ("tflite:SUM",),
        "int8 or int16, quantised",
        "the sum of the real numbers, rounded once; beyond the type its nearest bound",
        "the formula of the operator",
        ("LiteRT's optimised kernels",),
        (f"{LITERT} (read the elements as uint8)",),
        Judge.RULE,
    ),
)

TABLE: tuple[Difference, ...] = (
    *RESIZE, *NAN, *INTEGERS, *ROUNDING, *TREES, *TRANSFORMS, *EVALUATOR_ROWS, *RANDOM,
    *TFLITE,
)  # fmt: skip
