"""Check networks with dynamic dimensions: at the maximum, at smaller sizes, and back."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from tvmrt.compiler.sdk.devices import Device

from .case import Case
from .cases import MAXIMA, dynamic_cases
from .device_under_test import Network, accepted_cases, outputs_by_case, regions_of
from .finding import Finding
from .leaks import growth
from .reference import difference, reference

CHECK = "sizes"
CASES = 3  # of an operator, for each dimension
MINIMA = {"n": 1, "h": 3}
SIZES = (
    {"n": 13, "h": 21}, {"n": 4, "h": 5}, {"n": 1, "h": 3}, {"n": 7, "h": 20}, {"n": 13, "h": 21},
    {"n": 12, "h": 4},
)  # fmt: skip


def check(device: Device, tolerance: float, only: tuple[str, ...] = ()) -> list[Finding]:
    """Return a finding over all sizes for each network that the device runs in part."""
    cases = _chosen(dynamic_cases([c.case for c in accepted_cases(device, only) if c.regions]))
    if not cases:
        return []
    accepted = [claim for claim in regions_of(cases, device, dims=_dims(cases)) if claim.regions]
    if not accepted:
        return []
    with tempfile.TemporaryDirectory(prefix="tvmrt-") as folder:
        return _checked([claim.case for claim in accepted], device, Path(folder), tolerance)


def _checked(cases: list[Case], device: Device, folder: Path, tolerance: float) -> list[Finding]:
    try:
        return _run_sizes(cases, device, folder, tolerance)
    except Exception as problem:  # a finding, not an end of the test
        if len(cases) == 1:
            return [Finding(CHECK, cases[0].name, False, str(problem) or type(problem).__name__)]
    # the network at fault will raise the error again
    return [found for case in cases for found in _checked([case], device, folder, tolerance)]


def _chosen(cases: list[Case]) -> list[Case]:
    """Return the first cases of each operator and dimension."""
    groups: dict[tuple, list[Case]] = {}
    for case in cases:
        opened = next(iter(next(iter(case.sizes.values())).values()))
        groups.setdefault((case.operator, opened), []).append(case)
    return [case for group in groups.values() for case in group[:CASES]]


def _dims(cases: list[Case]) -> dict[str, tuple[int, int]]:
    """Return the bounds of the networks' dynamic dimensions."""
    named = {name for c in cases for axes in c.sizes.values() for name in axes.values()}
    return {name: (MINIMA[name], MAXIMA[name]) for name in sorted(named)}


def _run_sizes(cases: list[Case], device: Device, folder: Path, tolerance: float) -> list[Finding]:
    network = Network(device, cases, folder, dims=_dims(cases))
    maximum, executor = network.merged, network.executor({})
    wrong: dict[str, str] = {}
    for turn, sizes in enumerate(SIZES):
        feeds = _feeds(maximum, sizes, turn)
        executor.run(**feeds)
        found = [executor.get_output(i).numpy() for i in range(executor.get_num_outputs())]
        for (number, case), own in zip(enumerate(cases), outputs_by_case(cases, found)):
            prefix = f"c{number}_"
            golden = reference(case, {name: feeds[prefix + name] for name in case.feeds})
            for array, wanted in zip(own[1], golden):
                _, text = difference(array, wanted, tolerance)
                if text:
                    wrong.setdefault(case.name, f"at {sizes}: {text}")
    good = f"{len(SIZES)} sizes"
    found = [Finding(CHECK, c.name, c.name not in wrong, wrong.get(c.name, good)) for c in cases]
    if wrong:
        return found
    turns = [_feeds(maximum, sizes, 0) for sizes in SIZES[:2]]
    run = lambda: [executor.run(**feeds) for feeds in turns]  # noqa: E731
    return [*found, growth(CHECK, "runs of other sizes", run)]


def _feeds(maximum: Case, sizes: dict[str, int], turn: int) -> dict[str, np.ndarray]:
    """Return inputs that differ in each turn, so that stale results are detected."""
    found = {}
    for name, array in maximum.feeds.items():
        found[name] = np.roll(array, turn, axis=-1)
        for axis, dimension in maximum.sizes[name].items():
            found[name] = found[name].take(range(sizes[dimension]), axis)
    return found
