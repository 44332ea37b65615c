"""Compare every operator that the device claims with the reference."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tvmrt.compiler.sdk.devices import Device

from .coverage import untested_operators
from .device_under_test import AcceptedCase, Network, accepted_cases, outputs_by_case
from .finding import Finding
from .reference import difference

CHECK = "operators"


def check(device: Device, tolerance: float, only: tuple[str, ...] = ()) -> list[Finding]:
    """Return a finding per operator, or one in total if the device claims nothing; and the
    operators that no case reaches."""
    accepted = accepted_cases(device, only)
    if not accepted:
        reason = device.absent() or "the device takes nothing of all the cases"
        return [Finding(CHECK, "claims", False, reason)]
    results = _results([claim for claim in accepted if claim.regions], device)
    found = judge(accepted, results, tolerance)
    return found if only else [*found, untested_operators(device, accepted)]


def judge(
    accepted: Sequence[AcceptedCase], results: dict, tolerance: float, steps: int = 0
) -> list[Finding]:
    """Return a finding per operator; ``results`` has arrays or an error text for each case.
    ``steps``: as of ``difference``."""
    result = []
    for operator in dict.fromkeys(claim.case.operator for claim in accepted):
        own = [claim for claim in accepted if claim.case.operator == operator]
        result.append(_judge(operator, own, results, tolerance, steps))
    return result


def _results(accepted: list[AcceptedCase], device: Device) -> dict[str, list[np.ndarray] | str]:
    """Return the device's results by case name; an error text if it fails."""
    cases = [claim.case for claim in accepted]
    try:
        return {case.name: own for case, own in outputs_by_case(cases, _run(cases, device))}
    except Exception as problem:  # a finding, not an end of the test
        if len(accepted) == 1:
            return {cases[0].name: str(problem) or type(problem).__name__}
    # the case at fault will raise the error again
    return {name: found for c in accepted for name, found in _results([c], device).items()}


def _run(cases: list, device: Device) -> list[np.ndarray]:
    with tempfile.TemporaryDirectory(prefix="tvmrt-") as folder:
        network = Network(device, cases, Path(folder))
        others = {name: np.flip(array).copy() for name, array in network.merged.feeds.items()}
        executor = network.executor(others)  # stale if a device keeps them
        executor.run()
        for name, array in network.merged.feeds.items():
            executor.set_input(name, array)
        return network.outputs(executor)


def _judge(
    operator: str, own: list[AcceptedCase], results: dict, tolerance: float, steps: int
) -> Finding:
    worst, wrong = 0.0, []
    for claim in own:
        found = results.get(claim.case.name, claim.problem)
        if isinstance(found, str):
            wrong.append(f"{claim.case.name}: {found}")
            continue
        for array, golden in zip(found, claim.case.golden):
            error, text = difference(array, golden, tolerance, steps)
            worst = max(worst, error)
            if text:
                wrong.append(f"{claim.case.name}: {text}")
    detail = f"{len(own)} cases, largest error {worst:.1e}"
    return Finding(CHECK, operator, not wrong, "; ".join(wrong) or detail)
