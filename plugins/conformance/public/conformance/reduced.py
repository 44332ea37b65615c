"""Check mixed precision: each precision that a device offers, its errors, and memory growth."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

import tvmrt
from tvmrt.compiler.sdk.devices import Device
from tvmrt.compiler.sdk.pipeline import PRECISIONS
from tvmrt.error import UnsupportedError

from .device_under_test import accepted_cases, merge_cases, reference
from .finding import Finding
from .leaks import growth
from .operators import difference

CHECK = "reduced"
# Errors relative to the largest result.
TOLERANCES = {"float16": 0.01, "bfloat16": 0.05, "int8": 0.2}
OPERATORS = ("MatMul", "Gemm", "Conv")


def check(device: Device, tolerance: float, only: tuple[str, ...] = ()) -> list[Finding]:
    """Return a finding per precision; the device selects nodes and runs them."""
    words = {long: word for word, long in PRECISIONS.items()}
    if not device.precisions:
        return []
    cases = [c.case for c in accepted_cases(device, only or OPERATORS) if c.regions]
    cases = [c for c in cases if not any(a.dtype.kind in "iu" for a in c.feeds.values())]
    cases = [c for c in cases if not c.exact and "NaN" not in c.name]
    if not cases:
        return []
    return [f for name in device.precisions for f in _checked(device, words[name], name, cases)]


def _checked(device: Device, word: str, precision: str, cases: list) -> list[Finding]:
    with tempfile.TemporaryDirectory(prefix="tvmrt-") as folder:
        path = Path(folder) / "network.so"
        try:
            library = tvmrt.compile(
                merge_cases(cases).model(), devices=[device], mixed_precision=word
            )
        except UnsupportedError as problem:
            return [Finding(CHECK, precision, False, str(problem))]
        library.export(path)
        try:
            wrong = _wrong(path, cases, TOLERANCES[precision])
        except Exception as problem:  # a finding, not an end of the test
            wrong = str(problem) or type(problem).__name__
        result = [Finding(CHECK, precision, not wrong, wrong or f"{len(cases)} networks")]
        if wrong:
            return result
        memory = growth(f"loads and runs in {precision}", lambda: _load_and_run(path, cases))
        memory.check = CHECK
        return [*result, memory]


def _load_and_run(path: Path, cases: list) -> list[np.ndarray]:
    from tvmrt.contrib.graph_executor import GraphModule

    module = tvmrt.runtime.load_module(str(path))
    executor = GraphModule(module["default"](tvmrt.cpu(0)))
    for name, array in merge_cases(cases).feeds.items():
        executor.set_input(name, array)
    executor.run()
    return [executor.get_output(i).numpy() for i in range(executor.get_num_outputs())]


def _wrong(path: Path, cases: list, tolerance: float) -> str:
    found = iter(_load_and_run(path, cases))
    for case in cases:
        for wanted in reference(case.model(), case.feeds):
            _, text = difference(next(found), np.asarray(wanted), tolerance)
            if text:
                return f"{case.name}: {text}"
    return ""
