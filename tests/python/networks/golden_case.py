"""Networks with golden outputs, found in the folder that TVMRT_MODELS names."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np

from tvmrt import plugin


def names() -> list[str]:
    """Return the networks whose operators are all supported here; empty without the folder."""
    folder = os.environ.get("TVMRT_MODELS")
    if not folder:
        return []
    index = json.loads((Path(folder) / "index.json").read_text())
    return sorted(name for name, facts in index.items() if all(map(_is_read, facts["ops"])))


def _is_read(operator: str) -> bool:
    """Whether the core or a plug-in imports the domain of an operator."""
    domain, named, _ = operator.rpartition("::")
    return not named or plugin.has("operators", (domain, "*"))


def smallest(count: int) -> list[str]:
    """Return the names of the given number of networks with the smallest files, sorted."""
    folder = Path(os.environ.get("TVMRT_MODELS", ""))
    by_size = sorted(names(), key=lambda name: (folder / f"{name}.onnx").stat().st_size)
    return sorted(by_size[:count])


def noise(folder: Path, name: str) -> float:
    """Return the largest difference between two reference runs with different optimisations."""
    return float(json.loads((folder / "index.json").read_text())[name]["noise"])


def load(folder: Path, name: str) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Return golden inputs and outputs by name."""
    with np.load(folder / f"{name}.npz") as data:
        arrays = {key: data[key] for key in data.files}
    inputs = {k: v for k, v in arrays.items() if not k.startswith("out:")}
    outputs = {k[4:]: v for k, v in arrays.items() if k.startswith("out:")}
    return inputs, outputs


def check(name: str, found: np.ndarray, golden: np.ndarray, noise: float) -> None:
    """Assert that an output is correct: floats within a mixed tolerance, int8 within one step,
    other integers equal except for 0.1 % of the elements."""
    assert found.dtype == golden.dtype, f"{name} has type {found.dtype}, not {golden.dtype}"
    assert found.shape == golden.shape, f"{name} has shape {found.shape}, not {golden.shape}"
    error = np.abs(found.astype(np.float64) - golden.astype(np.float64))
    if golden.dtype.kind == "f":
        floor = max(1e-4 * float(np.abs(golden).max(initial=0)), 10 * noise, 1e-6)
        excess = error - (1e-3 * np.abs(golden) + floor)
        assert not np.isnan(error).any(), f"{name} holds NaN"
        assert excess.max(initial=-1) <= 0, f"{name} is off by up to {error.max()}"
    elif golden.dtype.itemsize == 1:
        assert error.max(initial=0) <= max(1, noise), f"{name} is off by {error.max()} steps"
    else:
        share = float((error != 0).mean()) if error.size else 0.0
        assert share <= 0.001 + 2 * noise, f"{share:.2%} of {name} differ"
