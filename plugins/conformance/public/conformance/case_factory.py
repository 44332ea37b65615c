"""Cases of one operator, with reproducible random numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import helper

from .case import Case


class CaseFactory:
    """Generator of cases with reproducible random numbers."""

    def __init__(self, seed: int = 20) -> None:
        self._rng = np.random.default_rng(seed)

    def normal(self, *shape: int) -> np.ndarray:
        return self._rng.normal(size=shape).astype(np.float32)

    def positive(self, *shape: int) -> np.ndarray:
        return (np.abs(self.normal(*shape)) + 0.5).astype(np.float32)

    def single(
        self,
        op: str,
        how: str,
        inputs: Sequence[np.ndarray],
        weights: Sequence[np.ndarray] = (),
        **attributes: Any,
    ) -> Case:
        """Return a case of one node ``n`` with inputs x0, x1 ..., followed by weights w0, w1 ..."""
        feeds = {f"x{i}": array for i, array in enumerate(inputs)}
        stored = {f"w{i}": array for i, array in enumerate(weights)}
        node = helper.make_node(op, [*feeds, *stored], ["y"], name="n", **attributes)
        return Case(f"{op}: {how}", [node], feeds, stored)
