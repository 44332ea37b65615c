"""Rows of the table for which the ONNX reference evaluator is wrong, or both judges are."""

from __future__ import annotations

from collections.abc import Callable

from .difference_types import ORT, REFERENCE, TEXT, Difference, Judge, NodeView, always


def _gap(
    name: str,
    operators: str,
    condition: str,
    ours: str,
    theirs: str,
    applies: Callable[[NodeView], bool] | None = None,
) -> Difference:
    """Return a row where onnxruntime follows the standard's text and the evaluator does not.

    Without ``applies``, the condition depends on run-time values.
    """
    return Difference(
        name,
        tuple(operators.split()),
        condition,
        ours,
        "the standard's text",
        (TEXT, ORT),
        (f"{REFERENCE} ({theirs})",),
        Judge.ONNXRUNTIME,
        applies or always,
        data=applies is None,
    )


def _is_integer(node: NodeView) -> bool:
    return node.is_integer()


def _has_attributes_of_recurrence(node: NodeView) -> bool:
    names = ("clip", "activations", "input_forget", "linear_before_reset")
    return node.has(4) or any(node.attr(n) for n in names) or node.attr("direction") is not None


GAPS = (
    _gap("average-of-nan", "AveragePool LpPool", "NaN or an infinity in a window, `ceil_mode`",
         "NaN is a term of the sum", "leaves NaN out, and with it the padding of `ceil_mode`"),
    _gap("training-statistics", "BatchNormalization", "before opset 14",
         "the statistics of the batch", "other statistics", lambda node: node.opset < 14),
    _gap("transposed-groups", "ConvTranspose", "`group` above 1", "a convolution in each group",
         "supports one group", lambda node: node.attr("group", 1) > 1),
    _gap("recurrent-attributes", "GRU LSTM RNN",
         "`sequence_lens`, `clip`, activations, other directions", "as the text says",
         "supports few of them", _has_attributes_of_recurrence),
    _gap("global-pool-axes", "GlobalMaxPool", "other than two spatial axes",
         "the maximum over all spatial axes", "takes two axes"),
    _gap("cubic-border", "GridSample", "`mode` cubic, `padding_mode` border",
         "each coordinate of the 16 elements is clamped", "clamps the centre only",
         lambda node: "cubic" in node.attr("mode", "") and node.attr("padding_mode") == "border"),
    _gap("softmax-before-13", "Hardmax LogSoftmax Softmax", "before opset 13",
         "over all axes from `axis` on", "over one axis", lambda node: node.opset < 13),
    _gap("lrn-channels", "LRN", "an even `size`", "the channels of the text", "other channels",
         lambda node: node.attr("size", 1) % 2 == 0),
    _gap("l1-norm", "LpNormalization", "`p` = 1", "the sum of magnitudes",
         "the sum, without the magnitude", lambda node: node.attr("p", 2) == 1),
    _gap("max-pool-places", "MaxPool", "`SAME_LOWER`, or the second output",
         "indices and padding of the text", "differs in both",
         lambda node: node.attr("auto_pad") == "SAME_LOWER" or len(node.results) > 1),
    _gap("roi-coordinates", "RoiAlign", "before opset 16", "`output_half_pixel` coordinates",
         "`half_pixel`", lambda node: node.opset < 16),
    _gap("resize-infinities", "Resize", "an infinity or NaN among the numbers",
         "elements of weight 0 are left out", "infinity times 0 is NaN"),
    _gap("log-softmax-digits", "LogSoftmax SoftmaxCrossEntropyLoss",
         "an element far below the maximum", "x minus the logarithm of the sum",
         "the logarithm of a softmax that became 0"),
    _gap("prelu-infinity", "PRelu", "an infinity, slope 0", "the positive infinity stays",
         "also multiplies elements that are not negative"),
    _gap("halves-overflow", "ReduceL2", "squares beyond float16", "the root of the exact sum",
         "squares in float16"),
    _gap("integer-mean", "ReduceMean", "integers whose sum is beyond the type",
         "the mean of the exact sum, toward zero", "the sum wraps around"),
    _gap("result-types", "AffineGrid BatchNormalization Det LayerNormalization ReduceSumSquare",
         "operands other than float32", "the types of the operator's definition",
         "float32, float64, int64 or the type of the first operand",
         lambda node: node.type_of(0) not in (None, "float32")),
)  # fmt: skip

BOTH = (
    Difference(
        "nan-max-pool",
        ("MaxPool",),
        "NaN in a window, or a window of nothing but padding",
        "the result is NaN, on every processor; a window of padding gives -infinity",
        "IEEE arithmetic, and the text's padding of -infinity",
        ("numpy", "PyTorch"),
        (f"{ORT} (keeps some NaN; the smallest number)", f"{REFERENCE} (leaves NaN out)"),
        Judge.EXACT,
        lambda node: node.may_be_float(),
        data=True,
    ),
    Difference(
        "special-sums",
        ("ConvTranspose", "DFT", "STFT", "AveragePool", "LayerNormalization", "LRN",
         "SoftmaxCrossEntropyLoss"),
        "infinities, NaN, or numbers whose sum is beyond the type or cancels",
        "the sum in an order of its own: finite, infinite or NaN",
        "the order of a sum is open",
        (),
        (ORT, REFERENCE),
        Judge.RULE,
        data=True,
    ),
    Difference(
        "nan-softmax",
        ("LogSoftmax", "SoftmaxCrossEntropyLoss"),
        "NaN in a row",
        "the row is NaN",
        "IEEE arithmetic",
        ("numpy",),
        (f"{ORT} (float64: it takes the maximum of the others)", REFERENCE),
        Judge.RULE,
        data=True,
    ),
    Difference(
        "dynamic-range",
        ("DynamicQuantizeLinear",),
        "NaN or an infinity, or nothing but 0",
        "the scale is NaN and the integers 0; for zeros the scale is 1",
        "the formula has no value there",
        (f"{ORT}, for zeros",),
        (f"{ORT} (leaves NaN out)", f"{REFERENCE} (the scale of zeros is 1 / 255)"),
        Judge.RULE,
        data=True,
    ),
    Difference(
        "shrink-integers",
        ("Shrink",),
        "integers, with a `bias` or `lambd` that has a fraction",
        "both lose their fraction first",
        "the operator's definition as a function casts them to the type of the input",
        (TEXT,),
        (f"{ORT} (subtracts in floats)", f"{REFERENCE} (subtracts in floats)"),
        Judge.RULE,
        _is_integer,
    ),
)  # fmt: skip

ONNXRUNTIME = (
    Difference(
        "nan-recurrent",
        ("GRU", "LSTM", "RNN"),
        "NaN among the numbers",
        "the state becomes NaN",
        "IEEE arithmetic",
        (REFERENCE,),
        (f"{ORT} (its activations clamp NaN)",),
        Judge.REFERENCE,
        data=True,
    ),
    Difference(
        "log-sum-exp",
        ("ReduceLogSumExp",),
        "numbers whose exponentials are beyond the type",
        "the maximum is subtracted first, so that nothing overflows",
        "the formula, without the overflow of a step",
        (f"{REFERENCE}, but for rows of -infinity",),
        (f"{ORT} (infinity)", f"{REFERENCE} (NaN for rows of -infinity)"),
        Judge.RULE,
        data=True,
    ),
    Difference(
        "nonzero-scalar",
        ("NonZero",),
        "a scalar",
        "a result of shape [0, count]",
        "the standard's text",
        (TEXT, REFERENCE),
        (f"{ORT} ([1, count])",),
        Judge.REFERENCE,
        data=True,
    ),
    Difference(
        "unpool-shape",
        ("MaxUnpool",),
        "with `output_shape`",
        "the indices count in the padded result",
        "the standard's test case",
        (TEXT, REFERENCE),
        (f"{ORT} (indices count in the smaller result)",),
        Judge.REFERENCE,
        lambda node: node.has(2),
    ),
    Difference(
        "attention-masks",
        ("Attention",),
        "masked scores, in the output of the scores",
        "-infinity",
        "the standard's test case",
        (TEXT, REFERENCE),
        (f"{ORT} (the smallest number of the type)",),
        Judge.REFERENCE,
        data=True,
    ),
)  # fmt: skip

EVALUATOR_ROWS = (*GAPS, *BOTH, *ONNXRUNTIME)
