"""Compilation of a network whose file leaves dimensions dynamic, with bounds inferred from use.

The first bounds with which the whole compiler succeeds are used. So an error that proposes bounds
only proposes bounds that compile.
"""

from __future__ import annotations

import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tvmrt.compiler.codegen.target import UNHOSTED
from tvmrt.compiler.export.library import CompiledLibrary
from tvmrt.compiler.frontend.dimension_roles import (
    MAX_DEFAULT_BYTES,
    OTHER_PICTURE_SIZES,
    DefaultBounds,
    Role,
)
from tvmrt.compiler.frontend.onnx.default_bounds import UndeclaredDims, find_undeclared_dims
from tvmrt.compiler.ir.limits import MemoryBoundError
from tvmrt.compiler.request import Request
from tvmrt.error import (
    SizesWarning,
    TvmrtWarning,
    UnboundedDimensionsError,
    UnexpectedImportError,
    UnsupportedError,
    UnsupportedSizes,
)
from tvmrt.option_syntax import option

MAX_HALVINGS = 10
_WARNINGS_LOCK = threading.RLock()  # warning filters are global to the process
_PACKAGE = __name__.split(".", maxsplit=1)[0]


Attempt = Callable[[Request, Callable[[int], None]], CompiledLibrary]


class _MemoryLimitError(MemoryBoundError):
    """Error: the tensors of a network take more than the limit."""

    def __init__(self, nbytes: int) -> None:
        super().__init__(f"its tensors take {nbytes} bytes")
        self.nbytes = nbytes


@dataclass(frozen=True)
class _Compiled:
    """Network that compiles at some sizes, with its warnings. ``is_related``: it is not valid for
    all combinations of these sizes."""

    result: CompiledLibrary
    nbytes: int
    dims: dict[str, Any]
    messages: list[str]
    is_related: bool


def compile_with_inferred_bounds(
    model: Any, request: Request, attempt: Attempt
) -> tuple[CompiledLibrary, dict[str, Any]]:
    """Call ``attempt`` with the request and bounds for the dimensions that it does not declare.

    Return the library, and the ``dims`` of the request with these bounds. ``attempt`` must call its
    second argument with the bytes of the network's tensors. A Remark states the chosen bounds and
    their memory. If no bounds work, the first error of ``attempt`` is raised; an internal error and
    an unsupported operator end the search at once. UnboundedDimensionsError
    with bounds that work is raised if their memory exceeds ``MAX_DEFAULT_BYTES`` or the request's
    ``max_memory``, and always for a board.
    """
    try:
        return attempt(request, lambda _: None), dict(request.dims or {})
    except UnboundedDimensionsError as error:
        if not error.names:
            raise
        problem = error
    axes = find_undeclared_dims(
        model, request.shapes, request.dims, request.sequences, problem.names
    )
    if axes.sizes.keys() != set(problem.names):
        raise problem
    search = _Search(request, attempt, axes)
    with _WARNINGS_LOCK:
        inferred = search.on_board(problem) if _is_for_board(request) else search.run(_name(model))
    for text in inferred.messages:
        _warn(text)
    names = [each.name for each in inferred.result.summary.inputs]
    chosen = axes.declare_valid(dict(zip(names, inferred.result.program.input_types)))
    _warn(
        "the network has dynamic dimensions; bounds inferred from their use: "
        f"{option('dims', chosen)}, with up to {_size(inferred.nbytes)} for tensors; declare them "
        "to change the bounds"
    )
    inferred.result.program.inferred_axes = {
        name: [label if label in axes.sizes else None for label in shape]
        for name, shape in axes.inputs.items()
    }
    return inferred.result, {**(request.dims or {}), **chosen}


class _Search:
    """Search for bounds with which one network compiles."""

    def __init__(self, request: Request, attempt: Attempt, axes: UndeclaredDims) -> None:
        self.request = request
        self.attempt = attempt
        self.axes = axes
        self.limit = request.max_memory or MAX_DEFAULT_BYTES
        self.nbytes = 0  # of the last attempt

    def run(self, name: str) -> _Compiled:
        """Return the network with the first bounds that work within the memory limit."""
        sizes, same = dict(self.axes.sizes), dict[str, str]()
        try:
            attempt = self._largest_batch_within_limit(sizes, same)
            return (
                self._independent_bounds((None, *OTHER_PICTURE_SIZES)) or attempt
                if attempt.is_related
                else attempt
            )
        except MemoryBoundError:
            raise self._over_limit_error(name, sizes, same) from None
        except _INVALID_SIZES as error:
            problem = _require_about_sizes(error)
        except UnsupportedError as error:
            raise UnsupportedError(f"{error}{self._advice_of_fixed_sizes()}") from error
        image_size = self._working_image_size(problem)
        for sizes, same in self._candidate_bounds((image_size,)):
            try:
                attempt = self._largest_batch_within_limit(sizes, same)
                if not attempt.is_related:
                    return attempt
                return self._independent_bounds((image_size,)) or attempt
            except MemoryBoundError:
                raise self._over_limit_error(name, sizes, same) from None
            except _INVALID_SIZES as error:
                _require_about_sizes(error)
        raise problem

    def _advice_of_fixed_sizes(self) -> str:
        """Return the end of an error text with sizes at which the network compiles, if there are
        usual ones."""
        sizes = self.axes.typical_sizes(False)
        try:
            self._compiled(sizes, {})
        except (UnsupportedError, ValueError):
            return ""  # the first error is the one to report
        return f"; with {option('dims', self.axes.declare(sizes, {}))} it compiles"

    def _working_image_size(self, problem: Exception) -> int | None:
        """Return the image size with which the network compiles, None for the usual one. Raise
        ``problem`` if there is none."""
        for image_size in (None, *OTHER_PICTURE_SIZES):
            sizes = self.axes.typical_sizes(False, image_size)
            if image_size and sizes == self.axes.typical_sizes(False):
                break  # it has no image input
            if self._try_sizes(sizes, {}) is not None:
                return image_size
        raise problem

    def _independent_bounds(self, image_sizes: Sequence[int | None]) -> _Compiled | None:
        """Return the network with bounds that are valid for all combinations of sizes."""
        for sizes, same in self._candidate_bounds(image_sizes):
            attempt = self._try_sizes(sizes, same)
            if attempt is not None and not attempt.is_related:
                return attempt
        return None

    def _candidate_bounds(
        self, image_sizes: Sequence[int | None]
    ) -> Iterator[tuple[dict[str, DefaultBounds], dict[str, str]]]:
        """Yield bounds to try; ``image_sizes``: image sizes to try if only one size may work."""
        yield from self.axes.fallback_bounds()
        for dynamic_batch in (True, False):
            tried: list[dict[str, DefaultBounds]] = []
            for image_size in image_sizes:
                sizes = self.axes.typical_sizes(dynamic_batch, image_size)
                if sizes not in tried:
                    tried.append(sizes)
                    yield sizes, {}

    def on_board(self, problem: UnboundedDimensionsError) -> _Compiled:
        """Raise an error with sizes that compile. Bounds are not chosen for a board, because its
        memory would be planned for them."""
        usual = [
            self.axes.typical_sizes(False, image_size)
            for image_size in (None, *OTHER_PICTURE_SIZES)
        ]
        for sizes in (usual[0], self.axes.limit_batch(self._minimum_sizes(), 1), *usual[1:]):
            attempt = self._try_sizes(sizes, {})
            if attempt is not None:
                raise UnboundedDimensionsError(
                    "memory of a C program is fixed when it is compiled, for the largest sizes; "
                    "declare bounds of "
                    f"{', '.join(problem.names)}, for example "
                    f"{option('dims', self.axes.declare(sizes, {}))}"
                ) from None
        raise problem

    def _minimum_sizes(self) -> dict[str, DefaultBounds]:
        return {
            n: replace(size, low=max(size.low, 1), high=max(size.low, 1))
            for n, size in self.axes.sizes.items()
        }

    def _largest_batch_within_limit(
        self, sizes: dict[str, DefaultBounds], same: dict[str, str]
    ) -> _Compiled:
        """Return the network with the largest batch within the limit. Raise MemoryBoundError if a
        batch of one exceeds it."""
        batch = max((s.high for s in sizes.values() if s.role is Role.BATCH), default=1)
        while True:
            try:
                return self._compiled(sizes, same)
            except MemoryBoundError as error:
                if batch <= 1:
                    raise
                smaller = batch // 4  # an early error does not report the size
                if isinstance(error, _MemoryLimitError):
                    smaller = min(int(batch * self.limit / error.nbytes), batch - 1)
                batch = 1 << max(smaller, 1).bit_length() - 1
            sizes = self.axes.limit_batch(sizes, batch)

    def _try_sizes(
        self, sizes: Mapping[str, DefaultBounds], same: Mapping[str, str]
    ) -> _Compiled | None:
        """Return the network at some sizes; None if it does not compile at them. Any error that is
        not about sizes is raised."""
        try:
            return self._compiled(sizes, same)
        except _INVALID_SIZES as error:
            _require_about_sizes(error)
            return None

    def _compiled(self, sizes: Mapping[str, DefaultBounds], same: Mapping[str, str]) -> _Compiled:
        dims = {**(self.request.dims or {}), **self.axes.declare(sizes, same)}
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            result = self.attempt(replace(self.request, dims=dims), self._check)
        messages = [str(each.message) for each in seen if issubclass(each.category, TvmrtWarning)]
        is_related = any(issubclass(each.category, SizesWarning) for each in seen)
        return _Compiled(result, self.nbytes, dims, messages, is_related)

    def _check(self, nbytes: int) -> None:
        self.nbytes = nbytes
        if nbytes > self.limit:
            raise _MemoryLimitError(nbytes)

    def _over_limit_error(
        self, name: str, sizes: dict[str, DefaultBounds], same: dict[str, str]
    ) -> UnboundedDimensionsError:
        """Return the error for a network that needs too much memory with the inferred bounds, with
        smaller bounds that fit."""
        small: dict[str, DefaultBounds] | None = self.axes.limit_batch(sizes, 1)
        text = option("dims", self.axes.declare(small or sizes, same))
        example = ""
        for _ in range(MAX_HALVINGS):
            small = None if small is None else self.axes.halve_largest(small)
            attempt = None if small is None else self._try_sizes(small, same)
            if attempt is not None and small is not None:
                declared = self.axes.declare(small, same)
                size = _size(attempt.nbytes)
                example = f"for example {option('dims', declared)}, which takes {size}"
                break
        return UnboundedDimensionsError(
            f"{name} has dynamic dimensions and needs more than {_size(self.limit)} for tensors "
            f"at {text}; declare bounds{', ' + example if example else ''}",
            tuple(sizes),
        )


# A network that is invalid at some sizes is a ValueError, as operands do not fit each other.
_INVALID_SIZES = (UnsupportedSizes, ValueError)


def _require_about_sizes(error: Exception) -> Exception:
    """Return an error that other sizes may avoid; raise an internal error again."""
    if isinstance(error, UnexpectedImportError):
        raise error
    return error


def _name(model: Any) -> str:
    return os.fspath(model) if isinstance(model, (str, os.PathLike)) else "the network"


def _is_for_board(request: Request) -> bool:
    return bool(request.board or request.runtime == "crt" or request.target in UNHOSTED)


def _size(nbytes: int) -> str:
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if nbytes >= factor:
            return f"{nbytes / factor:.3g} {unit}"
    return f"{nbytes} B"


def _warn(text: str) -> None:
    """Emit a warning with the location of the caller outside of this package."""
    level, frame = 1, sys._getframe()
    while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] == _PACKAGE:
        frame, level = frame.f_back, level + 1  # type: ignore[assignment]
    warnings.warn(text, TvmrtWarning, stacklevel=level)
