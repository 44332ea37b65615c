"""A network on another machine: how ``run``, ``verify`` and ``bench`` reach it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tvmrt.cli import console, options
from tvmrt.cli.board_place import IMAGE, BoardPlace, is_board
from tvmrt.error import TVMError

if TYPE_CHECKING:
    from tvmrt.rpc import RPCSession, TrackerSession
    from tvmrt.runtime import Object
    from tvmrt.runtime.executor.base import Executor

DEFAULT_PORT, DEFAULT_TRACKER_PORT = 9090, 9190
DEFAULT_WAIT, LONGEST_WAIT = 600, 10_000_000


def rpc_options(function: Callable) -> Callable:
    """Decorator: where to run, if not here."""
    for option in (
        click.option(
            "--rpc-wait", metavar="SECONDS",
            type=options.FiniteRange(min=0, min_open=True, max=LONGEST_WAIT),
            help=f"Maximum time to wait for a free server of the tracker. Default: {DEFAULT_WAIT}.",
        ),
        click.option(
            "--rpc-key", default="", metavar="KEY", help="The server's key, or the tracker's."
        ),
        click.option(
            "--rpc-tracker", metavar="HOST[:PORT]",
            help="Run on a free server with the key --rpc-key of this tracker.",
        ),
        click.option(
            "--rpc", metavar="HOST[:PORT]|LINE",
            help="Run on this 'tvmrt rpc-server', on a board at serial:PATH[:BAUD], "
            "tcp:HOST:PORT or pipe:PATH, or on a board emulated by QEMU: qemu.",
        ),
    ):  # fmt: skip
        function = option(function)
    return function


def open_session(
    rpc: str | None, rpc_tracker: str | None, rpc_key: str, rpc_wait: float | None
) -> RPCSession | BoardPlace | None:
    """Return the session that the options ask for; None if it runs here."""
    from tvmrt.rpc import connect

    if rpc_wait is not None and not rpc_tracker:
        raise click.UsageError("--rpc-wait needs --rpc-tracker")
    if rpc and rpc_tracker:
        raise click.UsageError("give either --rpc or --rpc-tracker")
    if rpc and is_board(rpc):
        if rpc_key:
            raise click.UsageError("--rpc-key is for servers; a board has no key")
        place = BoardPlace(rpc)
        click.get_current_context().call_on_close(place.close)
        return place
    if rpc:
        session = connect(*_address("--rpc", rpc, DEFAULT_PORT), rpc_key)
    elif rpc_tracker:
        address = _address("--rpc-tracker", rpc_tracker, DEFAULT_TRACKER_PORT)
        session = _request(address, rpc_key, rpc_wait or DEFAULT_WAIT)
    elif rpc_key:
        raise click.UsageError("--rpc-key needs --rpc or --rpc-tracker")
    else:
        return None
    click.get_current_context().call_on_close(lambda: _close(session))
    return session


def _request(address: tuple[str, int], key: str, seconds: float) -> RPCSession:
    """Return a session with a server of a tracker; TimeoutError if none is free in time."""
    place = "{}:{}".format(*address)
    line = _tracker(address, place, seconds)
    line.wait_timeout = seconds
    if not line.summary()["queue_info"].get(key, {}).get("free"):
        console.note(
            f"waits for a free server with the key '{key}' at the tracker {place}, "
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
            else "no server has it: start 'tvmrt rpc-server --tracker', or check --rpc-key"
        )
        raise TimeoutError(f"{error}; {remedy}") from error


def _tracker(address: tuple[str, int], place: str, seconds: float) -> TrackerSession:
    """Return a line to a tracker, which may be about to start."""
    from tvmrt.rpc.client import TRACKER_SECONDS, TrackerSession, wait_for_tracker

    try:
        return TrackerSession(address)
    except ConnectionRefusedError:
        seconds = min(seconds, TRACKER_SECONDS)
        console.note(f"no tracker answers at {place} yet; retrying for {seconds:g} s")
        return wait_for_tracker(address, seconds)


def _close(session: RPCSession) -> None:
    """End a session with a word to its server; one that is broken has ended."""
    with contextlib.suppress(TVMError):
        session.close()


def _address(option: str, text: str, default: int) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon:
        return text, default
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise click.UsageError(f"{option} takes HOST:PORT, not '{text}'")
    return host, int(port)


def open_library(session: RPCSession, path: Path, threads: int | None) -> Executor:
    """Return an executor, on the other machine, of a library that lies on this one."""
    from tvmrt.cli.describe import describe
    from tvmrt.runtime.executor.aot_executor import AotModule
    from tvmrt.runtime.executor.graph_executor import GraphModule

    if path.suffix == IMAGE:
        raise ValueError(
            f"{path} is an image for a board; run it with --rpc serial:PATH or --rpc qemu"
        )
    facts = describe(path).facts  # without loading it: it may be for another processor
    if "executor" not in facts:
        raise ValueError(
            f"{path} contains functions but no network; 'tvmrt inspect' lists its contents"
        )
    if threads is not None:
        session.get_function("runtime.config_threadpool")(0, threads)
    session.upload(path)
    make = AotModule if facts["executor"] == "aot" else GraphModule
    return make(session.load_module(path.name)[facts["module_name"]](session.cpu()))


def input_info(
    session: RPCSession, executor: Any
) -> tuple[dict[str, tuple[int, ...]], dict[str, str]]:
    """Return the shapes and types of an executor's inputs, which are in maps over there."""
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
