"""Comparison of a converted model with its own predictions.

Exporters of gradient-boosting libraries ignore some training options, such as averaged trees or the
objective's last function, and then write a network with other results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

ROWS = 32
_TOLERANCE = 1e-3  # relative: wrong functions differ by more, float32 thresholds by less
_MIN_SAME = 0.85  # part of the rows; the others may take another branch, at a rounded threshold


def check_agreement(
    exported: Any, features: int, predict: Callable[[np.ndarray], Any], what: str, instead: str
) -> None:
    """Raise ValueError if no output of an exported network has the predictions of its model.

    Parameters
    ----------
    exported
        An ``onnx.ModelProto`` with one input of shape (rows, ``features``) and type float32.
    predict
        The model's own function of such rows.
    what, instead
        The model, and what to do instead, for the error.
    """
    rows = sample_rows(exported, features)
    try:
        expected = np.asarray(predict(rows), np.float64).reshape(ROWS, -1)
        outputs = _outputs(exported, rows)
    except Exception:  # of the library, for rows that it does not accept: nothing to compare with
        return
    finite = np.isfinite(expected).all(axis=1)  # a step before the trees may have no result
    if finite.any() and not any(_agrees(each[finite], expected[finite]) for each in outputs):
        raise ValueError(
            f"the network that onnxmltools makes of {what} has other results than its predict(), "
            f"as for training options that it ignores; {instead}"
        )


def sample_rows(exported: Any, features: int) -> np.ndarray:
    """Return rows with values near the thresholds of the trees in a network, and with zeros."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((ROWS, features))
    has_categories = False
    for node in exported.graph.node:
        lists = {each.name: each for each in node.attribute}
        if "nodes_values" not in lists:
            continue
        columns = np.array(lists["nodes_featureids"].ints)
        values = np.array(lists["nodes_values"].floats)
        modes = np.array(lists["nodes_modes"].strings)
        has_categories |= bool((modes == b"BRANCH_EQ").any())
        for column in {*columns[modes != b"LEAF"].tolist()} & {*range(features)}:
            of_column = values[(columns == column) & (modes != b"LEAF")]
            scale = max(float(of_column.std()), 1e-3 * float(np.abs(of_column).max()))
            rows[:, column] = rng.choice(of_column, ROWS) + scale * rng.standard_normal(ROWS)
    rows[rng.random(rows.shape) < 0.25] = 0
    rows = np.round(rows) if has_categories else rows
    return rows.astype(np.float32)


def _outputs(exported: Any, rows: np.ndarray) -> Sequence[np.ndarray]:
    """Return the outputs of numbers, by the evaluator of the onnx package."""
    from onnx.reference import ReferenceEvaluator

    name = exported.graph.input[0].name
    results = map(np.asarray, ReferenceEvaluator(exported).run(None, {name: rows}))
    return [each for each in results if each.dtype.kind in "fiu" and len(each) == ROWS]


def _agrees(output: np.ndarray, expected: np.ndarray) -> bool:
    """Return whether an output has the predictions, perhaps those of the second of two classes."""
    output = np.asarray(output, np.float64).reshape(len(expected), -1)
    if output.shape[1] == 2 and expected.shape[1] == 1:
        output = output[:, 1:]
    if output.shape != expected.shape:
        return False
    bound = _TOLERANCE * np.abs(expected).max(initial=1e-3)
    same = (np.abs(output - expected) <= bound).all(axis=1)
    return bool(same.mean() >= _MIN_SAME)
