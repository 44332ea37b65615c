"""Compare remote calls with bare sockets: round-trip time and throughput over the loopback.

Usage: bench_rpc.py [--seconds S]

The bare baseline is a C process that answers packets of equal sizes, with equal socket options, and
a C client. The difference is the cost of the protocol and of Python.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np

import tvmrt
from tvmrt import rpc

MIB = 1 << 20
BARE = """
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
static int all(int fd, char* data, long size, int sends) {
  while (size > 0) {
    long part = sends ? write(fd, data, size) : read(fd, data, size);
    if (part <= 0) return -1;
    data += part; size -= part;
  }
  return 0;
}
static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + 1e-9 * t.tv_nsec;
}
void serve(int fd, long request, long reply) {
  char* data = malloc(request > reply ? request : reply);
  int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  while (all(fd, data, request, 0) == 0 && all(fd, data, reply, 1) == 0) continue;
  _exit(0);
}
double ask(int fd, char* data, long request, long reply, int count) {
  int on = 1, i;
  double begin = now();
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  for (i = 0; i < count; ++i) {
    if (all(fd, data, request, 1) != 0 || all(fd, data, reply, 0) != 0) return -1;
  }
  return (now() - begin) / count;
}
"""


class BareSocket:
    """Baseline: a socket to a process that answers packets of one size with packets of another."""

    def __init__(self, library: ctypes.CDLL, request: int, reply: int) -> None:
        self.library, self.sizes = library, (request, reply)
        listener = socket.create_server(("127.0.0.1", 0))
        self.process = os.fork()
        if self.process == 0:
            library.serve(
                listener.accept()[0].detach(), ctypes.c_long(request), ctypes.c_long(reply)
            )
        self.socket = socket.create_connection(listener.getsockname())
        self.data = ctypes.create_string_buffer(max(request, reply))
        listener.close()

    def exchange(self, count: int) -> float:
        """Return the seconds of one exchange."""
        request, reply = map(ctypes.c_long, self.sizes)
        return self.library.exchange(self.socket.fileno(), self.data, request, reply, count)

    def close(self) -> None:
        self.socket.close()
        os.kill(self.process, signal.SIGKILL)
        os.waitpid(self.process, 0)


def build() -> ctypes.CDLL:
    """Compile and load the C baseline."""
    folder = tempfile.mkdtemp(prefix="bench-rpc-")
    source, library = Path(folder) / "bare.c", Path(folder) / "bare.so"
    source.write_text(BARE)
    subprocess.run(["cc", "-O2", "-w", "-shared", "-fPIC", source, "-o", library], check=True)
    loaded = ctypes.CDLL(str(library))
    loaded.exchange.restype = ctypes.c_double
    return loaded


def timed(function, count: int) -> float:
    """Return the average seconds of one call."""
    begin = time.perf_counter()
    for _ in range(count):
        function()
    return (time.perf_counter() - begin) / count


def compare(name: str, ours, bare, seconds: float, per_second: int = 0) -> None:
    """Print the minimum times of two alternating measurements; other load only adds time."""
    times: tuple[list[float], list[float]] = ([], [])
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times[0]) < 5:
        times[0].append(ours())
        times[1].append(bare())
    a, b = min(times[0]), min(times[1])
    if per_second:
        print(f"{name:28} {per_second / a / 1e9:8.2f} GB/s   bare {per_second / b / 1e9:8.2f} GB/s")
    else:
        line = f"{name:28} {a * 1e6:8.1f} us     bare {b * 1e6:8.1f} us"
        print(f"{line}   over it {(a - b) * 1e6:.1f} us")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0)
    seconds = parser.parse_args().seconds
    library = build()
    server = rpc.Server(port=0, silent=True)
    remote = rpc.connect("127.0.0.1", server.port)
    call = remote.get_function("runtime.NumThreads")
    bare = BareSocket(library, 28 - 4, 40)
    compare("call of no arguments", lambda: timed(call, 200), lambda: bare.exchange(200), seconds)
    bare.close()
    size = 64 * MIB
    data = np.arange(size // 4, dtype="float32")
    there = tvmrt.nd.empty(data.shape, "float32", remote.cpu())
    bare = BareSocket(library, size, 24)
    push = lambda: timed(lambda: there.copyfrom(data), 1)  # noqa: E731
    compare("tensor there", push, lambda: bare.exchange(1), seconds, size)
    upload, bytes_ = remote.get_function("tvm.rpc.server.upload"), data.tobytes()
    send = lambda: timed(lambda: upload("file", bytes_), 1)  # noqa: E731
    compare("upload of a file", send, lambda: bare.exchange(1), seconds, size)
    bare.close()
    bare = BareSocket(library, 68, size)
    compare("tensor back", lambda: timed(there.numpy, 1), lambda: bare.exchange(1), seconds, size)
    bare.close()
    remote.close()
    server.terminate()


if __name__ == "__main__":
    main()
