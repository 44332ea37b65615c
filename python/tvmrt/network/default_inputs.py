"""Inputs with default values, which are constants of the compiled network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Callable, Optional, Protocol, Union, cast

import numpy as np

Shapes = dict[str, tuple[int, ...]]
# By name; text is an open extent, and None no declaration.
DeclaredShapes = Mapping[str, Optional[tuple[Union[int, str], ...]]]


class _Network(Protocol):
    """What this module needs of ``Network``."""

    def __call__(self, /, *inputs: Any, **named: Any) -> Any: ...

    def with_threads(self, threads: int) -> _Network: ...


class DefaultInputs:
    """Inputs of a network's ONNX file that have a default value; none unless ``find`` is given.

    A default is a constant of the compiled network, so that calls which omit it, as almost all do,
    are fast. A call that gives some of them runs a variant of the network, in which these are
    inputs. Each combination of names and shapes is compiled once.
    """

    def __init__(
        self,
        find: Callable[[], DeclaredShapes] | None = None,
        compile_for: Callable[[Shapes], _Network] | None = None,
    ) -> None:
        """``find`` returns these inputs, ``compile_for`` the network with more ``shapes``."""
        self._find = find
        self._compile_for = compile_for
        self._declared: DeclaredShapes | None = None if find else {}
        self._variants: dict[tuple[tuple[str, tuple[int, ...]], ...], _Network] = {}

    def call(
        self, names: Sequence[str], inputs: Sequence[Any], named: Mapping[str, Any], by_name: bool
    ) -> Any:
        """Return the result of a call that gives some of these inputs; else NotImplemented.

        ``names``: the inputs of the network, which ``inputs`` follow. ``by_name``: the call got one
        dictionary. Raises ValueError for a value of another shape than declared, and the errors of
        ``load``.
        """
        others = named.keys() - set(names)
        if not others or self._compile_for is None:
            return NotImplemented
        if self._declared is None:
            self._declared = cast("Callable[[], DeclaredShapes]", self._find)()
        shapes = {name: np.shape(named[name]) for name in sorted(others & self._declared.keys())}
        if not shapes:
            return NotImplemented
        for name, shape in shapes.items():
            _check_shape(name, shape, self._declared[name])
        key = tuple(shapes.items())
        if key not in self._variants:
            self._variants[key] = self._compile_for(shapes)
        arrays = {**dict(zip(names, inputs)), **named}
        return self._variants[key](arrays) if by_name else self._variants[key](**arrays)

    def with_threads(self, threads: int) -> DefaultInputs:
        """Return the inputs for a network with another number of threads."""
        compile_for = self._compile_for
        if compile_for is None:
            return self
        return DefaultInputs(self._find, lambda shapes: compile_for(shapes).with_threads(threads))


def _check_shape(name: str, shape: tuple[int, ...], declared: tuple[int | str, ...] | None) -> None:
    if declared is None:
        return
    pairs = zip(shape, declared)
    if len(shape) != len(declared) or any(isinstance(d, int) and n != d for n, d in pairs):
        shape_text = ", ".join(str(d or "?") for d in declared)
        raise ValueError(f"input {name!r} has shape {shape}; the network declares ({shape_text})")
