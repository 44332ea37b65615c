"""RPC server: the C implementation, in this process or in a separate one."""

from __future__ import annotations

import os
import signal
import sys
import threading
import weakref
from typing import Any, Callable

from tvmrt.runtime._library import check, ffi, lib
from tvmrt.runtime.module import Module, load_module
from tvmrt.runtime.packed_func import get_global_func, register_func

__all__ = ["Server", "Listener"]


def _address(tracker: Any) -> str | None:
    """Return a tracker's address as text; it is given as text or as (host, port)."""
    if not tracker:
        return None
    return tracker if isinstance(tracker, str) else f"{tracker[0]}:{tracker[1]}"


class Listener:
    """Listening server; run() serves.

    Other parameters: ``tvmrt_rpc_server_options`` in ``tvm/runtime/rpc_server.h``.

    Parameters
    ----------
    log
        Called with each line of its log.
    """

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = 9090,
        port_end: int = 9199,
        key: str = "",
        tracker: Any = None,
        custom_addr: str | None = None,
        log: Callable[[str], None] | None = None,
        **limits: float,
    ) -> None:
        options = ffi.new("tvmrt_rpc_server_options*")
        options.struct_bytes = ffi.sizeof("tvmrt_rpc_server_options")
        texts = {
            "host": host, "key": key, "tracker": _address(tracker), "custom_addr": custom_addr,
        }  # fmt: skip
        kept = {n: ffi.new("char[]", t.encode()) for n, t in texts.items() if t is not None}
        for name, value in {**kept, "port": port, "port_end": port_end, **limits}.items():
            setattr(options, name, value)
        if log is not None:
            kept["log"] = ffi.callback(
                "void(void*, const char*)",
                lambda _, line: log(ffi.string(line).decode("utf-8", "replace")),
            )
            options.log = kept["log"]
        self._kept = kept  # C borrows these strings
        out = ffi.new("tvmrt_rpc_server**")
        check(lib.tvmrt_rpc_server_open(options, out))
        self._server = out[0]
        self.host = host
        self.port = lib.tvmrt_rpc_server_port(self._server)

    def run(self) -> None:
        """Serve until stop(), or until a signal arrives if this is the main thread."""
        before = None
        if threading.current_thread() is threading.main_thread():
            stop = lib.tvmrt_rpc_server_stop_fd(self._server)
            before = signal.set_wakeup_fd(stop, warn_on_full_buffer=False)
        try:
            check(lib.tvmrt_rpc_server_run(self._server))
        finally:
            if before is not None:
                signal.set_wakeup_fd(before)

    def stop(self) -> None:
        """Make run() return; callable from any thread."""
        lib.tvmrt_rpc_server_stop(self._server)

    def close(self) -> None:
        """Stop listening. Must not be called during run()."""
        if self._server is not None:
            lib.tvmrt_rpc_server_close(self._server)
            self._server = None


def _load(name: str) -> Module:
    """Load an uploaded file; link objects and archives with this machine's C compiler first."""
    return load_module(get_global_func("tvm.rpc.server.workpath")(name))


def link_uploads() -> None:
    """Let sessions of this process load files that need linking: ``.o`` and ``.tar``."""
    register_func("tvm.rpc.server.load_module", _load, override=True)


class Server:
    """Server in its own process, with all functions registered so far.

    Parameters
    ----------
    host
        The address to listen at.
    port, port_end
        The first port to try, and the one after the last.
    is_proxy
        Must be False: there is no proxy.
    key
        The key that clients must send; a tracker lists the server by it.
    tracker_addr
        (host, port) of a tracker to register with.
    custom_addr
        The address that the tracker gives to clients.
    silent
        Whether to discard the log; otherwise it goes to standard error.

    Attributes
    ----------
    host, port
        The address of its listener.
    """

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = 9091,
        port_end: int = 9199,
        is_proxy: bool = False,
        tracker_addr: tuple[str, int] | None = None,
        key: str = "",
        load_library: str | None = None,
        custom_addr: str | None = None,
        silent: bool = False,
        **limits: float,
    ) -> None:
        if not hasattr(os, "fork"):
            raise RuntimeError(
                "rpc.Server forks this process, which this system does not support; start "
                "'tvmrt rpc-server' instead."
            )
        if is_proxy:
            raise ValueError("is_proxy must be False: tvmrt has no proxy; use ssh -R or a VPN")
        log = None if silent else (lambda line: print(line, file=sys.stderr, flush=True))
        listener = Listener(host, port, port_end, key, tracker_addr, custom_addr, log, **limits)
        self.host, self.port = host, listener.port
        libraries = load_library.split(":") if load_library else []
        self._process = os.fork()
        if self._process == 0:
            _serve(listener, libraries)
        listener.close()
        self._end = weakref.finalize(self, _terminate, self._process)

    def terminate(self) -> None:
        """End the server and its sessions."""
        self._end()


def _serve(listener: Listener, libraries: list[str]) -> None:
    """Run the server in the forked process, then exit."""
    status = 1
    try:
        # Python's handler only writes the byte that ends run().
        signal.signal(signal.SIGTERM, lambda *_: None)
        signal.signal(signal.SIGINT, lambda *_: None)
        kept = [load_module(path) for path in libraries]
        link_uploads()
        listener.run()
        del kept
        status = 0
    finally:
        os._exit(status)


def _terminate(process: int) -> None:
    os.kill(process, signal.SIGTERM)
    os.waitpid(process, 0)
