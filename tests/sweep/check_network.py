"""Load one exported network without arguments and compare it with onnxruntime at its sizes.

``check_network.py FOLDER`` prints one line of JSON: ``load_s`` (processor seconds with those of the
C compiler), and for each size ``right``, ``refused``, ``wrong`` or ``skipped`` with a text.
onnxruntime runs without its optimiser. A size at which onnxruntime fails is skipped. If outputs
differ, inputs are perturbed in the last bits: differences up to those of onnxruntime with itself
are right, since they depend on rounding alone.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np

TOLERANCE = 1e-3  # relative to the range of an output
SHAKES = 3
MAX_OWN = 3  # differences of onnxruntime with itself that are allowed
MAX_BYTES = 10 << 30


def compared(folder: Path) -> dict[str, Any]:
    """Return the processor seconds of the load, and the results by size."""
    (path,) = folder.glob("*.onnx")
    runs = runs_of(folder)
    try:
        session = _session(path)
    except Exception as problem:  # its exceptions share no base class
        return {"skipped": f"onnxruntime: {' '.join(str(problem).split())}"}
    judged = [_judged(session, each) for each in runs]
    if all(isinstance(each, str) for each in judged):
        return {"skipped": f"onnxruntime: {judged[0]}"}
    begin = _processor_seconds()
    try:
        network = _loaded(path)
    except Exception as problem:
        text = f"load: {type(problem).__name__}: {problem}"
        results = [("skipped" if isinstance(each, str) else "refused", text) for each in judged]
        return {"load_s": _processor_seconds() - begin, "results": results}
    load = _processor_seconds() - begin
    results = []
    for feeds, expected in zip(runs, judged):
        if isinstance(expected, str):
            results.append(("skipped", f"onnxruntime: {expected}"))
        else:
            results.append(_result(session, network, feeds, expected))
        print(json.dumps({"load_s": load, "results": results}), flush=True)
    return {"load_s": load, "results": results}


def runs_of(folder: Path) -> list[dict[str, np.ndarray]]:
    """Return the inputs of each size."""
    count = len(json.loads((folder / "sizes.json").read_text()))
    runs: list[dict[str, np.ndarray]] = [{} for _ in range(count)]
    with np.load(folder / "inputs.npz") as file:
        for key in file.files:
            number, _, name = key.partition(":")
            runs[int(number)][name] = file[key]
    return runs


def _loaded(path: Path) -> Any:
    import tvmrt

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tvmrt.load(path)


def _session(path: Path) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def _judged(session: Any, feeds: dict[str, np.ndarray]) -> list[np.ndarray] | str:
    """Return onnxruntime's outputs, or its error. Inputs that the exporter dropped are left out."""
    used = {each.name for each in session.get_inputs()}
    try:
        return [np.asarray(each) for each in session.run(None, _only(feeds, used))]
    except Exception as problem:
        return " ".join(str(problem).split())


def _only(feeds: dict[str, np.ndarray], names: set[str]) -> dict[str, np.ndarray]:
    return {name: array for name, array in feeds.items() if name in names}


def _result(
    session: Any, network: Any, feeds: dict[str, np.ndarray], expected: list[np.ndarray]
) -> tuple[str, str]:
    used = {each.name for each in session.get_inputs()}
    shapes = {name: list(each.shape) for name, each in feeds.items()}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            answer = network(_only(feeds, used))
            found = [np.asarray(each) for each in answer.values()]
    except Exception as problem:
        return "refused", f"{shapes}: {type(problem).__name__}: {problem}"
    text = first_difference(found, expected, [])
    if not text:
        return "right", ""
    shaken = []
    for number in range(SHAKES):
        again = _judged(session, _shaken(feeds, number))
        if not isinstance(again, str):
            shaken.append(again)
    text = first_difference(found, expected, shaken)
    return ("wrong", f"{shapes}: {text}") if text else ("right", "")


def first_difference(
    found: list[np.ndarray], expected: list[np.ndarray], shaken: list[list[np.ndarray]]
) -> str:
    """Return the first difference that onnxruntime itself does not have, or an empty string."""
    if len(found) != len(expected):
        return f"{len(found)} outputs instead of {len(expected)}"
    for i, (ours, theirs) in enumerate(zip(found, expected)):
        others = [each[i] for each in shaken]
        if any(each.shape != theirs.shape for each in others):
            continue  # even the shape depends on rounding
        if (ours.shape, ours.dtype) != (theirs.shape, theirs.dtype):
            return (f"output {i} is {ours.dtype}{list(ours.shape)} instead of "
                    f"{theirs.dtype}{list(theirs.shape)}")  # fmt: skip
        own = max((_distance(each, theirs) for each in others), default=0.0)
        distance = _distance(ours, theirs)
        if distance > max(TOLERANCE, MAX_OWN * own):
            return f"output {i} differs by {distance:.2g} of its range"
    return ""


def _distance(ours: np.ndarray, theirs: np.ndarray) -> float:
    """Return the largest difference relative to the range; of integers, 0 or 1."""
    if not theirs.size:
        return 0.0
    if theirs.dtype.kind not in "fc":
        return 0.0 if np.array_equal(ours, theirs) else 1.0
    a, b = ours.astype(np.float64), theirs.astype(np.float64)
    if not np.array_equal(np.isfinite(a), np.isfinite(b)):
        return float("inf")
    a, b = (np.nan_to_num(each, posinf=0, neginf=0) for each in (a, b))
    return float(np.abs(a - b).max() / max(np.abs(b).max(), 1e-6))


def _shaken(feeds: dict[str, np.ndarray], number: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(number)
    found = {}
    for name, array in feeds.items():
        by = 1 + 1e-6 * rng.uniform(-1, 1, array.shape)
        found[name] = (array * by).astype(array.dtype) if array.dtype.kind == "f" else array
    return found


def _processor_seconds() -> float:
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    used = [resource.getrusage(kind) for kind in kinds]
    return sum(each.ru_utime + each.ru_stime for each in used)


def main() -> int:
    resource.setrlimit(resource.RLIMIT_AS, (MAX_BYTES, MAX_BYTES))
    with tempfile.TemporaryDirectory(prefix="tvmrt-sweep-") as cache:
        os.environ |= {"TVMRT_CACHE": cache, "CCACHE_DISABLE": "1"}  # so that each load compiles
        print(json.dumps(compared(Path(sys.argv[1]))), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
