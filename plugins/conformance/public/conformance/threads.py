"""Check whether several threads can run a network at once, each with its own executor."""

from __future__ import annotations

import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

import tvmrt
from tvmrt.compiler.sdk.devices import Device

from .device_under_test import LoadedNetwork, accepted_cases, merge_cases
from .finding import Finding

CHECK = "threads"
THREADS, RUNS = 6, 25


def check(device: Device, tolerance: float, only: tuple[str, ...] = ()) -> list[Finding]:
    """Compare every run on every thread with a single-threaded run on the thread's own inputs, half
    of them with another copy of the library: each thread runs all steps, or one thread runs the
    steps of a device, as in the asynchronous scheduler."""
    accepted = [claim.case for claim in accepted_cases(device, only) if claim.regions]
    if not accepted:
        return []
    return [
        _compared("runs at the same time", device, accepted, "sync", tolerance),
        _compared("the asynchronous scheduler", device, accepted, "async", tolerance),
    ]


def _compared(what: str, device: Device, cases: list, schedule: str, tolerance: float) -> Finding:
    with tempfile.TemporaryDirectory(prefix="tvmrt-") as folder:
        network = LoadedNetwork(device, merge_cases(cases), Path(folder), schedule=schedule)
        copy = shutil.copy(network.path, Path(folder, "copy.so"))
        modules = [network.module, tvmrt.runtime.load_module(str(copy))]
        feeds = [_scaled(network.case.feeds, 1 + i / 4) for i in range(THREADS)]
        alone = [network.outputs(network.instance(own)) for own in feeds]

        def work(number: int) -> str:
            executor = network.instance(feeds[number], modules[number % 2])
            for _ in range(RUNS):
                for found, wanted in zip(network.outputs(executor), alone[number]):
                    if not np.allclose(found, wanted, rtol=tolerance, equal_nan=True):
                        return "a result differs from that of one thread alone"
            return ""

        with ThreadPoolExecutor(THREADS) as pool:
            problems = [
                _result_or_error(future)
                for future in [pool.submit(work, i) for i in range(THREADS)]
            ]
    wrong = "; ".join(dict.fromkeys(filter(None, problems)))
    return Finding(CHECK, what, not wrong, wrong or f"{THREADS} threads, {RUNS} runs each")


def _scaled(feeds: dict[str, np.ndarray], factor: float) -> dict[str, np.ndarray]:
    return {n: (a * factor).astype(a.dtype) if a.dtype.kind == "f" else a for n, a in feeds.items()}


def _result_or_error(future) -> str:
    try:
        return future.result()
    except Exception as problem:  # a finding, not an end of the test
        return str(problem) or type(problem).__name__
