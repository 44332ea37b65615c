"""Executors of a network that concurrent calls take and give back."""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from time import monotonic
from typing import Any, Callable, cast

import numpy as np

from tvmrt.runtime._core import ArrayCall, array_over
from tvmrt.runtime.data_type import DataType
from tvmrt.runtime.executor.base import Executor
from tvmrt.runtime.ndarray import NDArray
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

# Arrays of at least this size are used in place, or become results without a copy. Below, a copy is
# as fast.
LARGE_BYTES = 1 << 15


class Context:
    """One executor with its own inputs, outputs and intermediate tensors."""

    __slots__ = ("bind_input", "call", "executor", "output_bytes", "run", "take_output")

    def __init__(self, executor: Executor, ports: Ports | None) -> None:
        module = executor.module
        self.executor = executor
        self.run = module["run"]
        self.bind_input = module["set_input_zero_copy"]
        self.take_output = module["take_output"]
        self.output_bytes: list[int] = []
        if ports is not None:
            self.call = ArrayCall(
                module["set_input"],
                self.run,
                module["get_output"],
                *ports,
                self.bind_input,
                self.take_output,
                LARGE_BYTES,
            )

    def set_input(self, number: int, value: Any) -> None:
        """Use a large array in place, if the executor can: it must live until the run has ended."""
        if type(value) is np.ndarray and value.nbytes >= LARGE_BYTES:
            try:
                self.bind_input(number, value)
            except Exception:  # of another type, not contiguous, not aligned: set_input decides
                pass
            else:
                return
        self.executor.set_input(number, value)

    def result(self, number: int) -> np.ndarray[Any, Any]:
        """Return an output as an array that later runs do not change."""
        output = self.executor.get_output(number)
        if isinstance(output, NDArray) and output.nbytes >= LARGE_BYTES:
            self.output_bytes = self.output_bytes or output_bytes_of(self.executor)
            # a result that is much smaller than its memory is copied, and numpy is faster then
            if 4 * output.nbytes > self.output_bytes[number]:
                return array_over(self.take_output(number))
        return cast("np.ndarray[Any, Any]", output.numpy())


def output_bytes_of(executor: Executor) -> list[int]:
    """Return the bytes of the outputs' memory; 0 where each run allocates what it needs."""
    info = executor.module["get_output_info"]()
    output_bytes = []
    for shape, dtype in zip(info["shape"].values(), info["dtype"].values()):
        extents = [int(n) for n in shape]
        is_open = any(n >= 2**31 - 1 for n in extents)
        output_bytes.append(0 if is_open else math.prod(extents) * DataType(dtype).bits // 8)
    return output_bytes


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

    def direct(arguments: tuple[Any, ...]) -> Any:
        try:
            context = idle.pop()
        except IndexError:
            context = Context(new_executor(), ports)
        try:
            return context.call(*arguments)
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
