"""Check libraries of one structure with other weights: in both orders, freed, and loaded again."""

from __future__ import annotations

import dataclasses
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from tvmrt.compiler.sdk.devices import Device

from .case import Case
from .device_under_test import Network, accepted_cases, few_of_each
from .finding import Finding, find
from .reference import reference

CHECK = "libraries"
CASES, BYTES = 3, 200_000  # of an operator; and of the tensors of one
# Steps on two libraries: run, which loads it if it is not loaded, or free.
ORDERS = {
    "loaded one after the other": ("run 0", "run 1", "run 0", "run 1"),
    "freed and loaded in the other order": ("free 0", "free 1", "run 1", "run 0", "run 1"),
    "one freed, the other still loaded": ("free 1", "run 0", "run 1", "free 0", "run 1", "run 0"),
}


def check(device: Device, tolerance: float, only: tuple[str, ...] = ()) -> list[Finding]:
    """Run two libraries that differ in their weights only, in several orders of their lives."""
    claims = accepted_cases(device, only)
    cases = [c for c in few_of_each(claims, CASES, BYTES) if not c.quantized_inside]
    if not any(_varied(case) for case in cases):
        return []
    both = (cases, [_with_other_weights(case) for case in cases])
    good = f"{len(cases)} networks"
    with tempfile.TemporaryDirectory(prefix="tvmrt-") as folder:
        networks = [Network(device, own, Path(folder)) for own in both]
        return [
            find(CHECK, what, lambda steps=steps: _run_steps(networks, steps, tolerance), good)
            for what, steps in ORDERS.items()
        ]


def _run_steps(networks: list[Network], steps: tuple[str, ...], tolerance: float) -> str:
    executors: dict[str, Any] = {}
    for done, step in enumerate(steps):
        action, number = step.split()
        network = networks[int(number)]
        if action == "free":
            executors.pop(number, None)
            network.free()
            continue
        executors[number] = executors.get(number) or network.executor()
        if text := network.wrong(tolerance, executors[number]):
            return f"library {number} after {', '.join(steps[:done]) or 'nothing'}: {text}"
    return ""


def _varied(case: Case) -> list[str]:
    """Return the names of constants that may have any values."""
    names = [n for n in case.weights if (n[0] == "w" and n[1:].isdigit()) or n in ("w", "b")]
    return [name for name in names if case.weights[name].size > 1]


def _with_other_weights(case: Case) -> Case:
    """Return the case with the elements of its weights in another order."""
    rng = np.random.default_rng(11)
    changed = {
        name: rng.permutation(case.weights[name].ravel()).reshape(case.weights[name].shape)
        for name in _varied(case)
    }
    other = dataclasses.replace(case, weights={**case.weights, **changed})
    other.golden = reference(other)
    return other
