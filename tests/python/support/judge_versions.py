"""Required versions of the reference implementations: onnxruntime and the ONNX evaluator."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import onnx
import onnxruntime
import pytest

# Older references lack operators of the newest opsets and get others wrong; the newest
# ones for Python 3.9 are older than that.
LEAST_ONNX, LEAST_ONNXRUNTIME = (1, 20), (1, 23)

# Errors of onnxruntime 1.23, the newest for Python 3.10: rows of length 0, an add fused
# with a convolution.
MISJUDGED = ("test_choice[ReverseSequence-", "test_fused")


def _version(text: str) -> tuple[int, int]:
    major, minor = text.split(".")[:2]
    return int(major), int(minor)


def skip_misjudged(items: Sequence[pytest.Item], folder: Path) -> None:
    """Skip all tests of a folder if the references are too old, else only those they get wrong."""
    old_runtime = _version(onnxruntime.__version__) <= LEAST_ONNXRUNTIME
    new_enough = (
        _version(onnx.__version__) >= LEAST_ONNX
        and _version(onnxruntime.__version__) >= LEAST_ONNXRUNTIME
    )
    reason = (
        f"onnx {onnx.__version__} and onnxruntime {onnxruntime.__version__} are too old to judge "
        "operators; onnx 1.20 and onnxruntime 1.23 are needed (Python 3.10 or newer)"
    )
    for item in items:
        if folder not in item.path.parents:
            continue
        if not new_enough:
            item.add_marker(pytest.mark.skip(reason=reason))
        elif old_runtime and item.name.startswith(MISJUDGED):
            item.add_marker(pytest.mark.skip(reason="onnxruntime 1.23 is wrong here"))
