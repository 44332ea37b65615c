"""A device in Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tvmrt import devices


class ToyDevice(devices.PythonDevice):
    """Computes the absolute value of floats."""

    name = "toydevice"

    def supports(self, node: Any) -> str | None:
        return None if node.op == "abs" else f"toydevice does not support {node.op}"

    def compute(self, node: Any, inputs: Sequence[Any]) -> Any:
        return np.abs(inputs[0])
