"""Check networks with dynamic dimensions: at the maximum, at smaller sizes, and back."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

import tvmrt
from tvmrt.compiler.sdk.devices import Device

from .case import Case
from .cases import MAXIMA, dynamic_cases
from .device_under_test import AcceptedCase, merge_cases, reference, regions_of
from .finding import Finding
from .leaks import growth
from .operators import difference

CHECK = "sizes"
MINIMA = {"n": 1, "h": 3}
SIZES = (
    {"n": 13, "h": 21}, {"n": 4, "h": 5}, {"n": 1, "h": 3}, {"n": 7, "h": 20}, {"n": 13, "h": 21},
    {"n": 12, "h": 4},
)  # fmt: skip


def check(device: Device, tolerance: float, only: tuple[str, ...] = ()) -> list[Finding]:
    """Return a finding over all sizes for each network that the device runs in part."""
    cases = [c for c in dynamic_cases() if not only or c.name.startswith(only)]
    if not cases:
        return []
    accepted = [claim for claim in regions_of(cases, device, dims=_dims(cases)) if claim.regions]
    if not accepted:
        return []
    with tempfile.TemporaryDirectory(prefix="tvmrt-") as folder:
        try:
            return _run_sizes([c.case for c in accepted], device, Path(folder), tolerance)
        except Exception:  # the network at fault will raise the error again
            return [_run_alone(claim, device, Path(folder), tolerance) for claim in accepted]


def _dims(cases: list[Case]) -> dict[str, tuple[int, int]]:
    """Return the bounds of the networks' dynamic dimensions."""
    named = {name for c in cases for axes in c.sizes.values() for name in axes.values()}
    return {name: (MINIMA[name], MAXIMA[name]) for name in sorted(named)}


def _run_alone(claim: AcceptedCase, device: Device, folder: Path, tolerance: float) -> Finding:
    try:
        return _run_sizes([claim.case], device, folder, tolerance)[0]
    except Exception as problem:  # a finding, not an end of the test
        return Finding(CHECK, claim.case.name, False, str(problem) or type(problem).__name__)


def _run_sizes(cases: list[Case], device: Device, folder: Path, tolerance: float) -> list[Finding]:
    maximum = merge_cases(cases)
    library = tvmrt.compile(maximum.model(), devices=[device], dims=_dims(cases))
    path = folder / f"{len(cases)}_{cases[0].name.partition(':')[0]}.so"
    library.export(path)
    module = tvmrt.runtime.load_module(str(path))
    executor = tvmrt.contrib.graph_executor.GraphModule(module["default"](tvmrt.cpu(0)))
    wrong: dict[str, str] = {}
    for turn, sizes in enumerate(SIZES):
        feeds = _feeds(maximum, sizes, turn)
        executor.run(**feeds)
        found = [executor.get_output(i).numpy() for i in range(executor.get_num_outputs())]
        golden = reference(maximum.model(), feeds)
        owners = [case for case in cases for _ in case.outputs]
        for case, array, wanted in zip(owners, found, golden):
            _, text = difference(array, np.asarray(wanted), tolerance, case.exact)
            if text:
                wrong.setdefault(case.name, f"at {sizes}: {text}")
    good = f"{len(SIZES)} sizes"
    found = [Finding(CHECK, c.name, c.name not in wrong, wrong.get(c.name, good)) for c in cases]
    return found if wrong else [*found, _memory(executor, maximum)]


def _memory(executor, maximum: Case) -> Finding:
    """Check whether memory grows when regions are repeatedly prepared for other sizes."""
    turns = [_feeds(maximum, sizes, 0) for sizes in SIZES[:2]]

    def run() -> None:
        for feeds in turns:
            executor.run(**feeds)

    result = growth("runs of other sizes", run)
    result.check = CHECK
    return result


def _feeds(maximum: Case, sizes: dict[str, int], turn: int) -> dict[str, np.ndarray]:
    """Return inputs that differ in each turn, so that stale results are detected."""
    rolled = {name: np.roll(array, turn, axis=-1) for name, array in maximum.feeds.items()}
    return {name: _cut(array, maximum.sizes[name], sizes) for name, array in rolled.items()}


def _cut(array: np.ndarray, axes: dict[int, str], sizes: dict[str, int]) -> np.ndarray:
    """Return the first elements of the maximum input."""
    slices = tuple(
        slice(sizes[axes[axis]]) if axis in axes else slice(None) for axis in range(array.ndim)
    )
    return np.ascontiguousarray(array[slices])
