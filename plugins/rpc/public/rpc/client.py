"""Client side: sessions with servers and with the tracker."""

from __future__ import annotations

import os
import secrets
import socket
import struct
import time
from typing import Any, Callable

from tvmrt.error import TVMError
from tvmrt.runtime.device import RPC_SESSION_MASK, Device, device
from tvmrt.runtime.module import Module
from tvmrt.runtime.packed_func import PackedFunc, get_global_func

from . import messages
from .server import DUPLICATE, MAGIC, MAX_KEY_BYTES, MISMATCH, Server

CONNECT_SECONDS = 60
"""For a server's answer; it may be busy with another client."""

__all__ = ["LocalSession", "RPCSession", "TrackerSession", "connect", "connect_tracker"]


class RPCSession:
    """Session with a server, made by connect() and TrackerSession.request().

    It ends when the session and all its functions, modules and tensors have been released. Several
    threads may use a session; their calls are serialised.
    """

    def __init__(self, module: Module) -> None:
        self._module = module
        self._index = get_global_func("rpc.SessTableIndex")(module)

    def get_function(self, name: str) -> PackedFunc:
        """Return a global function of the server.

        Raises
        ------
        AttributeError
            If the server has no function of that name.
        """
        return self._module.get_function(name)

    def system_lib(self) -> Module:
        """Return the module of the code linked into the server."""
        return self.get_function("runtime.SystemLib")()

    def load_module(self, path: str) -> Module:
        """Load an uploaded file by its name; the module's functions run on the server.

        They take and return numbers, strings, bytes, and tensors, devices, modules and functions of
        the session.
        """
        return self.get_function("tvm.rpc.server.load_module")(path)

    def upload(self, data: Any, target: str | None = None) -> None:
        """Send a file to the session's folder on the server.

        Parameters
        ----------
        data
            The path of a file, or its bytes.
        target
            Its name on the server, without folders; None: the name of the local file.
        """
        if isinstance(data, (bytes, bytearray)):
            if not target:
                raise ValueError("bytes have no file name; give it as target=")
        else:
            target = target or os.path.basename(os.fspath(data))
            with open(data, "rb") as file:
                data = file.read()
        self.get_function("tvm.rpc.server.upload")(target, data)

    def device(self, dev_type: str | int | Device, dev_id: int = 0) -> Device:
        """Return a device of the server."""
        local = dev_type if isinstance(dev_type, Device) else device(dev_type, dev_id)
        mask = RPC_SESSION_MASK * (self._index + 1)
        return Device(local.device_type % RPC_SESSION_MASK + mask, local.device_id)

    def cpu(self, dev_id: int = 0) -> Device:
        """Return the CPU device of the server, where tensors for its functions are allocated."""
        return self.device("cpu", dev_id)

    def __getattr__(self, name: str) -> Callable[..., Device]:
        """Return a function that makes devices of another type: ``session.opencl(0)``."""
        if name.startswith("_") or name not in Device.STR2MASK:
            raise AttributeError(f"an RPC session has no attribute '{name}'")
        return lambda dev_id=0: self.device(name, dev_id)

    def close(self) -> None:
        """End the session now. Its functions, modules and tensors fail afterwards."""
        self._module.get_function("CloseRPCConnection")()


class LocalSession(RPCSession):
    """Session with a copy of this process, to test remote code locally. It ends with this object.

    Functions that are registered before it begins can be called.
    """

    def __init__(self) -> None:
        key = secrets.token_hex(16)
        self._server = Server(port=0, key=key, silent=True)
        super().__init__(connect("127.0.0.1", self._server.port, key)._module)


def connect(
    url: str, port: int, key: str = "", session_timeout: float = 0, enable_logging: bool = False
) -> RPCSession:
    """Return a session with a server.

    Parameters
    ----------
    url
        Name or address of the machine.
    port
        The server's port.
    key
        The key that the server was started with.
    session_timeout
        Seconds after which the server ends the session; 0: no limit.
    enable_logging
        Accepted for compatibility with TVM; it has no effect.

    Raises
    ------
    TVMError
        If no server answers at the address, or the key is wrong.
    """
    if session_timeout:
        key += f" -timeout={session_timeout}"
    try:
        sock = socket.create_connection((url, port), CONNECT_SECONDS)
        with sock:
            _send_key(sock, f"client:{key}".encode(), f"{url}:{port}", key)
            sock.settimeout(None)  # calls may take long
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            descriptor = sock.detach()  # from here on the session's
    except OSError as error:
        raise TVMError(f"RPCError: cannot connect to {url}:{port}: {error}") from error
    return RPCSession(get_global_func("rpc.ClientSession")(descriptor))


def _send_key(sock: socket.socket, text: bytes, where: str, key: str) -> None:
    """Exchange keys with a server; TVMError if it refuses, or is not a server."""
    end = time.monotonic() + CONNECT_SECONDS
    sock.sendall(struct.pack("<ii", MAGIC, len(text)) + text)
    (answer,) = struct.unpack("<i", messages.read_exactly(sock, 4, end))
    if answer == DUPLICATE:
        raise TVMError(f"RPCError: {where}: the server already have key={key} in use")
    if answer == MISMATCH:
        raise TVMError(f"RPCError: {where}: cannot find server that matches key={key}")
    (size,) = struct.unpack("<i", messages.read_exactly(sock, 4, end)) if answer == MAGIC else (-1,)
    if not 0 <= size <= MAX_KEY_BYTES:
        raise TVMError(f"RPCError: {where} is not TVM RPC server")
    messages.read_exactly(sock, size, end)


class TrackerSession:
    """Connection to a tracker, which assigns servers by key; made by connect_tracker()."""

    def __init__(self, addr: tuple[str, int]) -> None:
        self._addr = addr
        self._socket: socket.socket | None = None
        self._connect()

    def _connect(self) -> socket.socket:
        self.close()
        self._socket = messages.connect(self._addr)
        return self._socket

    def close(self) -> None:
        """End the connection."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _ask(self, *message: Any) -> Any:
        connected = self._connect() if self._socket is None else self._socket
        connected.sendall(messages.encode(list(message)))
        return messages.receive(connected)

    def summary(self) -> dict[str, Any]:
        """Return the tracker's state: ``server_info``, and ``queue_info`` by key."""
        status, metadata = self._ask(messages.SUMMARY)
        if status != messages.SUCCESS:
            raise TVMError("RPCError: the tracker does not report its servers")
        return metadata

    def request(
        self, key: str, priority: int = 1, session_timeout: float = 0, max_retry: int = 5
    ) -> RPCSession:
        """Wait for a free server and return a session with it.

        Parameters
        ----------
        key
            The key of the wanted servers.
        priority
            Requests of higher priority are served first.
        session_timeout
            Seconds after which the server ends the session; 0: no limit.
        max_retry
            How often an unreachable server is replaced by another.
        """
        last: Exception | None = None
        for _ in range(max_retry):
            try:
                status, found = self._ask(messages.REQUEST, key, "", priority)
                if status != messages.SUCCESS:
                    raise TVMError(f"RPCError: the tracker refuses: {found}")
                host, port, match_key = found
                return connect(host, port, match_key, session_timeout)
            except (OSError, TVMError) as error:
                self.close()
                last = error
        raise TVMError(f"Cannot request {key} after {max_retry} retry, last_error:{last}")


def connect_tracker(url: str, port: int, seconds: float = 60) -> TrackerSession:
    """Return a connection to a tracker, retrying every five seconds.

    Raises
    ------
    OSError
        If no tracker answers in time.
    """
    end = time.monotonic() + seconds
    while True:
        try:
            return TrackerSession((url, port))
        except ConnectionRefusedError as refused:
            left = end - time.monotonic()
            if left <= 0:
                raise ConnectionRefusedError(
                    f"no tracker answers at {url}:{port}; start 'tvmrt rpc tracker' there, or "
                    "check the address"
                ) from refused
            time.sleep(min(5, left))
