"""Further compilations of a network, for single sizes that the first one does not take."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Callable, Protocol, Union

from tvmrt.error import CompileError, SizeConditionError, UnsupportedError
from tvmrt.network.open_sizes import NO_BOUND
from tvmrt.option_syntax import option
from tvmrt.tensor_info import TensorInfo

Axes = Mapping[
    str, Sequence[Union[str, None]]
]  # by input, the open dimension of each axis, or None
Shapes = tuple[tuple[int, ...], ...]
Dims = dict[str, tuple[int, int]]

MAX_VARIANTS = 16  # compiled variants, and failures, that a network keeps
_MAX_SHAPES = 1024


class InputSizeError(ValueError):
    """Error: an input has a size that the network was not compiled for. ``problem``: the text
    without the remedy."""

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(f"{problem}; {remedy}" if remedy else problem)
        self.problem = problem


SizeError = Union[InputSizeError, SizeConditionError]


class _Network(Protocol):
    """What this module needs of ``Network``."""

    @property
    def max_idle(self) -> int: ...

    @max_idle.setter
    def max_idle(self, count: int) -> None: ...

    @property
    def inputs(self) -> tuple[TensorInfo, ...]: ...

    def run_once(self, arrays: Sequence[Any]) -> list[Any]: ...

    def with_threads(self, threads: int) -> _Network: ...


class SizeVariants:
    """Variants of a network for sizes that it does not take, compiled when a call needs them.

    Only dimensions in ``axes`` vary: those that the file leaves open and the caller did not
    declare. ``compile_for`` returns the network with these ``dims``. Any number of threads may
    call; one compiles at a time, the others wait.
    """

    def __init__(self, axes: Axes, compile_for: Callable[[Dims], _Network]) -> None:
        self._axes = axes
        self._compile_for = compile_for
        self._lock = threading.Lock()
        self._attempts: dict[str, _Network | Exception] = {}  # by dims
        self._by_shapes: dict[Shapes, _Network] = {}

    @property
    def networks(self) -> tuple[_Network, ...]:
        """The compiled variants."""
        attempts = list(self._attempts.values())
        return tuple(each for each in attempts if not isinstance(each, Exception))

    def with_threads(self, threads: int) -> SizeVariants:
        """Return variants of the network that use at most this number of threads."""
        return SizeVariants(self._axes, lambda dims: self._compile_for(dims).with_threads(threads))

    def after_fork(self) -> None:
        """Replace the lock, which a thread of the parent process may hold."""
        self._lock = threading.Lock()

    def known(self, arrays: Sequence[Any]) -> _Network | None:
        """Return the variant that ran these shapes before; None if there is none."""
        return self._by_shapes.get(_shapes_of(arrays)) if self._by_shapes else None

    def run(self, base: _Network, arrays: Sequence[Any], error: SizeError) -> list[Any]:
        """Return the outputs of a variant, which is compiled if necessary.

        Raises ``error``, of the network ``base``, or that of a variant if none can take these
        shapes; ValueError with the reason if it does not compile.
        """
        shapes = _shapes_of(arrays)
        sizes = _sizes_of_dims(base.inputs, self._axes, shapes)
        reason: Exception | None = None
        for dims in [] if sizes is None else _attempts_for(sizes, self._fixed_dims(base.inputs)):
            network = self._variant(base, dims, error)
            if isinstance(network, Exception):
                reason = network
                continue
            try:
                result = network.run_once(arrays)
            except (InputSizeError, SizeConditionError) as problem:
                error, reason = problem, None
                continue
            if len(self._by_shapes) >= _MAX_SHAPES:
                self._by_shapes = {}
            self._by_shapes[shapes] = network
            return result
        raise error if reason is None else _failure(error, reason)

    def _fixed_dims(self, inputs: Sequence[TensorInfo]) -> set[str]:
        """Return the dimensions that were compiled for one size, as a file may have an example."""
        return {
            label
            for info in inputs
            for label, extent in zip(self._axes.get(info.name, ()), info.shape)
            if label is not None and isinstance(extent, int)
        }

    def exact(self, base: _Network, arrays: Sequence[Any]) -> _Network:
        """Return the network compiled for exactly the sizes of these arrays, which is not kept.
        Raises ValueError if they do not fit the network."""
        sizes = _sizes_of_dims(base.inputs, self._axes, _shapes_of(arrays))
        if sizes is None:
            raise ValueError("the sizes of the inputs do not fit the network or each other")
        return self._compile_for({name: (size, size) for name, size in sizes.items()})

    def _variant(self, base: _Network, dims: Dims, error: SizeError) -> _Network | Exception:
        """Return the variant for these dimensions, or the reason why it does not compile."""
        text = option("dims", dims)
        variant = self._attempts.get(text)
        if variant is not None:
            return variant
        with self._lock:
            if text in self._attempts:
                return self._attempts[text]
            try:
                variant = self._compile_for(dims)
                variant.max_idle = base.max_idle
            except (ValueError, UnsupportedError) as reason:
                variant = reason
            except (CompileError, OSError, ImportError) as reason:  # may succeed later
                raise _failure(error, reason) from reason
            self._keep(text, variant)
        return variant

    def _keep(self, dims: str, variant: _Network | Exception) -> None:
        """Keep a variant, or the reason why it does not compile; forget the oldest beyond the
        limit."""
        attempts = {**self._attempts, dims: variant}
        failed = isinstance(variant, Exception)
        same = [n for n, a in attempts.items() if isinstance(a, Exception) is failed]
        if len(same) > MAX_VARIANTS:
            oldest = attempts.pop(same[0])
            self._by_shapes = {s: n for s, n in [*self._by_shapes.items()] if n is not oldest}
        self._attempts = attempts


def open_axes(inputs: Sequence[TensorInfo], open_dims: Axes) -> Axes:
    """Return the open dimensions of the inputs that have some."""
    names = {info.name for info in inputs}
    return {name: axes for name, axes in open_dims.items() if name in names and any(axes)}


def _attempts_for(sizes: Mapping[str, int], fixed: Collection[str]) -> list[Dims]:
    """Return the dimensions of variants for these sizes: first any size of those that are empty
    now, as a cache is in the first call only, and of ``fixed``; then exactly these sizes."""
    any_size = {
        name: (min(size, 1), NO_BOUND) for name, size in sizes.items() if size == 0 or name in fixed
    }
    exact = {name: (size, size) for name, size in sizes.items()}
    return [any_size, exact] if any_size else [exact]


def _failure(error: SizeError, reason: Exception) -> ValueError:
    problem = getattr(error, "problem", str(error))
    return ValueError(f"{problem}; the network does not compile for these sizes: {reason}")


def _shapes_of(arrays: Sequence[Any]) -> Shapes:
    return tuple(tuple(each.shape) for each in arrays)


def _sizes_of_dims(
    inputs: Sequence[TensorInfo], axes: Axes, shapes: Shapes
) -> dict[str, int] | None:
    """Return the size of each dimension in ``axes``; None if another axis does not fit, or if a
    dimension has two sizes."""
    result: dict[str, int] = {}
    for info, shape in zip(inputs, shapes):
        if len(info.shape) != len(shape):
            return None
        labels = axes.get(info.name) or [None] * len(shape)
        for label, extent, size in zip(labels, info.shape, shape):
            if label is not None:
                if result.setdefault(label, size) != size:
                    return None
            elif isinstance(extent, int) and extent != size:
                return None
    return result
