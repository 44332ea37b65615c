"""Correct results of cases, and their comparison with those of a device."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper

from tvmrt.cli.onnxruntime_session import onnxruntime_session

from .case import Case

# Part of a step, and of a value: the error of float32 arithmetic before a number is rounded.
DOUBT = 2.0**-17


def reference(case: Case, feeds: dict[str, np.ndarray] | None = None) -> list[np.ma.MaskedArray]:
    """Return the case's outputs. Masked elements may be rounded to either side, as their numbers
    are halfway between two integers within the errors of float32."""
    model = case.model()
    rounded = {node.output[0]: node for node in case.nodes if node.op_type == "QuantizeLinear"}
    found = iter(
        run_model(model, feeds or case.feeds, [node.input[0] for node in rounded.values()])
    )
    goldens = {name: np.ma.masked_array(next(found)) for name in case.outputs}
    for name, number in zip(rounded, found):
        if name in goldens and not case.exact:
            mask = _doubtful(number, case, rounded[name])
            goldens[name] = np.ma.masked_array(goldens[name].data, mask=mask)
    return list(goldens.values())


def has_inner_doubt(case: Case) -> bool:
    """Return whether a quantised tensor that is read again has an element in doubt."""
    rounded = [node for node in case.nodes if node.op_type == "QuantizeLinear"]
    inner = [n for n in rounded if any(n.output[0] in reader.input for reader in case.nodes)]
    numbers = run_model(case.model(), case.feeds, [node.input[0] for node in inner])
    numbers = numbers[len(case.outputs) :]
    return any(_doubtful(x, case, node).any() for x, node in zip(numbers, inner))


def _doubtful(number: np.ndarray, case: Case, node: onnx.NodeProto) -> np.ndarray:
    """Return where a number lies halfway between two integers of the type's range."""
    scale, zero = (np.asarray(case.weights[name]) for name in node.input[1:3])
    limits = np.iinfo(zero.dtype)
    if scale.ndim:  # one for each index of an axis
        axis = next((a.i for a in node.attribute if a.name == "axis"), 1)
        shape = [-1 if i == axis % number.ndim else 1 for i in range(number.ndim)]
        scale, zero = scale.reshape(shape), zero.reshape(shape)
    steps = number.astype(np.float64) / scale.astype(np.float64)
    value = steps + zero
    inside = (value > limits.min - 1) & (value < limits.max + 1)
    distance = np.abs(steps - np.floor(steps) - 0.5)
    return inside & (distance <= DOUBT * (16 + np.abs(steps)))


def run_model(
    model: onnx.ModelProto, feeds: dict[str, np.ndarray], more: list[str] | None = None
) -> list[np.ndarray]:
    """Return the outputs, and tensors ``more``, of onnxruntime or, if it is missing, of ONNX's
    reference evaluator.

    onnxruntime runs without optimisations, node by node as ONNX defines them: its fused 8-bit
    matmuls saturate sums on some processors.
    """
    model.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in more or ())
    try:
        return onnxruntime_session(model, 1, optimise=False).run(None, feeds)
    except ImportError:
        from onnx.reference import ReferenceEvaluator

        return ReferenceEvaluator(model).run(None, feeds)


def difference(
    found: np.ndarray, golden: np.ma.MaskedArray, tolerance: float, steps: int = 0
) -> tuple[float, str]:
    """Return the largest error, relative to the largest golden value, and a description of a
    mismatch. ``steps``: the difference that is allowed for integers of 8 bits."""
    wanted = np.ma.getdata(golden)
    if (found.dtype, found.shape) != (wanted.dtype, wanted.shape):
        return 0.0, f"gave {found.dtype}{list(found.shape)}, not {wanted.dtype}{list(wanted.shape)}"
    if wanted.dtype == bool or wanted.dtype.kind in "iu":
        distance = np.abs(found.astype(np.int64) - wanted.astype(np.int64))
        distance -= np.where(np.ma.getmaskarray(golden), 1, 0)
        step = int(distance.max(initial=0))
        is_byte = wanted.dtype != bool and wanted.dtype.itemsize == 1
        return 0.0, f"is off by {step}" if step > (steps if is_byte else 0) else ""
    finite = np.isfinite(wanted)
    if not np.isfinite(found[finite]).all():
        return float("inf"), "gave values that are not finite"
    if not np.array_equal(np.isnan(found), np.isnan(wanted)):
        return float("inf"), "returned numbers instead of NaN"
    if not np.array_equal(found[~finite], wanted[~finite], equal_nan=True):
        return float("inf"), "returned other values instead of infinities"
    found, wanted = found[finite], wanted[finite]
    error = float(np.abs(found - wanted).max(initial=0) / max(np.abs(wanted).max(initial=0), 1e-6))
    return error, f"error {error:.2e} of the largest value" if error > tolerance else ""
