"""Compare every operator that the device claims with the reference."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tvmrt.compiler.sdk.devices import Device

from .device_under_test import AcceptedCase, LoadedNetwork, accepted_cases, merge_cases, reference
from .finding import Finding

CHECK = "operators"


def check(device: Device, tolerance: float, only: tuple[str, ...] = ()) -> list[Finding]:
    """Return a finding per operator, or one in total if the device claims nothing."""
    accepted = accepted_cases(device, only)
    if not accepted:
        reason = device.absent() or "the device takes nothing of all the cases"
        return [Finding(CHECK, "claims", False, reason)]
    results = _results([claim for claim in accepted if claim.regions], device)
    return judge(accepted, results, tolerance)


def judge(accepted: Sequence[AcceptedCase], results: dict, tolerance: float) -> list[Finding]:
    """Return a finding per operator; ``results`` has arrays or an error text for each case."""
    result = []
    for operator in dict.fromkeys(claim.operator for claim in accepted):
        own = [claim for claim in accepted if claim.operator == operator]
        result.append(_judge(operator, own, results, tolerance))
    return result


def _results(accepted: list[AcceptedCase], device: Device) -> dict[str, list[np.ndarray] | str]:
    """Return the device's results by case name; an error text if it fails."""
    try:
        arrays = _run([claim.case for claim in accepted], device)
    except Exception:  # the case at fault will raise the error again
        return {claim.case.name: _run_alone(claim, device) for claim in accepted}
    results = {}
    for claim in accepted:
        count = len(claim.case.outputs)
        results[claim.case.name], arrays = arrays[:count], arrays[count:]
    return results


def _run(cases: list, device: Device) -> list[np.ndarray]:
    with tempfile.TemporaryDirectory(prefix="tvmrt-") as folder:
        network = LoadedNetwork(device, merge_cases(cases), Path(folder))
        others = {name: np.flip(array).copy() for name, array in network.case.feeds.items()}
        instance = network.instance(others)  # stale if a device keeps them
        instance.run()
        for name, array in network.case.feeds.items():
            instance.set_input(name, array)
        return network.outputs(instance)


def _run_alone(claim: AcceptedCase, device: Device) -> list[np.ndarray] | str:
    try:
        return _run([claim.case], device)
    except Exception as problem:  # a finding, not an end of the test
        return str(problem) or type(problem).__name__


def _judge(operator: str, own: list[AcceptedCase], results: dict, tolerance: float) -> Finding:
    worst, wrong = 0.0, []
    for claim in own:
        found = results.get(claim.case.name, "the compiler could not cut it")
        if isinstance(found, str):
            wrong.append(f"{claim.case.name}: {found}")
            continue
        for array, golden in zip(found, reference(claim.case.model(), claim.case.feeds)):
            error, text = difference(array, np.asarray(golden), tolerance, claim.case.exact)
            worst = max(worst, error)
            if text:
                wrong.append(f"{claim.case.name}: {text}")
    detail = f"{len(own)} cases, largest error {worst:.1e}"
    return Finding(CHECK, operator, not wrong, "; ".join(wrong) or detail)


def difference(
    found: np.ndarray, golden: np.ndarray, tolerance: float, exact: bool = False
) -> tuple[float, str]:
    """Return the largest error, relative to the largest golden value, and a description of a
    mismatch. ``exact``: integers have no tolerance, since their golden values are not rounded."""
    if (found.dtype, found.shape) != (golden.dtype, golden.shape):
        return 0.0, f"gave {found.dtype}{list(found.shape)}, not {golden.dtype}{list(golden.shape)}"
    if golden.dtype == bool or golden.dtype.kind in "iu":
        # values near a half may be rounded to either side
        step = int(np.abs(found.astype(np.int64) - golden.astype(np.int64)).max(initial=0))
        rounded = golden.dtype.itemsize == 1 and golden.dtype != bool and not exact
        allowed = 1 if rounded else 0
        return 0.0, f"is off by {step}" if step > allowed else ""
    finite = np.isfinite(golden)
    if not np.isfinite(found[finite]).all():
        return float("inf"), "gave values that are not finite"
    if not np.array_equal(np.isnan(found), np.isnan(golden)):
        return float("inf"), "returned numbers instead of NaN"
    if not np.array_equal(found[~finite], golden[~finite], equal_nan=True):
        return float("inf"), "returned other values instead of infinities"
    found, golden = found[finite], golden[finite]
    error = float(np.abs(found - golden).max(initial=0) / max(np.abs(golden).max(initial=0), 1e-6))
    return error, f"error {error:.2e} of the largest value" if error > tolerance else ""
