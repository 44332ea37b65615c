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
OPERATORS = ("MatMul", "Gemm", "Conv")


def check(device: Device, tolerance: float, only: tuple[str, ...] = ()) -> list[Finding]:
    """Return a finding per precision; the device selects nodes and runs them."""
    words = {long: word for word, long in PRECISIONS.items()}
    if not device.precisions:
        return []
    cases = [c.case for c in accepted_cases(device, only) if c.regions]
    cases = [c for c in cases if only or c.card in OPERATORS]
    cases = [c for c in cases if not any(a.dtype.kind in "iu" for a in c.feeds.values())]
    cases = [c for c in cases if all(np.isfinite(a).all() for a in c.feeds.values())]
    if not cases:
        return []
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
