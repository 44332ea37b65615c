"""Seed networks for mutants: the onnx package's operator tests, ours, and real networks."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LARGEST_BYTES = 100_000  # mutants of larger networks are too slow

sys.path.insert(0, str(ROOT / "tests/python/support"))


def operator_cases() -> dict[str, bytes]:
    """Return the networks of the onnx package's own tests, one for each use of an operator."""
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = collect_testcases(None)
    return {case.name: case.model.SerializeToString() for case in cases}


def own_networks() -> dict[str, bytes]:
    """Return the networks of our tests and examples."""
    from long_compilations import KINDS
    from varied_networks import varied_networks

    found = {name: model.SerializeToString() for name, model in varied_networks().items()}
    for kind, (build, sizes) in KINDS.items():  # mutants of the small ones must not take long
        found[f"long {kind}"] = build(sizes[0]).SerializeToString()
    paths = [*sorted((ROOT / "examples").rglob("*.onnx")), *real_paths()]
    return found | {path.stem: path.read_bytes() for path in paths}


def real_paths() -> list[Path]:
    """Return the small networks of the folder TVMRT_MODELS."""
    folder = os.environ.get("TVMRT_MODELS")
    return sorted(Path(folder).glob("*.onnx")) if folder else []


def sources() -> list[tuple[str, bytes]]:
    """Return all networks by name, in a fixed order."""
    found = operator_cases() | own_networks()
    return sorted((name, data) for name, data in found.items() if len(data) <= LARGEST_BYTES)
