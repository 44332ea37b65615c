"""Operators that the ONNX reference evaluator implements in part; onnxruntime follows the
standard."""

from __future__ import annotations

GAPS = {
    "AveragePool": "NaN in a window: it is left out",
    "BatchNormalization": "before opset 14: the statistics of the batch",
    "ConvTranspose": "groups",
    "GRU": "sequence_lens, clip, activations and linear_before_reset of two directions",
    "GlobalMaxPool": "images of other than two axes",
    "GridSample": "cubic with padding_mode border",
    "Hardmax": "before opset 13 over all axes from axis on",
    "LRN": "sums over other channels than the standard's",
    "LSTM": "sequence_lens, clip, activations, coupled gates",
    "LogSoftmax": "before opset 13 over all axes from axis on",
    "LpNormalization": "p = 1",
    "LpPool": "ceil_mode, and NaN in a window",
    "MaxPool": "SAME_LOWER, and the indices of elements",
    "RNN": "sequence_lens and clip",
    "ReduceLogSumExp": "rows of -infinity alone: NaN",
    "Resize": "infinities times a weight of 0",
    "RoiAlign": "before opset 16, whose coordinates are output_half_pixel",
    "Softmax": "before opset 13 over all axes from axis on",
}
