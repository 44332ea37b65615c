"""Networks on another machine, for ``run``, ``verify`` and ``bench``."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tvmrt.cli import console
from tvmrt.connection import RemoteMachine, RemoteNetwork
from tvmrt.error import TVMError
from tvmrt.file_suffix import suffix_of
from tvmrt.plugins.rpc.constants import IMAGE
from tvmrt.tensor_info import TensorInfo

if TYPE_CHECKING:
    import numpy as np

    from tvmrt.rpc import RPCSession, TrackerSession
    from tvmrt.runtime import Object
    from tvmrt.runtime.executor.base import Executor

DEFAULT_PORT, DEFAULT_TRACKER_PORT = 9090, 9190


def connect(server: str, key: str) -> RpcMachine:
    """Return the machine of a server, ``HOST[:PORT]``."""
    from tvmrt import rpc

    return RpcMachine(rpc.connect(*_address("--rpc", server, DEFAULT_PORT), key))


def request(tracker: str, key: str, seconds: float) -> RpcMachine:
    """Return a machine that a tracker, ``HOST[:PORT]``, assigns within the time limit."""
    from tvmrt import rpc

    host, port = _address("--rpc-tracker", tracker, DEFAULT_TRACKER_PORT)
    line = rpc.connect_tracker(host, port, 0)
    line.wait_timeout = seconds
    return RpcMachine(_request(line, f"{host}:{port}", key, seconds))


def _address(option: str, text: str, default: int) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon:
        return text, default
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise click.UsageError(f"{option} takes HOST:PORT, not '{text}'")
    return host, int(port)


def _request(line: TrackerSession, address: str, key: str, seconds: float) -> RPCSession:
    """Return a session with a server of a tracker; TimeoutError if none is free in time."""
    if not line.summary()["queue_info"].get(key, {}).get("free"):
        console.note(
            f"waits for a free server with the key '{key}' at the tracker {address}, "
            f"{seconds:g} s at most"
        )
    try:
        return line.request(key)
    except TimeoutError as error:
        owned = [one for one in line.summary()["server_info"] if one["key"] == f"server:{key}"]
        remedy = (
            f"{len(owned)} there {'has' if len(owned) == 1 else 'have'} it, in use: "
            "wait longer by --rpc-wait"
            if owned
            else "no server has it: start 'tvmrt rpc server --tracker', or check --rpc-key"
        )
        raise TimeoutError(f"{error}; {remedy}") from error


class RpcMachine(RemoteMachine):
    """Another machine.

    Parameters
    ----------
    session
        The session with its server.
    """

    def __init__(self, session: RPCSession) -> None:
        self._session = session

    def open(self, path: Path, threads: int | None) -> MachineNetwork:
        """Upload a local library and load it on the other machine."""
        from tvmrt.cli.describe import describe
        from tvmrt.runtime.executor.aot_executor import AotModule
        from tvmrt.runtime.executor.graph_executor import GraphModule

        if suffix_of(path) == IMAGE:
            raise ValueError(
                f"{path} is an image for a board; run it with --rpc serial:PATH or --rpc qemu"
            )
        # describe() does not load the library: it may be for another processor
        properties = describe(path).properties
        if "executor" not in properties:
            raise ValueError(
                f"{path} contains functions but no network; 'tvmrt inspect' lists its contents"
            )
        session = self._session
        if threads is not None:
            session.get_function("runtime.config_threadpool")(0, threads)
        session.upload(path)
        make = AotModule if properties["executor"] == "aot" else GraphModule
        module = session.load_module(path.name)
        return MachineNetwork(session, make(module[properties["module_name"]](session.cpu())))

    def close(self) -> None:
        """End the session and notify its server; a broken session has already ended."""
        with contextlib.suppress(TVMError):
            self._session.close()


class MachineNetwork(RemoteNetwork):
    """Network of a library on another machine."""

    def __init__(self, session: RPCSession, executor: Executor) -> None:
        from tvmrt.network.loaded_library import unique_output_names

        self._session, self._executor = session, executor
        shapes, dtypes = _input_info(session, executor)
        shapes = {**shapes, **executor.get_dims().get("inputs", {})}
        self.inputs = [TensorInfo(n, str(dtypes[n]), tuple(shapes[n])) for n in dtypes]
        self.output_names = unique_output_names(executor)

    @property
    def bounds(self) -> Mapping[str, Sequence[int]]:  # type: ignore[override]
        """The bounds of the dynamic dimensions, as stored in the library."""
        return self._executor.get_dims().get("dims", {})

    def run(self, arrays: Mapping[str, np.ndarray]) -> Sequence[np.ndarray]:
        """Run the network once and return its outputs."""
        executor = self._executor
        for name, array in arrays.items():
            executor.set_input(name, array)
        executor.run()
        return [executor.get_output(i).numpy() for i in range(len(self.output_names))]

    def time(self, repeat: int) -> Sequence[float]:
        """Return the seconds of each run, by the other machine's clock."""
        evaluate = self._executor.module.time_evaluator("run", self._session.cpu(), 1, repeat)
        return list(evaluate().results)


def _input_info(
    session: RPCSession, executor: Any
) -> tuple[dict[str, tuple[int, ...]], dict[str, str]]:
    """Return the shapes and types of an executor's inputs, read from maps on the server."""
    info = executor.module["get_input_info"]()
    get = session.get_function("runtime.MapGetItem")
    shapes = {name: _shape(session, shape) for name, shape in _items(session, get(info, "shape"))}
    return shapes, {name: str(dtype) for name, dtype in _items(session, get(info, "dtype"))}


def _items(session: RPCSession, there: Object) -> list[tuple[str, Any]]:
    items = session.get_function("runtime.MapItems")(there)
    size = session.get_function("runtime.ArraySize")(items)
    get = session.get_function("runtime.ArrayGetItem")
    flat = [get(items, i) for i in range(size)]
    return [(str(name), value) for name, value in zip(flat[::2], flat[1::2])]


def _shape(session: RPCSession, there: Object) -> tuple[int, ...]:
    size = session.get_function("runtime.GetShapeTupleSize")(there)
    get = session.get_function("runtime.GetShapeTupleElem")
    return tuple(get(there, i) for i in range(size))
