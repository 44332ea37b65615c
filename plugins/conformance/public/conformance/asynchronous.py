"""Check asynchronous runs: with and without a time limit, and in ahead-of-time compiled networks. A
caller that waits at once without a limit calls ``run`` if the device has it."""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import tvmrt
from tvmrt.compiler.sdk.devices import Device

from .case import Case
from .device_under_test import Network, accepted_cases, description, few_of_each
from .finding import Finding, find

CHECK = "asynchronous"
LONG_MS = 600_000  # never exceeded
RUNS = 20  # with a limit of one millisecond
CASES, BYTES = 6, 300_000  # of an operator; and of the tensors of one
PART = 32  # networks per ahead-of-time library, since very long functions are slow to compile
LATE_SECONDS = 0.1  # time in which a run that was not stopped would still write
ENDED = "did not end in time"


def is_asynchronous(device: Device) -> bool:
    """Return whether the device's run-time half can start runs asynchronously."""
    described = description(device)
    if described:
        return bool(described["async"])
    return tvmrt.get_global_func(f"device.{device.name}.start", allow_missing=True) is not None


def check(device: Device, tolerance: float, only: tuple[str, ...] = ()) -> list[Finding]:
    """Check results of asynchronous runs, and the state after a timeout."""
    if not is_asynchronous(device):
        return []
    accepted = few_of_each(accepted_cases(device, only), CASES, BYTES)
    if not accepted:
        return []
    with tempfile.TemporaryDirectory(prefix="tvmrt-") as folder:
        arguments = (device, accepted, Path(folder), tolerance)
        good = f"{len(accepted)} networks"
        return [
            find(CHECK, what, lambda run=run: run(*arguments), good) for what, run in WAYS.items()
        ]


def time_limit(device: Device, milliseconds: int) -> dict[str, Any]:
    """Return options of the compiler: a limit, which also makes runs asynchronous."""
    return {"device_options": {device.name: {"timeout_ms": milliseconds}}}


def _with_time_limit(device: Device, cases: list[Case], folder: Path, tolerance: float) -> str:
    """Run with a time limit: each run is started and polled until it ends."""
    network = Network(device, cases, folder, **time_limit(device, LONG_MS))
    return network.wrong(tolerance, runs=2)


def _started_early(device: Device, cases: list[Case], folder: Path, tolerance: float) -> str:
    """Run generated code that starts each region as early as possible and waits for results."""
    options = {"schedule": "async", "executor": "aot"}
    for first in range(0, len(cases), PART):
        network = Network(device, cases[first : first + PART], folder, **options)
        if text := network.wrong(tolerance, runs=2):
            return text
    return ""


def _with_timeout(device: Device, cases: list[Case], folder: Path, tolerance: float) -> str:
    """Run with a short limit. Each run must end in time with correct results, or fail. After a
    failure the device must not write to its tensors, and the next run must be correct."""
    largest = max(cases, key=lambda case: sum(array.nbytes for array in case.feeds.values()))
    module = Network(device, [largest], folder, **time_limit(device, 1)).module
    (region,) = _regions(module)[:1]
    run = module.get_function(region["symbol"], query_imports=True)
    tensors = [_tensor(region["tensors"][i]) for i in (*region["inputs"], *region["outputs"])]
    outputs = tensors[len(region["inputs"]) :]
    right: list[np.ndarray] | None = None
    for _ in range(RUNS):
        try:
            run(*tensors)
        except Exception as problem:
            if ENDED not in str(problem):
                return str(problem)
            marks = [np.full(t.shape, 7, t.dtype) for t in outputs]
            for tensor, mark in zip(outputs, marks):
                tensor.copyfrom(mark)
            time.sleep(LATE_SECONDS)
            if not all(np.array_equal(t.numpy(), m) for t, m in zip(outputs, marks)):
                return "a run that was over its time went on writing to its outputs"
            continue
        found = [tensor.numpy() for tensor in outputs]
        right = found if right is None else right
        if not all(np.allclose(a, b, tolerance, equal_nan=True) for a, b in zip(found, right)):
            return "a run after one that was over its time gives other results"
    return ""


def _regions(module: Any) -> list[dict]:
    below = [m for own in module.imported_modules for m in (own, *own.imported_modules)]
    found = [m for m in below if m.type_key == "device_region"]
    return [region for m in found for region in json.loads(m.get_source())["regions"]]


def _tensor(row: dict) -> Any:
    numbers = np.random.default_rng(4).integers(1, 9, row["shape"])
    return tvmrt.nd.array(numbers.astype(row["dtype"]))


WAYS = {
    "a limit that no run reaches": _with_time_limit,
    "started and waited for": _started_early,
    "a limit of a millisecond": _with_timeout,
}
