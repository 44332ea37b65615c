"""Runs the networks of a folder one after the other: worker.py ours|onnxruntime|shaken FOLDER.

The folder's plan.json says which. The answer to network N is KIND-N.npz or KIND-N.txt, the file
KIND-at has the number of the one at hand: whoever started this process finds out by it who has
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

import judge
import numpy as np
import onnx

SECONDS = 120
MOST_BYTES = 8 << 30


def main() -> None:
    kind, folder = sys.argv[1], Path(sys.argv[2])
    plan = json.loads((folder / "plan.json").read_text())
    if "ASAN_OPTIONS" not in os.environ or kind != "ours":  # its shadow is larger than any limit
        resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    run = (Ours if kind == "ours" else Theirs)(folder, plan)
    for number in plan[kind]:
        (folder / f"{kind}-at").write_text(str(number))
        signal.alarm(SECONDS)
        try:
            outputs = getattr(run, kind)(number)
            np.savez(folder / f"{kind}-{number}.npz", *outputs)
        except Exception as problem:
            text = f"{type(problem).__name__}: {problem}"
            (folder / f"{kind}-{number}.txt").write_text(text)
        signal.alarm(0)
    (folder / f"{kind}-at").write_text("done")


def feeds_of(folder: Path, number: int) -> dict[str, np.ndarray]:
    with np.load(folder / f"n{number}.npz") as file:
        return {name.removeprefix("feed:"): file[name] for name in file.files}


class Ours:
    """The networks of a library, by either executor."""

    def __init__(self, folder: Path, plan: dict[str, Any]) -> None:
        import tvmrt

        self.folder, self.plan, self.tvmrt = folder, plan, tvmrt
        self.library = tvmrt.runtime.load_module(str(folder / "networks.so"))

    def ours(self, number: int) -> list[np.ndarray]:
        executor = self._executor(number)
        for name, array in feeds_of(self.folder, number).items():
            executor.set_input(name, array)
        params = self.folder / f"n{number}.params"
        if params.exists():
            for name, array in self.tvmrt.load_param_dict(params.read_bytes()).items():
                executor.set_input(name, array)
        executor.run()
        return [executor.get_output(i).numpy() for i in range(executor.get_num_outputs())]

    def _executor(self, number: int) -> Any:
        runtime = self.tvmrt.runtime
        graph = self.folder / f"n{number}.json"
        if graph.exists():
            from tvmrt.contrib import graph_executor

            return graph_executor.create(graph.read_text(), self.library, runtime.cpu(0))
        create = self.tvmrt.get_global_func("tvm.aot_executor.create")
        return runtime.executor.AotModule(create(self.library, runtime.cpu(0), f"n{number}"))


class Theirs:
    """The same networks by onnxruntime, as they are or shaken."""

    def __init__(self, folder: Path, plan: dict[str, Any]) -> None:
        self.folder = folder

    def onnxruntime(self, number: int) -> list[np.ndarray]:
        return run_theirs(self._model(number), feeds_of(self.folder, number))

    def shaken(self, number: int) -> list[np.ndarray]:
        """All outputs of each shaken network in turn."""
        model, feeds = self._model(number), feeds_of(self.folder, number)
        found = []
        for i in range(judge.SHAKES):
            found += run_theirs(judge.shaken_model(model, i), judge.shaken_feeds(feeds, i))
        return found

    def _model(self, number: int) -> onnx.ModelProto:
        return onnx.load(self.folder / f"n{number}.onnx")


def run_theirs(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    return session.run(None, feeds)


if __name__ == "__main__":
    main()
