"""A compiled network in this process: arrays in, arrays out, whichever executor it was made for."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tvmrt.cli import networks
from tvmrt.cli.describe import describe

if TYPE_CHECKING:
    import numpy as np
    import onnx

    from tvmrt.ir.bundle import Bundle

THREADS_VARIABLE = "TVM_NUM_THREADS"  # read by the runtime when it starts its threads


def c_spelling(name: str) -> str:
    """Return a tensor's name as AOT libraries keep it: a C identifier."""
    return re.sub(r"\W", "_", name, flags=re.ASCII)


class Session:
    """One executor of a shared library.

    Parameters
    ----------
    path
        A library that ``tvmrt compile`` or an earlier TVM made, or a package of ``tvmc compile``.
    threads
        How many threads may run one operator; all of the machine's if None. It holds for the
        process from the first session on.
    output_names
        Names for the outputs in their order; what the library calls them if None.
    """

    def __init__(
        self, path: Path, threads: int | None = None, output_names: Sequence[str] | None = None
    ):
        if threads is not None:
            os.environ[THREADS_VARIABLE] = str(threads)
        self.executor = _make_executor(path)
        self.inputs = self._input_infos()
        self.output_names = list(output_names or self._output_names())
        self.labels: dict[str, Sequence[str]] = {}  # of outputs that are places among strings
        self.bundles: dict[str, Bundle] = {}  # of outputs that are no tensors

    def _input_infos(self) -> list[networks.TensorInfo]:
        shapes, dtypes = self.executor.get_input_info()
        shapes = {**shapes, **self.executor.get_dims().get("inputs", {})}
        return [networks.TensorInfo(n, str(dtypes[n]), tuple(shapes[n])) for n in dtypes]

    def largest_inputs(self) -> list[networks.TensorInfo]:
        """The inputs with the largest extents of those that a run chooses."""
        bounds = self.executor.get_dims().get("dims", {})
        return [self._largest(info, bounds) for info in self.inputs]

    def _largest(
        self, info: networks.TensorInfo, bounds: Mapping[str, Sequence[int]]
    ) -> networks.TensorInfo:
        unknown = [e for e in info.shape if isinstance(e, str) and e not in bounds]
        if unknown:
            raise ValueError(
                f"input {info.name} has the extent {unknown[0]}, which follows from others; give "
                "--inputs IN.npz"
            )
        shape = tuple(bounds[e][1] if isinstance(e, str) else e for e in info.shape)
        return networks.TensorInfo(info.name, info.dtype, shape)

    def _output_names(self) -> list[str]:
        """Return the names of the outputs in their order, each different from the others.

        Graph executors say ``name:position``; the position is left out where the name alone tells.
        """
        from tvmrt.contrib.graph_executor import GraphModule

        count = self.executor.get_num_outputs()
        full = [str(self.executor.module["get_output_name"](i)) for i in range(count)]
        if not isinstance(self.executor, GraphModule):
            return full
        short = [name.removesuffix(f":{i}") for i, name in enumerate(full)]
        names = [s if short.count(s) == 1 else f for s, f in zip(short, full)]
        return names if len(set(names)) == count else full

    def fit(self, arrays: Mapping[str, np.ndarray], where: str) -> dict[str, np.ndarray]:
        """Return checked inputs by the library's names, which may be the C spelling of these."""
        names = [info.name for info in self.inputs]
        spelled = {c_spelling(name): name for name in names}
        renamed = {
            name if name in names else spelled.get(c_spelling(name), name): value
            for name, value in arrays.items()
        }
        networks.check_inputs(renamed, self.inputs, where)
        return renamed

    def run(self, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the outputs by name for inputs by the library's names."""
        executor = self.executor
        for name, array in arrays.items():
            executor.set_input(name, array)
        executor.run()
        return {
            name: executor.get_output(index).numpy() for index, name in enumerate(self.output_names)
        }

    def time(self, repeat: int) -> list[float]:
        """Return the seconds of each of ``repeat`` runs on the inputs set last."""
        seconds = []
        for _ in range(repeat):
            start = time.perf_counter()
            self.executor.run()
            seconds.append(time.perf_counter() - start)
        return seconds

    def profile(self) -> list[dict[str, Any]]:
        """Return name, count and seconds of every operator of one run on the inputs set last."""
        return self.executor.profile().calls


def _make_executor(path: Path) -> Any:
    import tvmrt
    from tvmrt.contrib.graph_executor import GraphModule
    from tvmrt.runtime.executor.aot_executor import AotModule

    if path.suffix in (".onnx", ".tflite"):
        raise ValueError(
            f"{path} is a network that is not compiled: 'tvmrt compile {path} -o net.so', then "
            "run net.so"
        )
    facts = describe(path).facts
    if "executor" not in facts:
        raise ValueError(
            f"{path} holds no network: it has functions but no executor; "
            "'tvmrt inspect' lists what is in it"
        )
    factory = tvmrt.runtime.load_module(str(path))[facts["module_name"]]
    make = AotModule if facts["executor"] == "aot" else GraphModule
    return make(factory(tvmrt.cpu(0)))


def compile_session(
    model: onnx.ModelProto | Path, folder: Path, threads: int, choices: Mapping[str, Any]
) -> Session:
    """Compile a network, given as ONNX or by its file, into ``folder``, load it, and name its
    outputs as the network does."""
    from tvmrt.pipeline import compile as compile_network

    path = folder / "network.so"
    library = compile_network(model, **choices)
    library.export_library(str(path))
    session = Session(path, threads, library.program.output_names)
    session.bundles = library.bundles
    session.labels = {each.name: each.labels for each in library.summary.outputs if each.labels}
    return session
