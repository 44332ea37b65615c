"""Executors of a network that concurrent calls take and give back."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from time import monotonic
from typing import Any, Callable, cast

import numpy as np

from tvmrt.runtime._core import ArrayCall
from tvmrt.runtime.data_type import DataType
from tvmrt.runtime.executor.base import Executor
from tvmrt.tensor_info import TensorInfo

Port = tuple[int, tuple[int, ...], "np.dtype[Any]", DataType]  # the format of ArrayCall
Ports = tuple[tuple[Port, ...], tuple[Port, ...]]


def _processors() -> int:
    """Return the number of processors that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1


# More calls cannot be computed at a time. While they last, a call takes the executor that another
# one has just given back, so more callers than this rarely create any.
DEFAULT_MAX_IDLE = _processors()
MIN_IDLE_SECONDS = 0.25


class Context:
    """One executor with its own inputs, outputs and intermediate tensors."""

    __slots__ = ("call", "executor", "run")

    def __init__(self, executor: Executor, ports: Ports | None) -> None:
        module = executor.module
        self.executor = executor
        self.run = module["run"]
        if ports is not None:
            self.call = ArrayCall(module["set_input"], self.run, module["get_output"], *ports)


def unused_releaser(idle: deque[Context]) -> Callable[[], None]:
    """Return a function that releases the executor that was idle the longest, if no call has taken
    it for ``MIN_IDLE_SECONDS``. Calls take the executor that was given back last."""
    checked, longest = monotonic(), 0  # the id, because a reference would keep the executor

    def release_unused() -> None:
        nonlocal checked, longest
        now = monotonic()
        if now - checked < MIN_IDLE_SECONDS:
            return
        checked = now
        with suppress(IndexError):  # another thread has taken the last one
            if id(idle[0]) == longest:
                idle.popleft()
            longest = id(idle[0])

    return release_unused


def fast_call(
    idle: deque[Context],
    release_unused: Callable[[], None],
    new_executor: Callable[[], Executor],
    ports: Ports,
) -> Callable[[tuple[Any, ...]], Any]:
    """Return the fast path of a call, which takes arrays of exactly the declared types and shapes.
    It returns NotImplemented for others. Local variables save time in each call."""

    def direct(given: tuple[Any, ...]) -> Any:
        try:
            context = idle.pop()
        except IndexError:
            context = Context(new_executor(), ports)
        try:
            return context.call(*given)
        finally:
            idle.append(context)  # a full deque releases the executor that was idle the longest
            if len(idle) > 1:
                release_unused()

    return direct


def ports_of(numbers: Sequence[int], tensors: Sequence[TensorInfo]) -> tuple[Port, ...]:
    """Return the ports of inputs or outputs with these numbers."""
    return tuple(
        (number, cast("tuple[int, ...]", each.shape), np.dtype(each.dtype), DataType(each.dtype))
        for number, each in zip(numbers, tensors)
    )
