"""Run the networks of a folder one after the other: worker.py KIND FOLDER.

KIND is ``ours``, ``theirs``, ``onnxruntime`` (of the judges this one alone) or ``shaken``. The
folder's plan.json says which networks. The answer to network N is KIND-N.npz, whose arrays are
called RUN:OUTPUT, and RUN:failed the text of a run that fails, or KIND-N.txt. The file KIND-at has
the number of the network at hand: by it the process that started this one finds out which network
ended it. Each network has SECONDS.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
from pathlib import Path
from typing import Any

import comparison
import numpy as np
import onnx
import references

SECONDS = 120
FAILED = "failed"
MAX_BYTES = 8 << 30


def main() -> None:
    kind, folder = sys.argv[1], Path(sys.argv[2])
    plan = json.loads((folder / "plan.json").read_text())
    if (
        "ASAN_OPTIONS" not in os.environ or kind != "ours"
    ):  # the sanitizer's shadow memory exceeds any limit
        resource.setrlimit(resource.RLIMIT_AS, (MAX_BYTES, MAX_BYTES))
    run = (Ours if kind == "ours" else Theirs)(folder)
    for number in plan[kind]:
        (folder / f"{kind}-at").write_text(str(number))
        signal.alarm(SECONDS)
        try:
            arrays = {}
            for i, outputs in getattr(run, kind)(number).items():
                if isinstance(outputs, str):
                    arrays[f"{i}:{FAILED}"] = np.array(outputs)
                else:
                    arrays.update({f"{i}:{k}": array for k, array in enumerate(outputs)})
            np.savez(folder / f"{kind}-{number}.npz", **arrays)
        except Exception as problem:
            text = f"{type(problem).__name__}: {problem}"
            (folder / f"{kind}-{number}.txt").write_text(text)
        signal.alarm(0)
    (folder / f"{kind}-at").write_text("done")


def feeds_of(folder: Path, number: int) -> dict[int, dict[str, np.ndarray]]:
    """Return the inputs of each run."""
    found: dict[int, dict[str, np.ndarray]] = {}
    with np.load(folder / f"n{number}.npz") as file:
        for name in file.files:
            _, run, key = name.split(":", 2)
            found.setdefault(int(run), {})[key] = file[name]
    return found or {0: {}}


class Ours:
    """Runs the networks of a library with either executor."""

    def __init__(self, folder: Path) -> None:
        import tvmrt

        self.folder, self.tvmrt = folder, tvmrt
        self.library = tvmrt.runtime.load_module(str(folder / "networks.so"))

    def ours(self, number: int) -> dict[int, list[np.ndarray] | str]:
        """Return the outputs of all runs with one executor, or the error of a run."""
        executor = self._executor(number)
        params = self.folder / f"n{number}.params"
        if params.exists():
            for name, array in self.tvmrt.load_param_dict(params.read_bytes()).items():
                executor.set_input(name, array)
        found = {}
        for run, feeds in feeds_of(self.folder, number).items():
            try:
                found[run] = self._outputs(executor, feeds)
            except Exception as problem:
                found[run] = f"{type(problem).__name__}: {problem}"
        return found

    def _outputs(self, executor: Any, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
        for name, array in feeds.items():
            executor.set_input(name, array)
        executor.run()
        count = executor.get_num_outputs()
        return [executor.get_output(i).numpy().copy() for i in range(count)]

    def _executor(self, number: int) -> Any:
        runtime = self.tvmrt.runtime
        graph = self.folder / f"n{number}.json"
        if graph.exists():
            from tvmrt.contrib import graph_executor

            return graph_executor.create(graph.read_text(), self.library, runtime.cpu(0))
        create = self.tvmrt.get_global_func("tvm.aot_executor.create")
        return runtime.executor.AotModule(create(self.library, runtime.cpu(0), f"n{number}"))


class Theirs:
    """Runs the networks with the references, unchanged or perturbed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def theirs(self, number: int) -> dict[int, list[np.ndarray]]:
        """Return the outputs of the runs that a reference accepts. Raises its error if there are
        none."""
        model, found, refusal = self._model(number), {}, None
        for run, feeds in feeds_of(self.folder, number).items():
            try:
                found[run] = references.right_outputs(model, feeds)
            except Exception as problem:
                refusal = problem
        if not found and refusal is not None:
            raise refusal
        return found

    def onnxruntime(self, number: int) -> dict[int, list[np.ndarray]]:
        """Return the outputs of all runs from onnxruntime, even if another reference is
        preferred."""
        model = self._model(number)
        return {run: references.by_onnxruntime(model, feeds)
                for run, feeds in feeds_of(self.folder, number).items()}  # fmt: skip

    def shaken(self, number: int) -> dict[int, list[np.ndarray]]:
        """Return the outputs of each perturbed network in turn, for each run."""
        model, found = self._model(number), {}
        for run, feeds in feeds_of(self.folder, number).items():
            try:
                found[run] = self._shaken(model, feeds)
            except Exception:  # as for the network itself at these sizes
                found[run] = []
        return found

    def _shaken(self, model: references.Model, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
        """Return the perturbed outputs of one run, including the standard's if it may deviate."""
        found = []
        for i in range(comparison.SHAKES):
            model_i, feeds_i = references.shaken_model(model, i), comparison.shaken_feeds(feeds, i)
            found += references.right_outputs(model_i, feeds_i)
        if not isinstance(model, bytes) and references.is_left_to_the_standard(model):
            found += references.by_the_standard(model, feeds)
        return found

    def _model(self, number: int) -> references.Model:
        path = self.folder / f"n{number}.onnx"
        return onnx.load(path) if path.exists() else path.with_suffix(".tflite").read_bytes()


if __name__ == "__main__":
    main()
