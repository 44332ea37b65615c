"""Networks on another machine, for ``run``, ``verify`` and ``bench``."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tvmrt.cli import console
from tvmrt.connection import RemoteMachine, RemoteNetwork
from tvmrt.error import TVMError
from tvmrt.file_suffix import suffix_of
from tvmrt.plugins.rpc.constants import IMAGE
from tvmrt.tensor_info import TensorInfo

if TYPE_CHECKING:
    import numpy as np

    from tvmrt.rpc import RPCSession
    from tvmrt.runtime.executor.base import Executor

DEFAULT_PORT, DEFAULT_TRACKER_PORT = 9090, 9190


def connect(server: str, key: str) -> RpcMachine:
    """Return the machine of a server, ``HOST[:PORT]``."""
    from tvmrt import rpc
    from tvmrt.rpc.messages import split_address

    return RpcMachine(rpc.connect(*split_address(server, "--rpc", DEFAULT_PORT), key))


def request(tracker: str, key: str) -> RpcMachine:
    """Return a machine that a tracker, ``HOST[:PORT]``, assigns; ValueError if it knows none."""
    from tvmrt import rpc
    from tvmrt.rpc.messages import split_address

    host, port = split_address(tracker, "--rpc-tracker", DEFAULT_TRACKER_PORT)
    line = rpc.connect_tracker(host, port, 0)
    summary = line.summary()
    if not any(server["key"] == f"server:{key}" for server in summary["server_info"]):
        raise ValueError(
            f"no server with the key '{key}' is at the tracker {host}:{port}; start 'tvmrt rpc "
            "server --tracker', or check --rpc-key"
        )
    if not summary["queue_info"].get(key, {}).get("free"):
        console.note(f"waits for a free server with the key '{key}'")
    return RpcMachine(line.request(key))


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
        description = describe(path)
        properties = description.properties
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
        weights = description.tables.get("weights")
        return MachineNetwork(
            session,
            make(module[properties["module_name"]](session.cpu())),
            {row[0] for row in weights.rows} if weights else set(),
        )

    def close(self) -> None:
        """End the session and notify its server; a broken session has already ended."""
        with contextlib.suppress(TVMError):
            self._session.close()


class MachineNetwork(RemoteNetwork):
    """Network of a library on another machine."""

    def __init__(self, session: RPCSession, executor: Executor, weights: Collection[str]) -> None:
        from tvmrt.network.loaded_library import unique_output_names

        self._session, self._executor = session, executor
        shapes = executor.get_dims().get("inputs", {})
        name_of = executor.module["get_input_name"]
        self.inputs = []
        for i in range(executor.get_num_inputs()):
            name, tensor = str(name_of(i)), executor.get_input(i)
            if name not in weights:
                shape = tuple(shapes.get(name, tensor.shape))
                self.inputs.append(TensorInfo(name, str(tensor.dtype), shape))
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
