"""Entries of the sweep: networks with open axes, their example inputs and the sizes to compare.

An entry is a function with the decorator ``network`` that returns a ``Built``. All its tensors are
drawn from the same table of inputs, for the example of the exporter and for each size.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import textwrap
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

Sizes = Mapping[str, int]
EXPORTERS = ("script", "dynamo")  # dynamo=False and dynamo=True of torch.onnx.export
ENTRIES: dict[str, Entry] = {}


@dataclass(frozen=True)
class Input:
    """Input of a network.

    ``shape``: numbers, names of sizes, or sums and products of them. ``kind``: ``float``, ``ids``
    (below ``high``), ``ones``, ``mask`` (ones, then zeros, along the last axis), ``pairs`` (edges
    between ``high`` nodes, which may be a size), ``unit`` (floats from 0 to 1) or ``boxes``.
    """

    shape: tuple[int | str, ...]
    kind: str = "float"
    high: int | str = 50

    def extents(self, sizes: Sizes) -> list[int]:
        """Return the shape at some sizes."""
        return [evaluated(each, sizes) for each in self.shape]

    def axes(self) -> dict[int, str]:
        """Return the names of the open axes."""
        return {i: each for i, each in enumerate(self.shape) if isinstance(each, str)}

    def draw(self, rng: np.random.Generator, sizes: Sizes) -> np.ndarray:
        """Return random values at some sizes."""
        shape = self.extents(sizes)
        if self.kind == "float":
            return rng.standard_normal(shape).astype(np.float32)
        if self.kind == "unit":
            return rng.uniform(0, 1, shape).astype(np.float32)
        if self.kind == "boxes":
            corners = rng.uniform(0, 8, shape).astype(np.float32)
            corners[..., 2:] += corners[..., :2] + 1
            return corners
        if self.kind == "mask":
            ones = np.ones(shape, np.int64)
            for row in ones.reshape(-1, shape[-1])[1:]:
                row[int(rng.integers(1, shape[-1] + 1)) :] = 0
            return ones
        if self.kind == "ones":
            return np.ones(shape, np.int64)
        high = evaluated(self.high, sizes)
        return rng.integers(min(3, high - 1), high, shape).astype(np.int64)


@dataclass(frozen=True)
class Built:
    """Module with its inputs. ``call``: how it is called, by default with the inputs in order."""

    module: Any
    inputs: dict[str, Input]
    call: Callable[..., Any] = lambda module, *inputs: module(*inputs)
    calibrated: bool = False  # batch normalisations get the statistics of the example
    opset: int = 18

    def draw(self, seed: int, sizes: Sizes) -> dict[str, np.ndarray]:
        """Return inputs at some sizes."""
        rng = np.random.default_rng(seed)
        return {name: each.draw(rng, sizes) for name, each in self.inputs.items()}


@dataclass(frozen=True, eq=False)
class Entry:
    """Network of the sweep. ``sizes``: four, one of them far beyond the example's."""

    name: str
    build: Callable[[], Built]
    example: dict[str, int]
    sizes: list[dict[str, int]]
    exporters: tuple[str, ...]

    @cached_property
    def digest(self) -> str:
        """Return a digest of all that determines the exported file: the code and the versions."""
        from importlib.metadata import PackageNotFoundError, version

        texts = [*map(code_of, (Input, Built)), *_sources(self.build, {})]
        texts += [str(self.example), str(self.sizes)]
        for package in ("torch", "torchvision", "transformers", "timm", "onnxscript"):
            try:
                texts.append(f"{package} {version(package)}")
            except PackageNotFoundError:
                texts.append(f"no {package}")
        return hashlib.sha256("\n".join(texts).encode()).hexdigest()


def network(
    example: dict[str, int], *sizes: dict[str, int], exporters: tuple[str, ...] = EXPORTERS
) -> Callable[[Callable[[], Built]], Callable[[], Built]]:
    """Decorate a function that builds a network. A size lacks the names that are the example's."""

    def enter(build: Callable[[], Built]) -> Callable[[], Built]:
        name = build.__name__
        if name in ENTRIES:
            raise ValueError(f"there are two networks {name}")
        every = [{**example, **each} for each in sizes]
        ENTRIES[name] = Entry(name, build, example, every, exporters)
        return build

    return enter


def evaluated(extent: int | str, sizes: Sizes) -> int:
    """Return a number, the size of a name, or the value of an expression of names."""
    if isinstance(extent, int):
        return extent
    return int(eval(extent, {"__builtins__": {}}, dict(sizes)))


def _sources(code: Any, seen: dict[str, str]) -> list[str]:
    """Return the sources of a function or class, and all that it uses of the sweep."""
    seen[code.__qualname__] = code_of(code)
    functions = vars(code).values() if isinstance(code, type) else [code]
    for function in functions:
        if not isinstance(function, types.FunctionType):
            continue
        for name in _names_of(function.__code__):
            used = function.__globals__.get(name)
            if isinstance(used, (dict, tuple, str, int)):
                seen[name] = f"{name} = {used!r}"
            is_code = isinstance(used, (type, types.FunctionType))
            if is_code and _is_of_sweep(used) and used.__qualname__ not in seen:
                _sources(used, seen)
    return [seen[name] for name in sorted(seen)]


def code_of(code: Any) -> str:
    """Return the source of a function or class as a syntax tree, whatever its format."""
    return ast.dump(ast.parse(textwrap.dedent(inspect.getsource(code))))


def _names_of(code: types.CodeType) -> set[str]:
    inner = [each for each in code.co_consts if isinstance(each, types.CodeType)]
    return set(code.co_names).union(*map(_names_of, inner))


def _is_of_sweep(used: Any) -> bool:
    return str(used.__module__) in {each.build.__module__ for each in ENTRIES.values()}
