"""Random ``.tflite`` networks: float32, int8, uint8, int16 (16x8), int8 weights alone.

Operators are added one by one, as in generator.py. LiteRT runs each new operator; those it refuses
are dropped. If an integer result is saturated or nearly constant, its scale is changed, so that
wrong values are visible.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from references import by_litert

import tvmrt

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python/support"))

from tflite_case import Net

DTYPES = {"float32": 25, "int8": 30, "int16": 30, "uint8": 5, "hybrid": 10}
MAX_ELEMENTS = 6000
LARGEST = 1e4
RUNS = 2


class Unfit(Exception):
    """Raised if an operator does not fit here."""


@dataclass(frozen=True)
class Value:
    """A tensor of the network."""

    index: int
    shape: tuple[int, ...]
    dtype: str
    quantised: bool

    @property
    def rank(self) -> int:
        return len(self.shape)


Grower = Callable[["TfliteGrowing", Value], None]


@dataclass(frozen=True)
class OperatorFamily:
    """A family of operators: accepted types and ranks, and relative frequency."""

    grow: Grower
    dtypes: frozenset[str]
    ranks: range
    weight: int


TABLE: list[OperatorFamily] = []
FLOAT, WHOLE = ("float32",), ("int8", "int16", "uint8")


def family(
    dtypes: Sequence[str] = FLOAT + WHOLE, least: int = 1, most: int = 4, weight: int = 2
) -> Callable[[Grower], Grower]:
    """Decorate a function that adds operators on a tensor of these types and ranks."""

    def enter(grow: Grower) -> Grower:
        TABLE.append(OperatorFamily(grow, frozenset(dtypes), range(least, most + 1), weight))
        return grow

    return enter


class TfliteGrowing(Net):
    """A growing file.

    ``base`` is the type of the tensor that the next operator takes; of the ``new`` tensors those in
    ``free`` may still change their scale.
    """

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.random, self.numbers = random.Random(seed), np.random.default_rng(seed)
        (self.dtype,) = self.random.choices(list(DTYPES), list(DTYPES.values()))
        self.base = "float32" if self.dtype == "hybrid" else self.dtype
        self.hybrid = self.dtype == "hybrid"
        self.known: list[Value] = []
        self.new: list[Value] = []
        self.free: list[int] = []
        self.refused: list[str] = []
        self.feeds: list[dict[str, np.ndarray]] = []

    @property
    def operators(self) -> tuple[str, ...]:
        """Return the names of the operators."""
        codes = {v: k for k, v in vars(self.schema.BuiltinOperator).items() if k[0].isupper()}
        return tuple(dict.fromkeys(codes[each.builtinCode] for each in self.model.operatorCodes))

    def chance(self, part: float) -> bool:
        return self.random.random() < part

    def scale(self, dtype: str) -> dict[str, Any]:
        """Return a random quantisation; none for floats."""
        if dtype == "int16":
            return {"scale": float(self.numbers.uniform(0.02, 0.12)) / 256, "zero": 0}
        if dtype not in ("int8", "uint8"):
            return {}
        low = 0 if dtype == "uint8" else -128
        if self.chance(0.3):
            zero = self.random.choice([low, low + 128, low + 255])
        else:
            zero = int(self.numbers.integers(low, low + 256))
        return {"scale": float(self.numbers.uniform(0.02, 0.12)), "zero": zero}

    def quantisation(self, x: Value) -> dict[str, Any]:
        q = self.graph.tensors[x.index].quantization
        return {"scale": q.scale.copy(), "zero": q.zeroPoint.copy()} if q is not None else {}

    def made(
        self, shape: Sequence[int], like: Value | None = None, dtype: str = "", **q: Any
    ) -> int:
        """Add a result: quantised like another tensor, as given, or from its values."""
        shape = tuple(int(each) for each in shape)
        if min(shape, default=1) < 1 or int(np.prod(shape)) > MAX_ELEMENTS:
            raise Unfit
        dtype = dtype or self.base
        is_free = like is None and not q and dtype in WHOLE
        q = q or (self.quantisation(like) if like is not None else self.scale(dtype))
        index = self.tensor(shape, dtype, **q)
        if is_free:
            self.free.append(index)
        self.new.append(Value(index, shape, dtype, bool(q)))
        return index

    def ints(self, *values: Any) -> int:
        return self.const(np.array(values, np.int32))

    def constant(self, shape: Sequence[int], spread: float = 1.0, like: Value | None = None) -> int:
        """Return a constant of the network's type, quantised randomly or like another tensor."""
        if self.base == "float32":
            return self.const((self.numbers.standard_normal(shape) * spread).astype(np.float32))
        info = np.iinfo(self.base)
        data = self.numbers.integers(info.min, info.max, shape, endpoint=True).astype(self.base)
        q = self.quantisation(like) if like is not None else self.scale(self.base)
        return self.const(data, **q)

    def weights(self, shape: Sequence[int], axis: int, per_channel: bool) -> int:
        """Return weights of a layer: floats, or 8 bits with one scale or one for each output
        channel."""
        if self.base == "float32" and not self.hybrid:
            return self.const((self.numbers.standard_normal(shape) * 0.3).astype(np.float32))
        count = shape[axis] if per_channel and self.base != "uint8" else None
        scale = self.numbers.uniform(0.002, 0.02, count)
        if self.base == "uint8":
            data = self.numbers.integers(0, 256, shape).astype(np.uint8)
            return self.const(data, scale=scale, zero=int(self.numbers.integers(100, 156)))
        data = self.numbers.integers(-127, 128, shape).astype(np.int8)
        if count is not None and self.chance(0.1):  # an all-zero filter
            scale[self.random.randrange(count)] = 0.0
        return self.const(data, scale=scale, axis=axis)

    def bias(self, x: Value, weights: int, count: int) -> int:
        """Return a bias or none; its scale is the product of the input's and the weights'
        scales."""
        if self.chance(0.25):
            return -1
        if self.base == "float32":
            return self.const(self.numbers.standard_normal(count).astype(np.float32))
        kind = np.int64 if self.base == "int16" else np.int32
        product = self.graph.tensors[weights].quantization.scale * self.quantisation(x)["scale"]
        most = 200_000 if self.base == "int16" else 2000
        return self.const(self.numbers.integers(-most, most, count).astype(kind), scale=product)

    def activation(self) -> int:
        return self.random.choice([0, 0, 1, 3, 2])

    def step(self) -> bool:
        """Add an operator. Return False and undo if it does not fit."""
        lists = [self.graph.tensors, self.model.buffers, self.graph.operators,
                 self.model.operatorCodes]  # fmt: skip
        lengths = [len(each) for each in lists]
        self.new, self.free = [], []
        x = self.random.choice([*self.known[-3:], *self.known])
        self.base = x.dtype
        rows = [row for row in TABLE if x.dtype in row.dtypes and x.rank in row.ranks]
        try:
            if not rows:
                raise Unfit
            self.random.choices(rows, [each.weight for each in rows])[0].grow(self, x)
            self._evaluate()
        except Exception:
            for each, length in zip(lists, lengths):
                del each[length:]
            return False
        self.known += self.new
        return True

    def _evaluate(self) -> None:
        for _ in range(5):
            found = self.run([each.index for each in self.new])
            if not self._rescaled(found):
                break
        for value in found:
            if value.dtype.kind == "f" and not (
                np.isfinite(value).all() and np.abs(value).max(initial=0) < LARGEST
            ):
                raise Unfit
        try:
            tvmrt.compile(self._file([each.index for each in self.new]), target="host")
        except tvmrt.error.UnsupportedError as problem:
            self.refused.append(f"{self.operators[-1]}: {problem}")
            raise
        except Exception:
            pass  # a defect: it is compared within the whole network

        if any(array.shape != value.shape for array, value in zip(found, self.new)):
            raise Unfit

    def run(self, outputs: Sequence[int]) -> list[np.ndarray]:
        """Compute some tensors with LiteRT for the first inputs."""
        return by_litert(self._file(outputs), self.feeds[0])

    def _file(self, outputs: Sequence[int]) -> bytes:
        self.graph.outputs = list(outputs)
        return self.data()

    def _rescaled(self, found: Sequence[np.ndarray]) -> bool:
        """Change the scales of saturated or constant results; return True if any was changed."""
        changed = False
        for value, array in zip(self.new, found):
            if value.index not in self.free:
                continue
            info = np.iinfo(array.dtype)
            ends = np.mean((array == info.min) | (array == info.max))
            q = self.graph.tensors[value.index].quantization
            if ends > 0.4:
                q.scale, changed = q.scale * 3, True
            elif array.size > 4 and array.std() < (info.max >> 5):
                q.scale, changed = q.scale / 3, True
            if not 1e-7 < q.scale[0] < 1e3:
                raise Unfit
        return changed

    def open(self) -> None:
        """Add the inputs, with their values for each run."""
        rank = self.random.choice([4, 4, 4, 4, 3, 2])
        shape = [self.random.choice([1, 1, 1, 2])]
        shape += [self.random.randint(3, 11) for _ in range(rank - 2)]
        shape.append(self.random.choice([1, 2, 3, 4, 5, 8, 16]))
        for _ in range(1 + self.chance(0.3)):
            index = self.input(
                shape, self.base, **self.scale(self.base), name=f"x{len(self.known)}"
            )
            self.known.append(Value(index, tuple(shape), self.base, self.base != "float32"))
        for _ in range(RUNS):
            feeds = {f"x{i}": self._numbers(value) for i, value in enumerate(self.known)}
            self.feeds.append(feeds)

    def _numbers(self, x: Value) -> np.ndarray:
        if x.dtype == "float32":
            return self.numbers.standard_normal(x.shape).astype(np.float32)
        info = np.iinfo(x.dtype)
        return self.numbers.integers(info.min, info.max, x.shape, endpoint=True).astype(x.dtype)

    def finish(self) -> bytes:
        """Return the file; its outputs are all unread results and one other."""
        used = {i for op in self.graph.operators for i in op.inputs}
        made = [i for op in self.graph.operators for i in op.outputs]
        last = [i for i in made if i not in used]
        inner = [i for i in made if i in used]
        return self._file(last + ([self.random.choice(inner)] if inner else []))


def grown(seed: int) -> tuple[bytes, list[dict[str, np.ndarray]], TfliteGrowing]:
    """Make a file of 3 to 9 operators, and the inputs of its runs."""
    import tflite_families  # noqa: F401  importing it registers its families

    g = TfliteGrowing(seed)
    g.open()
    wanted, tries, done = g.random.randint(3, 9), 0, 0
    while done < wanted and tries < 60:
        tries += 1
        done += g.step()
    if not g.graph.operators:
        return grown(seed + 10**9)
    return g.finish(), g.feeds, g
