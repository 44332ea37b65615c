"""Check whether several threads can run a network at once, each with its own executor."""

from __future__ import annotations

import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

import tvmrt
from tvmrt.compiler.sdk.devices import Device

from .device_under_test import Network, accepted_cases, few_of_each
from .finding import Finding, find
from .reference import difference

CHECK = "threads"
THREADS, RUNS = 6, 12
BYTES = 60_000  # of the inputs of a case; larger ones would only take longer
CASES = 3  # of an operator


def check(device: Device, tolerance: float, only: tuple[str, ...] = ()) -> list[Finding]:
    """Compare every run on every thread with a single-threaded run on the thread's own inputs, half
    of them with another copy of the library: each thread runs all steps, or one thread runs the
    steps of a device, as in the asynchronous scheduler."""
    accepted = few_of_each(accepted_cases(device, only), CASES, BYTES)
    if not accepted:
        return []
    ways = {"runs at the same time": "sync", "the asynchronous scheduler": "async"}
    good = f"{THREADS} threads, {RUNS} runs each"
    return [
        find(CHECK, what, lambda way=way: _compared(device, accepted, way, tolerance), good)
        for what, way in ways.items()
    ]


def _compared(device: Device, cases: list, schedule: str, tolerance: float) -> str:
    with tempfile.TemporaryDirectory(prefix="tvmrt-") as folder:
        network = Network(device, cases, Path(folder), schedule=schedule)
        copy = shutil.copy(network.path, Path(folder, "copy.so"))
        modules = [network.module, tvmrt.runtime.load_module(str(copy))]
        inputs = network.merged.feeds.items()
        feeds = [{name: np.roll(x, i) for name, x in inputs} for i in range(THREADS)]
        alone = [network.outputs(network.executor(own)) for own in feeds]

        def work(number: int) -> str:
            executor = network.executor(feeds[number], modules[number % 2])
            for _ in range(RUNS):
                for found, wanted in zip(network.outputs(executor), alone[number]):
                    if difference(found, np.ma.asarray(wanted), tolerance)[1]:
                        return "a result differs from that of one thread alone"
            return ""

        with ThreadPoolExecutor(THREADS) as pool:
            futures = [pool.submit(work, i) for i in range(THREADS)]
        return "; ".join(dict.fromkeys(filter(None, (future.result() for future in futures))))
