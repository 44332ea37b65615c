"""Measure the share of commonly exported networks that load without arguments and are correct at 3
sizes.

``python tests/bench/bench_exports.py --folder FOLDER --install`` makes a virtual environment in
FOLDER with torch, timm, ultralytics, segmentation-models-pytorch and transformers (some GB),
exports the networks of ``export_networks.py`` there, loads each without arguments, and compares it
with onnxruntime without optimisations. Without ``--install`` it checks the ``.onnx`` files in
FOLDER. It takes hours, and no test runs it.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import venv
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from export_networks import NETWORKS

PACKAGES = (
    "torch", "torchvision", "onnx", "timm", "ultralytics", "segmentation-models-pytorch",
    "transformers",
)  # fmt: skip
TIMEOUT = 1800  # seconds, of an export or a comparison
TOLERANCE = 1e-4  # relative to the range of an output
# Larger tolerances: differences of onnxruntime with optimisations from itself without them. Some
# values of networks with random weights depend on the last bit of others.
MAX_OWN = 3
PARTS = (0.1, 0.25, 0.35)  # relative to the bounds of each dimension
GOALS = {"vision": 57 / 60, "language": 1.0}


def export_all(folder: Path, names: list[str]) -> dict[str, str]:
    """Export the networks that are missing in the folder; return the reasons of failures."""
    place = folder / "venv"
    python = place / "bin" / "python"
    if not python.exists():
        venv.create(place, with_pip=True)
        wheels = ["--extra-index-url", "https://download.pytorch.org/whl/cpu"]
        subprocess.run([python, "-m", "pip", "install", *wheels, *PACKAGES], check=True)
    failed = {}
    for name in names:
        out = folder / f"{name}.onnx"
        if out.exists():
            continue
        words = [python, Path(__file__).with_name("export_networks.py"), name, out]
        try:
            done = subprocess.run(
                words, capture_output=True, text=True, timeout=TIMEOUT, cwd=folder, check=False
            )
            text = done.stderr.strip() if done.returncode else ""
        except subprocess.TimeoutExpired:
            text = f"no end after {TIMEOUT} s"
        if text or not out.exists():
            failed[name] = (text.splitlines() or ["nothing was written"])[-1]
    return failed


def sizes_of(dims: dict[str, tuple[int, int]]) -> Iterator[dict[str, int]]:
    """Return three sizes of each dimension within its bounds."""
    for number, part in enumerate(PARTS, 1):
        yield {
            name: min(max(low, number if high <= 8 else int(part * high)), high)
            for name, (low, high) in dims.items()
        }


def made_up(network: Any, sizes: dict[str, int]) -> dict[str, np.ndarray]:
    """Return inputs of these sizes: small indices, masks of ones, normal floats."""
    rng = np.random.default_rng(0)
    found = {}
    for each in network.inputs:
        shape = [n if isinstance(n, int) else _at(n, sizes) for n in each.shape]
        if each.dtype.startswith(("int", "uint", "bool")):
            values = rng.integers(0, 10, shape) if "mask" not in each.name else np.ones(shape)
        else:
            values = rng.standard_normal(shape)
        found[each.name] = np.asarray(values).astype(each.dtype)
    return found


def _at(text: str, sizes: dict[str, int]) -> int:
    """Evaluate an extent such as ``(height_by_32 * 32)`` at some sizes."""
    if text in sizes:
        return sizes[text]
    numbers = re.sub(r"[^\W\d][\w.]*", lambda name: str(sizes[name[0]]), text)
    return int(eval(numbers.replace(" / ", " // "), {"__builtins__": {}}))


def judge(path: Path) -> dict[str, Any]:
    """Load a network without arguments and compare it at three sizes."""
    import tvmrt

    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            network = tvmrt.load(path, cache=False)
        except Exception as error:
            return {"loads": False, "why": f"{type(error).__name__}: {error}"}
    said = [str(each.message) for each in seen if "dynamic dimensions" in str(each.message)]
    session, faster = (_session(path, level) for level in ("ORT_DISABLE_ALL", "ORT_ENABLE_ALL"))
    right, worst, own, why = 0, 0.0, 0.0, ""
    for sizes in sizes_of(network.dims):
        inputs = made_up(network, sizes)
        try:
            expected = session.run(None, inputs)
            found = network(inputs)
        except Exception as error:
            why = f"at {sizes}: {type(error).__name__}: {error}"
            continue
        off = max(_difference(a, b) for a, b in zip(found.values(), expected))
        worst, allowed = max(worst, off), TOLERANCE
        if off > TOLERANCE:
            again = faster.run(None, inputs)
            own = max(_difference(a, b) for a, b in zip(again, expected))
            allowed = max(TOLERANCE, MAX_OWN * own)
            why = f"at {sizes} off by {off:.1e}, onnxruntime with optimisations by {own:.1e}"
        right += off <= allowed
    return {
        "loads": True, "right": right, "worst": worst, "own": own, "why": why,
        "chosen": " ".join(re.findall(r"dims=\{.*?\}", " ".join(said))),
    }  # fmt: skip


def _session(path: Path, level: str) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(str(path), options)


def _difference(value: Any, expected: Any) -> float:
    """Return the largest difference as a share of the expected range; inf for another shape."""
    a, b = np.asarray(value), np.asarray(expected)
    if a.shape != b.shape:
        return float("inf")
    if a.dtype.kind not in "fc" or not a.size:
        return 0.0 if np.array_equal(a, b) else float("inf")
    if not np.array_equal(np.isnan(a), np.isnan(b)):
        return float("inf")
    a, b = (np.nan_to_num(each.astype(np.float64)) for each in (a, b))
    return float(np.abs(a - b).max() / max(np.abs(b).max(), 1e-9))


def judged(path: Path) -> dict[str, Any]:
    """Compare a network in its own process, whose crash does not end this one."""
    words = [sys.executable, __file__, "--judge", str(path)]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=TIMEOUT, check=False)
        return dict(json.loads(done.stdout.splitlines()[-1]))
    except subprocess.TimeoutExpired:
        return {"loads": False, "why": f"no end after {TIMEOUT} s"}
    except (IndexError, ValueError):
        return {"loads": False, "why": (done.stderr.splitlines() or ["it ended"])[-1]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, help="folder of the exported networks")
    parser.add_argument("--install", action="store_true", help="install exporters, and export")
    parser.add_argument("--only", nargs="*", help="names of networks; all by default")
    parser.add_argument("--judge", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.judge:
        print(json.dumps(judge(given.judge)))
        return 0
    if given.folder is None:
        parser.error("name a --folder")
    given.folder.mkdir(parents=True, exist_ok=True)
    failed = export_all(given.folder, given.only or list(NETWORKS)) if given.install else {}
    paths = sorted(given.folder.glob("*.onnx"))
    paths = [path for path in paths if not given.only or path.stem in given.only]
    found: dict[str, dict[str, Any]] = {}
    print(f"{'network':32} {'loads':5} {'correct':7} {'worst':>8}  chosen sizes, or the error")
    for path in paths:
        row = found[path.stem] = judged(path)
        text = row["why"] or row.get("chosen", "")
        numbers = f"{row.get('right', 0)}/3", f"{row.get('worst', 0):.1e}"
        print(f"{path.stem:32} {'yes' if row['loads'] else 'no':5} {numbers[0]:7} {numbers[1]:>8}  "
              f"{' '.join(text.split())[:200]}", flush=True)  # fmt: skip
    for name, why in failed.items():
        print(f"{name:32} was not exported: {why[:200]}")
    return _print_shares(found)


def _print_shares(found: dict[str, dict[str, Any]]) -> int:
    """Print the shares by kind; return 1 if one is below its goal."""
    short = 0
    for kind in ("vision", "language", "other"):
        rows = [r for n, r in found.items() if NETWORKS.get(n, ("other", None))[0] == kind]
        if rows:
            loads = sum(row["loads"] for row in rows)
            right = sum(row.get("right") == 3 for row in rows)
            print(f"{kind}: {loads} of {len(rows)} load, {right} are correct at 3 sizes")
            short |= right / len(rows) < GOALS.get(kind, 0.0)
    return int(short)


if __name__ == "__main__":
    sys.exit(main())
