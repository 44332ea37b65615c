"""Run networks in another process: ``tvmrt run net.so --random --apart``."""

from __future__ import annotations

import os
import timeit
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import click

import tvmrt
from tvmrt.connection import Connection, RemoteMachine, RemoteNetwork

loaded: list[Any] = []  # in the other process


class Apart(Connection):
    def options(self, command: str) -> list[click.Option]:
        # names start with the key of the connection, so that plug-ins do not collide
        name = click.Option(["--apart"], is_flag=True, help="Run in another process.")
        slow = click.Option(
            ["--apart-nice"], type=int, default=0, help="Nice value of that process."
        )
        return [name, slow]

    def open(self, values: Mapping[str, Any]) -> RemoteMachine:
        return OtherProcess(values["apart_nice"])


class OtherProcess(RemoteMachine):
    def __init__(self, nice: int) -> None:
        self.pool = ProcessPoolExecutor(1, get_context("spawn"))
        self.nice = nice

    def open(self, path: Any, threads: int | None) -> RemoteNetwork:
        inputs, outputs = self.pool.submit(load, str(path), self.nice).result()
        return NetworkThere(self.pool, inputs, outputs)

    def close(self) -> None:
        self.pool.shutdown()


class NetworkThere(RemoteNetwork):
    def __init__(self, pool: ProcessPoolExecutor, inputs: Any, outputs: list[str]) -> None:
        self.pool, self.inputs, self.output_names = pool, inputs, outputs

    def run(self, arrays: Any) -> Any:
        return self.pool.submit(run, arrays).result()

    def time(self, repeat: int) -> list[float]:
        return self.pool.submit(measure, repeat).result()


def load(path: str, nice: int) -> tuple[Any, list[str]]:
    os.nice(nice)
    loaded[:] = [tvmrt.load(path)]
    return loaded[0].inputs, [tensor.name for tensor in loaded[0].outputs]


def run(arrays: Any) -> list[Any]:
    loaded[1:] = [arrays]
    return list(loaded[0](arrays).values())


def measure(repeat: int) -> list[float]:
    return timeit.repeat(lambda: loaded[0](loaded[1]), number=1, repeat=repeat)
