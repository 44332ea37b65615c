"""Further compilations of a network, for sizes outside of the bounds that tvmrt chose."""

from __future__ import annotations

import re
import threading
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Callable, Protocol, Union

from tvmrt.error import CompileError, TvmrtWarning, UnsupportedError
from tvmrt.option_syntax import option
from tvmrt.tensor_info import TensorInfo

Axes = Mapping[str, Sequence[Union[str, None]]]  # by input, the dimension of each axis, or None
Shapes = tuple[tuple[int, ...], ...]
_Bounds = Union[str, "tuple[int, int]"]

MAX_VARIANTS = 8  # compiled variants, and failures, that a network keeps
_MAX_SHAPES = 1024


class InputSizeError(ValueError):
    """Error: an input has a size that the network was not compiled for. ``problem``: the text
    without the remedy."""

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(f"{problem}; {remedy}" if remedy else problem)
        self.problem = problem


class _Network(Protocol):
    """What this module needs of ``Network``."""

    @property
    def max_idle(self) -> int: ...

    @max_idle.setter
    def max_idle(self, count: int) -> None: ...

    @property
    def inputs(self) -> tuple[TensorInfo, ...]: ...

    @property
    def dims(self) -> dict[str, tuple[int, int]]: ...

    def run_once(self, given: Sequence[Any]) -> list[Any]: ...

    def with_threads(self, threads: int) -> _Network: ...


class SizeVariants:
    """Variants of a network for sizes outside of its bounds, compiled when a call needs them.

    Only dimensions in ``axes`` vary: those that the file leaves open and the caller did not
    declare. ``compile_for`` returns the network with these ``dims``. Any number of threads may
    call; one compiles at a time, the others wait.
    """

    def __init__(self, axes: Axes, compile_for: Callable[[dict[str, _Bounds]], _Network]) -> None:
        self._axes = axes
        self._compile_for = compile_for
        self._lock = threading.Lock()
        self._attempts: dict[str, _Network | Exception] = {}  # by dims
        self.networks: tuple[_Network, ...] = ()  # compiled variants, the latest first
        self._by_shapes: dict[Shapes, _Network] = {}

    def with_threads(self, threads: int) -> SizeVariants:
        """Return variants of the network that use at most this number of threads."""
        return SizeVariants(self._axes, lambda dims: self._compile_for(dims).with_threads(threads))

    def after_fork(self) -> None:
        """Replace the lock, which a thread of the parent process may hold."""
        self._lock = threading.Lock()

    def known(self, given: Sequence[Any]) -> _Network | None:
        """Return the variant that ran these shapes before; None if there is none."""
        return self._by_shapes.get(_shapes_of(given)) if self._by_shapes else None

    def run(self, base: _Network, given: Sequence[Any], error: InputSizeError) -> list[Any]:
        """Return the outputs of a variant, which is compiled if necessary.

        Raises ``error``, of the network ``base``, or that of a variant if none can take these
        shapes; ValueError with the reason if it does not compile.
        """
        shapes = _shapes_of(given)
        while True:
            networks = self.networks
            for network in networks:
                try:
                    result = network.run_once(given)
                except InputSizeError as problem:
                    error = problem
                    continue
                self._remember_shapes(shapes, network)
                return result
            with self._lock:
                if self.networks is networks:
                    self._add(base, shapes, error)

    def _remember_shapes(self, shapes: Shapes, network: _Network) -> None:
        if len(self._by_shapes) >= _MAX_SHAPES or network not in self.networks:
            self._by_shapes = {}
        self._by_shapes[shapes] = network

    def _add(self, base: _Network, shapes: Shapes, error: InputSizeError) -> None:
        """Compile the first variant for these shapes that was not tried."""
        problem: Exception | None = None
        for dims in self._dims_for(base, shapes):
            text = option("dims", dims)
            found = self._attempts.get(text)
            if found is None:
                warnings.warn(
                    f"{error.problem}; it is compiled again, for {text}; give these bounds to "
                    "tvmrt.load to do so before the first call",
                    TvmrtWarning,
                    stacklevel=5,
                )
                try:
                    found = self._compile_for(dims)
                except (ValueError, UnsupportedError) as reason:
                    found = reason
                except (CompileError, OSError, ImportError) as reason:  # may succeed later
                    raise _failure(error, reason) from reason
                self._keep(text, found)
                if not isinstance(found, Exception):
                    found.max_idle = base.max_idle
                    return
            if isinstance(found, Exception):
                problem = found
        raise error if problem is None else _failure(error, problem)

    def _keep(self, dims: str, found: _Network | Exception) -> None:
        """Keep a variant, or the reason why it does not compile; forget the oldest beyond the
        limit."""
        self._attempts[dims] = found
        failed = isinstance(found, Exception)
        same = [n for n, a in self._attempts.items() if isinstance(a, Exception) is failed]
        if len(same) > MAX_VARIANTS:
            del self._attempts[same[0]]
        if not failed:
            networks = [a for a in self._attempts.values() if not isinstance(a, Exception)]
            self.networks, self._by_shapes = tuple(reversed(networks)), {}

    def _dims_for(self, base: _Network, shapes: Shapes) -> Iterator[dict[str, _Bounds]]:
        """Yield declarations that may accept these shapes: wider bounds, then only these sizes."""
        from tvmrt.compiler.frontend.dims import Dims  # calls that fit need no compiler
        from tvmrt.compiler.ir.extent_forms import linear_form

        sizes = _sizes_of_dims(base.inputs, self._axes, base.dims, shapes)
        if sizes is None:
            return
        bounds, declared = base.dims, Dims(base.dims)
        wide: dict[str, _Bounds] = {}
        exact: dict[str, _Bounds] = {}
        fits, grows = True, False  # whether wider bounds include the sizes, and are wider
        for label, (extent, size) in sizes.items():
            if isinstance(extent, int):  # it was compiled for one size
                exact[label] = size, size
                wide[label] = _widened((extent, extent), size)
                grows |= extent != size
                continue
            form = linear_form(declared.extent(extent)) if extent in declared else None
            if form is None:
                exact[label] = size, size
                fits = False
                continue
            symbol, step, first = form
            count, rest = divmod(size - first, step)
            is_part = symbol.name != label and symbol.name in re.findall(r"\w+", label)
            exact.update({symbol.name: (count, count)} if is_part else {label: (size, size)})
            fits = fits and not rest and count >= 0
            before = wide.get(symbol.name, bounds[symbol.name])
            wide[symbol.name] = _widened(before, max(count, 0))
            grows |= wide[symbol.name] != before
            if symbol.name != label and not is_part:
                wide[label] = str(extent)
        if fits and grows:
            yield wide
        yield exact


def variable_axes(inputs: Sequence[TensorInfo], inferred: Axes, defaults: Collection[str]) -> Axes:
    """Return the axes whose sizes may change: those with inferred bounds, and those of the
    dimensions ``defaults``. Inputs without such axes are left out."""
    result = {}
    for info in inputs:
        chosen = inferred.get(info.name) or [None] * len(info.shape)
        result[info.name] = [
            str(extent) if label is None and extent in defaults else label
            for label, extent in zip(chosen, info.shape)
        ]
    return {name: labels for name, labels in result.items() if any(labels)}


def _widened(bounds: _Bounds, size: int) -> tuple[int, int]:
    """Return bounds that include a size; the upper one grows to a power of two."""
    low, high = map(int, bounds)
    return min(low, size), high if size <= high else 1 << (size - 1).bit_length()


def _failure(error: InputSizeError, reason: Exception) -> ValueError:
    return ValueError(f"{error.problem}; the network does not compile for this size: {reason}")


def _shapes_of(given: Sequence[Any]) -> Shapes:
    return tuple(tuple(each.shape) for each in given)


def _sizes_of_dims(
    inputs: Sequence[TensorInfo],
    axes: Axes,
    bounds: Mapping[str, tuple[int, int]],
    shapes: Shapes,
) -> dict[str, tuple[int | str, int]] | None:
    """Return the compiled extent and the size of each dimension in ``axes``; None if another axis
    does not fit, or if a dimension has two sizes."""
    result: dict[str, tuple[int | str, int]] = {}
    for info, shape in zip(inputs, shapes):
        if len(info.shape) != len(shape):
            return None
        labels = axes.get(info.name) or [None] * len(shape)
        for label, extent, size in zip(labels, info.shape, shape):
            if label is not None:
                if result.setdefault(label, (extent, size))[1] != size:
                    return None
            elif isinstance(extent, int):
                if extent != size:
                    return None
            elif extent in bounds and not bounds[extent][0] <= size <= bounds[extent][1]:
                return None
    return result
