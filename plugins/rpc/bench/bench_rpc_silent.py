"""Measure the time until a client with the key gets its answer, next to silent peers.

Usage: bench_rpc_silent.py [--peers N ...] [--drip]

With --drip the peers announce a key of 4,096 bytes and send one byte of it per second.
"""

from __future__ import annotations

import argparse
import socket
import struct
import threading
import time

from tvmrt import rpc


def connect_peers(port: int, count: int, drips: bool) -> list[socket.socket]:
    """Return `count` connections that the server has accepted."""
    peers = []
    for _ in range(count):
        peers.append(socket.create_connection(("127.0.0.1", port), timeout=60))
        if drips:
            peers[-1].sendall(struct.pack("<ii", 0xFF271, 4096))
    return peers


def drip(peers: list[socket.socket], done: threading.Event) -> None:
    """Send one byte of each peer's key per second while the server accepts it."""
    while not done.wait(1):
        for peer in list(peers):
            try:
                peer.sendall(b"c")
            except OSError:
                peers.remove(peer)


def measure(count: int, drips: bool) -> float:
    """Return the seconds from connecting to the answer of the first call."""
    server = rpc.Server(key="pi", silent=True)
    peers, done = connect_peers(server.port, count, drips), threading.Event()
    dripping = threading.Thread(target=drip, args=(list(peers), done), daemon=True)
    if drips:
        dripping.start()
        time.sleep(2)
    start = time.monotonic()
    remote = rpc.connect("127.0.0.1", server.port, key="pi")
    remote.get_function("runtime.NumThreads")()
    seconds = time.monotonic() - start
    remote.close()
    done.set()
    for peer in peers:
        peer.close()
    server.terminate()
    return seconds


def main() -> None:
    """Print a row for each number of peers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peers", type=int, nargs="*", default=[0, 1, 10, 100, 300])
    parser.add_argument("--drip", action="store_true")
    options = parser.parse_args()
    for count in options.peers:
        print(f"{count:5} peers without the key: {1e3 * measure(count, options.drip):9.1f} ms")


if __name__ == "__main__":
    main()
