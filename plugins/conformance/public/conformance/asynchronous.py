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
from .device_under_test import accepted_cases, merge_cases, reference
from .finding import Finding
from .operators import difference

CHECK = "asynchronous"
LONG_MS = 600_000  # never exceeded
RUNS = 20  # with a limit of one millisecond
PART = 32  # networks per ahead-of-time library, since very long functions are slow to compile
LATE_SECONDS = 0.1  # time in which a run that was not stopped would still write
ENDED = "did not end in time"


def is_asynchronous(device: Device) -> bool:
    """Return whether the device's run-time half can start runs asynchronously."""
    tvmrt.get_global_func("tvmrt.device.find")(device.name)  # loads its plug-in
    describe = tvmrt.get_global_func(f"device.{device.name}.describe", allow_missing=True)
    if describe is not None:
        return bool(json.loads(str(describe()))["async"])
    return tvmrt.get_global_func(f"device.{device.name}.start", allow_missing=True) is not None


def check(device: Device, tolerance: float, only: tuple[str, ...] = ()) -> list[Finding]:
    """Check results of asynchronous runs, and the state after a timeout."""
    if not is_asynchronous(device):
        return []
    accepted = [claim.case for claim in accepted_cases(device, only) if claim.regions]
    if not accepted:
        return []
    result = []
    for what, run in WAYS.items():
        with tempfile.TemporaryDirectory(prefix="tvmrt-") as folder:
            try:
                wrong = run(device, accepted, Path(folder), tolerance)
            except Exception as problem:  # a finding, not an end of the test
                wrong = str(problem) or type(problem).__name__
        result.append(Finding(CHECK, what, not wrong, wrong or f"{len(accepted)} networks"))
    return result


def _module(device: Device, case: Case, folder: Path, limit_ms: int | None, **options: Any) -> Any:
    if limit_ms is not None:
        options["device_options"] = {device.name: {"timeout_ms": limit_ms}}
    library = tvmrt.compile(case.model(), devices=[device], **options)
    path = Path(tempfile.mkdtemp(dir=folder)) / "network.so"  # a loaded library stays loaded
    library.export(path)
    return tvmrt.runtime.load_module(str(path))


def _with_time_limit(device: Device, cases: list[Case], folder: Path, tolerance: float) -> str:
    """Run with a time limit: each run is started and polled until it ends."""
    module = _module(device, merge_cases(cases), folder, LONG_MS)
    return _compared(module, cases, tolerance)


def _started_early(device: Device, cases: list[Case], folder: Path, tolerance: float) -> str:
    """Run generated code that starts each region as early as possible and waits for results."""
    from tvmrt.runtime.executor import AotModule

    for first in range(0, len(cases), PART):
        part = cases[first : first + PART]
        module = _module(device, merge_cases(part), folder, None, schedule="async", executor="aot")
        executor = AotModule(module["default"](tvmrt.cpu(0)))
        if text := _compared(module, part, tolerance, executor):
            return text
    return ""


def _compared(module: Any, cases: list[Case], tolerance: float, executor: Any = None) -> str:
    from tvmrt.contrib.graph_executor import GraphModule

    executor = executor or GraphModule(module["default"](tvmrt.cpu(0)))
    for name, array in merge_cases(cases).feeds.items():
        executor.set_input(name, array)
    output_index = 0
    for _ in range(2):
        executor.run()
    for case in cases:
        for wanted in reference(case.model(), case.feeds):
            found = executor.get_output(output_index).numpy()
            _, text = difference(found, np.asarray(wanted), tolerance, case.exact)
            if text:
                return f"{case.name}: {text}"
            output_index += 1
    return ""


def _with_timeout(device: Device, cases: list[Case], folder: Path, tolerance: float) -> str:
    """Run with a short limit. Each run must end in time with correct results, or fail. After a
    failure the device must not write to its tensors, and the next run must be correct."""
    largest = max(cases, key=lambda case: sum(array.nbytes for array in case.feeds.values()))
    module = _module(device, largest, folder, 1)
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
    rng = np.random.default_rng(4)
    return tvmrt.nd.array(rng.integers(1, 9, row["shape"]).astype(row["dtype"]))


WAYS = {
    "a limit that no run reaches": _with_time_limit,
    "started and waited for": _started_early,
    "a limit of a millisecond": _with_timeout,
}
