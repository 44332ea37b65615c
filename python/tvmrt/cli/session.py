"""Sessions: run a compiled network on arrays, with any executor, locally or remotely."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tvmrt.cli import onnx_reference
from tvmrt.connection import LIBRARY, RemoteMachine, RemoteNetwork, advice_for_board
from tvmrt.network.inputs import largest
from tvmrt.runtime import data_type

if TYPE_CHECKING:
    import numpy as np
    import onnx

    from tvmrt.compiler.export.library import CompiledLibrary
    from tvmrt.compiler.ir.bundle import Bundle

THREADS_VARIABLE = "TVM_NUM_THREADS"  # read by the runtime when it starts its threads


def c_spelling(name: str) -> str:
    """Return a tensor's name as a C identifier, as AOT libraries store it."""
    return re.sub(r"\W", "_", name, flags=re.ASCII)


class Session:
    """One executor of a shared library.

    Parameters
    ----------
    path
        A library of ``tvmrt compile`` or an earlier TVM, or a package of ``tvmc compile``.
    threads
        Maximum number of threads of one operator; all of the machine's if None. The first session
        sets it for the whole process.
    output_names
        Names for the outputs, in order; the names in the library if None.
    place
        Remote Place to run in; this machine if None.
    """

    def __init__(
        self,
        path: Path,
        threads: int | None = None,
        output_names: Sequence[str] | None = None,
        remote_machine: RemoteMachine | None = None,
    ):
        if threads is not None and remote_machine is None:
            os.environ[THREADS_VARIABLE] = str(threads)
        from tvmrt.network.loaded_library import open_library, unique_output_names  # the runtime

        self.remote_machine = remote_machine
        self.remote: RemoteNetwork | None = None
        self.executor: Any = None  # set for local execution
        if remote_machine is not None:
            self.remote = remote_machine.open(path, threads)
            self.inputs = list(self.remote.inputs)
            names = list(self.remote.output_names)
        else:
            self.executor = open_library(path).make()
            self.inputs = self._input_infos()
            names = unique_output_names(self.executor)
        self.output_names = list(output_names or names)
        self.labels: dict[str, Sequence[str]] = {}  # of outputs that index strings
        self.bundles: dict[str, Bundle] = {}  # of outputs that are sequences or optional values
        self.library: CompiledLibrary | None = None  # set if compiled by this process

    @property
    def reduced(self) -> frozenset[str]:
        """Nodes computed in reduced precision; empty if not compiled by this process."""
        rows = [] if self.library is None else self.library.summary.reduced
        reduced = (row for row in rows if row.precision != "float32")
        return frozenset(name for row in reduced for name in row.nodes)

    def _input_infos(self) -> list[onnx_reference.TensorInfo]:
        shapes, dtypes = self.executor.get_input_info()
        shapes = {**shapes, **self.executor.get_dims().get("inputs", {})}
        return [
            onnx_reference.TensorInfo(n, _numpy_name(str(dtypes[n])), tuple(shapes[n]))
            for n in dtypes
        ]

    def largest_inputs(self) -> list[onnx_reference.TensorInfo]:
        """Return the inputs with dynamic dimensions at their maximum."""
        if self.remote is not None:
            bounds = self.remote.bounds
        else:
            bounds = self.executor.get_dims().get("dims", {})
        return [largest(info, bounds) for info in self.inputs]

    def checked_inputs(self, arrays: Mapping[str, np.ndarray], where: str) -> dict[str, np.ndarray]:
        """Return checked inputs by the library's names, which may be in C spelling."""
        names = [info.name for info in self.inputs]
        spelled = {c_spelling(name): name for name in names}
        renamed = {
            name if name in names else spelled.get(c_spelling(name), name): value
            for name, value in arrays.items()
        }
        onnx_reference.check_inputs(renamed, self.inputs, where)
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
        """Return the seconds of each of ``repeat`` runs on the last inputs; a remote machine uses
        its own clock, without transfer times."""
        if self.remote is not None:
            return list(self.remote.time(repeat))
        seconds = []
        for _ in range(repeat):
            start = time.perf_counter()
            self.executor.run()
            seconds.append(time.perf_counter() - start)
        return seconds

    def profile(self) -> list[dict[str, Any]]:
        """Return name, count and seconds of each operator for one run on the last inputs."""
        if self.remote_machine is not None:
            raise ValueError(
                f"operators are profiled on this machine only: omit {self.remote_machine.option}"
            )
        return self.executor.profile().calls


def compile_session(
    model: onnx.ModelProto | Path, folder: Path, threads: int, choices: Mapping[str, Any]
) -> Session:
    """Compile a network, given as ONNX or a file, into ``folder``, and load it with the network's
    names for its outputs."""
    from tvmrt.compiler.pipeline import compile as compile_network
    from tvmrt.compiler.request import make

    choices = dict(choices)
    remote_machine: RemoteMachine | None = choices.pop("remote_machine", None)
    if choices.get("ram") is not None and remote_machine is None:
        raise ValueError(f"--ram limits the memory of a board{advice_for_board()}")
    if remote_machine is not None:
        choices = dict(remote_machine.compile_options(choices))
    elif choices.get("target") is None:
        here = make(choices).for_here()
        choices["target"], choices["levels"] = here.target, here.levels
    library = compile_network(model, **choices)
    if remote_machine is not None:
        remote_machine.check(library)
    elif library.options.firmware and not library.target.triple:
        raise ValueError(f"target {library.target.name} is a board{advice_for_board()}")
    elif not library.target.runs_here:
        raise ValueError(
            f"target {library.target.name} is for another machine, whose code this one does not "
            "run: compile a library with tvmrt compile and run it there, or omit --target"
        )
    path = folder / f"network{LIBRARY if remote_machine is None else remote_machine.suffix}"
    library.export(path)
    session = Session(path, threads, library.program.output_names, remote_machine)
    session.library, session.bundles = library, library.bundles
    session.labels = {each.name: each.labels for each in library.summary.outputs if each.labels}
    return session


def _numpy_name(dtype: str) -> str:
    """Return the name in NumPy and ml_dtypes of an element type in the spelling of the runtime."""
    if not dtype.endswith(("_float8", "_float4")):
        return dtype
    found = data_type.DataType(dtype)
    return data_type.numpy_dtype(found.type_code, found.bits, found.lanes).name
