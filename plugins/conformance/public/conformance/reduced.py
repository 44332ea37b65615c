"""Check mixed precision: each precision that a device offers, its errors, and memory growth."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from tvmrt.compiler.sdk.devices import Device
from tvmrt.compiler.sdk.pipeline import PRECISIONS
from tvmrt.error import UnsupportedError

from .device_under_test import Network, accepted_cases
from .finding import Finding, find
from .leaks import growth

CHECK = "reduced"
# Errors relative to the largest result.
TOLERANCES = {"float16": 0.01, "bfloat16": 0.05, "int8": 0.2}
# Continuous: a rounded operand gives a result nearby.
OPERATORS = ("MatMul", "Gemm", "Conv", "Add", "Sub", "Mul", "Relu", "Sigmoid", "Tanh")


def check(device: Device, tolerance: float, only: tuple[str, ...] = ()) -> list[Finding]:
    """Return a finding per precision; the device selects nodes and runs them. Without networks it
    says that nothing was tested."""
    words = {long: word for word, long in PRECISIONS.items()}
    if not device.precisions:
        return [Finding(CHECK, "precisions", True, "not tested: the device offers none")]
    cases = [c.case for c in accepted_cases(device, only) if c.regions]
    cases = [c for c in cases if only or c.card in OPERATORS]
    finite = lambda a: a.dtype.kind not in "iu" and np.isfinite(a).all()  # noqa: E731
    cases = [c for c in cases if all(map(finite, c.feeds.values()))]
    if not cases:
        detail = f"not tested: the device takes none of {', '.join(OPERATORS)}"
        return [Finding(CHECK, "precisions", True, detail)]
    return [f for name in device.precisions for f in _checked(device, words[name], name, cases)]


def _checked(device: Device, word: str, precision: str, cases: list) -> list[Finding]:
    with tempfile.TemporaryDirectory(prefix="tvmrt-") as folder:
        try:
            network = Network(device, cases, Path(folder), mixed_precision=word)
        except UnsupportedError as problem:
            return [Finding(CHECK, precision, False, str(problem))]

        def load_and_run() -> str:
            network.free()
            return network.wrong(TOLERANCES[precision])

        result = find(CHECK, precision, load_and_run, f"{len(cases)} networks")
        if not result.passed:
            return [result]
        return [result, growth(CHECK, f"loads and runs in {precision}", load_and_run)]
