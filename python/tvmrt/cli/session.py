"""A compiled network in this process: arrays in, arrays out, whichever executor it was made for."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tvmrt.cli import networks
from tvmrt.connection import LIBRARY, Place, RemoteNetwork, advice_for_board
from tvmrt.network.inputs import largest

if TYPE_CHECKING:
    import numpy as np
    import onnx

    from tvmrt.compiler.export.library import CompiledLibrary
    from tvmrt.compiler.ir.bundle import Bundle

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
    place
        Where to run; on this machine if None.
    """

    def __init__(
        self,
        path: Path,
        threads: int | None = None,
        output_names: Sequence[str] | None = None,
        place: Place | None = None,
    ):
        if threads is not None and place is None:
            os.environ[THREADS_VARIABLE] = str(threads)
        from tvmrt.network.opened import names_of_outputs, open_library  # the runtime

        self.place = place
        self.remote: RemoteNetwork | None = None
        self.executor: Any = None  # on this machine
        if place is not None:
            self.remote = place.open(path, threads)
            self.inputs = list(self.remote.inputs)
            names = list(self.remote.output_names)
        else:
            self.executor = open_library(path).make()
            self.inputs = self._input_infos()
            names = names_of_outputs(self.executor)
        self.output_names = list(output_names or names)
        self.labels: dict[str, Sequence[str]] = {}  # of outputs that are places among strings
        self.bundles: dict[str, Bundle] = {}  # of outputs that are no tensors
        self.library: CompiledLibrary | None = None  # of what was compiled here

    @property
    def reduced(self) -> frozenset[str]:
        """Nodes that multiply rounded numbers, as far as the network was compiled here."""
        rows = [] if self.library is None else self.library.summary.reduced
        reduced = (row for row in rows if row.precision != "float32")
        return frozenset(name for row in reduced for name in row.nodes)

    def _input_infos(self) -> list[networks.TensorInfo]:
        shapes, dtypes = self.executor.get_input_info()
        shapes = {**shapes, **self.executor.get_dims().get("inputs", {})}
        return [networks.TensorInfo(n, str(dtypes[n]), tuple(shapes[n])) for n in dtypes]

    def largest_inputs(self) -> list[networks.TensorInfo]:
        """The inputs with the largest extents of those that a run chooses."""
        if self.remote is not None:
            bounds = self.remote.bounds
        else:
            bounds = self.executor.get_dims().get("dims", {})
        return [largest(info, bounds) for info in self.inputs]

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
        if self.remote is not None:
            return dict(zip(self.output_names, self.remote.run(arrays)))
        executor = self.executor
        for name, array in arrays.items():
            executor.set_input(name, array)
        executor.run()
        outputs = {}
        for index, name in enumerate(self.output_names):
            outputs[name] = executor.get_output(index).numpy()
        return outputs

    def time(self, repeat: int) -> list[float]:
        """Return the seconds of each of ``repeat`` runs on the inputs set last; those of another
        machine by its own clock, without the way there."""
        if self.remote is not None:
            return list(self.remote.time(repeat))
        seconds = []
        for _ in range(repeat):
            start = time.perf_counter()
            self.executor.run()
            seconds.append(time.perf_counter() - start)
        return seconds

    def profile(self) -> list[dict[str, Any]]:
        """Return name, count and seconds of every operator of one run on the inputs set last."""
        if self.place is not None:
            raise ValueError(
                f"operators are profiled on this machine only: leave {self.place.option} out"
            )
        return self.executor.profile().calls


def compile_session(
    model: onnx.ModelProto | Path, folder: Path, threads: int, choices: Mapping[str, Any]
) -> Session:
    """Compile a network, given as ONNX or by its file, into ``folder``, load it, and name its
    outputs as the network does."""
    from tvmrt.compiler.codegen.target import target_here
    from tvmrt.compiler.pipeline import compile as compile_network

    choices = dict(choices)
    place: Place | None = choices.pop("place", None)
    if place is not None:
        choices = dict(place.compile_options(choices))
    elif choices.get("target") is None:
        bf16 = choices.get("precision") == "bf16"
        levels = choices.get("levels") or ()
        choices["target"], choices["levels"] = target_here(levels, bf16)
    library = compile_network(model, **choices)
    if place is not None:
        place.check(library)
    elif library.options.firmware:
        raise ValueError(f"target {library.target.name} is a board{advice_for_board()}")
    path = folder / f"network{LIBRARY if place is None else place.suffix}"
    library.export(path)
    session = Session(path, threads, library.program.output_names, place)
    session.library, session.bundles = library, library.bundles
    session.labels = {each.name: each.labels for each in library.summary.outputs if each.labels}
    return session
