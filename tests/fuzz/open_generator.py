"""Generate random networks with open axes and no bounds; some of their sizes are invalid.

``dynamic_generator.py`` makes networks that are valid at every size within bounds. Here a node may
be invalid at some sizes, such as TopK of 5 in an axis of 3: onnxruntime fails at these, and so must
tvmrt. Families of such nodes are in ``families_open.py`` and ``families_found.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import generator
import numpy as np
import onnx
from generator import Grower, Growing, OperatorFamily, Tensor, Unfit
from onnx import helper
from references import by_onnxruntime

Sizes = dict[str, int]
OPEN_TABLE: list[OperatorFamily] = []
NAMES = ("N", "L", "M")
OPSETS = (17, 18, 20, 21)
MAX_ELEMENTS = 200_000  # of a tensor at the largest sizes
MIN_ALIVE = 3  # sizes at which onnxruntime runs all nodes
MAIN = 4  # number of the run whose values the families see
MAX_COUNT = 400  # of a computed size


def open_family(
    kinds: str = "f", least: int = 1, most: int = 4, weight: int = 1
) -> Callable[[Grower], Grower]:
    """Decorate a function that adds nodes on a tensor of these types and ranks."""

    def enter(grow: Grower) -> Grower:
        OPEN_TABLE.append(OperatorFamily(grow, kinds, range(least, most + 1), weight))
        return grow

    return enter


class SizedGrowing(Growing):
    """Growing network with its values at six sizes; a value is missing where onnxruntime fails."""

    def __init__(self, seed: int) -> None:
        known = [replace(row, weight=1) for row in generator.TABLE]
        super().__init__(seed, [*OPEN_TABLE, *known])
        self.opset = self.random.choice(OPSETS)
        self.places: dict[tuple[str, int], str] = {}
        self.runs: list[tuple[Sizes, dict[str, np.ndarray]]] = []
        self.at: list[dict[str, np.ndarray]] = []  # by run, the value of each tensor
        self.counts: list[str] = []  # tensors [1] of computed sizes

    def open(self) -> None:
        """Make one or two inputs with open axes, and their values at six sizes."""
        rank = self.random.choice([1, 2, 2, 3, 3, 4])
        shape = [self.random.choice([1, 2, 3, 4, 8]) for _ in range(rank)]
        axes = self.random.sample(range(rank), min(rank, self.random.choice([1, 1, 2])))
        shapes = [self._named(shape, dict(zip(axes, NAMES)))]
        if self.chance(0.5):  # a mask or residual, often with names of its own
            second = [each if self.chance(0.8) else 1 for each in shape]
            names = ("M", "K") if self.chance(0.5) else NAMES
            shapes.append(self._named(second, dict(zip(axes, names))))
        kinds = [self.random.choice(["float32"] * 6 + ["int64", "float16", "uint8"])
                 for _ in shapes]  # fmt: skip
        for sizes in self._sizes():
            feeds = {}
            for number, (named, kind) in enumerate(zip(shapes, kinds)):
                extents = [sizes[each] if isinstance(each, str) else each for each in named]
                feeds[f"x{number}"] = self.made(extents, kind)
            self.runs.append((sizes, feeds))
            self.at.append(dict(feeds))
        for name, array in self.runs[MAIN][1].items():
            self.inputs.append(name)
            self.values[name] = array
        for number, named in enumerate(shapes):
            for axis, each in enumerate(named):
                if isinstance(each, str):
                    self.places[f"x{number}", axis] = each

    def _named(self, shape: Sequence[int], names: dict[int, str]) -> list[Any]:
        return [names.get(axis, each) for axis, each in enumerate(shape)]

    def _sizes(self) -> list[Sizes]:
        """Return sizes: 0 or 1, 1, small ones, the main and a large one. M and K are those of N and
        L, except once."""
        source, found = self.random, []
        large = source.choice([40, 100, 300, 1500, 1500, 2**16 + 1])
        draws = [lambda: source.choice([0, 1]), lambda: 1, lambda: source.randint(2, 5),
                 lambda: source.randint(1, 12), lambda: source.randint(6, 12)]  # fmt: skip
        for draw in draws:
            found.append({"N": draw(), "L": draw()})
        found[2]["L"] = source.choice([found[2]["L"], found[2]["N"]])
        found.append({"N": large, "L": source.randint(2, 20 if large < 2**16 else 3)})
        for sizes in found:
            sizes.update(M=sizes["N"], K=sizes["L"])
        odd = found[3]
        odd.update(M=source.choice([1, odd["N"], odd["N"] + 1]))
        return found

    def is_fixed(self, x: Tensor, axis: int) -> bool:
        """Return True if an axis has one extent at all sizes."""
        extents = {each[x.name].shape[axis] for each in self.at if x.name in each}
        return len(extents) == 1

    def _info(self, name: str) -> onnx.ValueInfoProto:
        """Return the type of an input with its names, or of an inner tensor with its rank."""
        value = self.values[name]
        shape: list[Any] = list(value.shape)
        for axis in range(len(shape)):
            shape[axis] = self.places.get((name, axis), shape[axis])
        if name not in self.inputs:
            shape = [None] * value.ndim
        return helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(value.dtype), shape
        )

    def _evaluate(self, nodes: list[onnx.NodeProto]) -> None:
        """Compute the results of new nodes at all sizes; raise Unfit if few sizes remain."""
        outputs = [name for node in nodes for name in node.output if name]
        model = self.model(nodes, outputs)
        data = [each.name for each in model.graph.input]
        found: list[dict[str, np.ndarray] | None] = []
        for values in self.at:
            if any(name not in values for name in data):
                found.append(None)
                continue
            try:
                results = by_onnxruntime(model, {name: values[name] for name in data})
            except Exception:  # its exceptions share no base class
                found.append(None)
                continue
            if not all(_is_usable(each) for each in results if not isinstance(each, list)):
                raise Unfit
            found.append({n: r for n, r in zip(outputs, results) if not isinstance(r, list)})
        main = found[MAIN]
        if main is None or sum(each is not None for each in found) < MIN_ALIVE:
            raise Unfit
        for values, results in zip(self.at, found):
            values.update(results or {})
        self.values.update(main)

    def model(self, nodes: Sequence[onnx.NodeProto], outputs: Sequence[str]) -> onnx.ModelProto:
        """Return a network of some nodes; inner results have no declared shapes."""
        found = super().model(nodes, outputs)
        for each in found.graph.output:
            if each.type.HasField("tensor_type"):
                each.type.tensor_type.ClearField("shape")
        return found

    def step(self) -> bool:
        """Add the nodes of one family, and forget the sizes that were computed if they fail."""
        counts = len(self.counts)
        done = super().step()
        if not done:
            del self.counts[counts:]
        else:
            self.counts = [name for name in self.counts if name in self.values]
        return done


def _is_usable(value: Any) -> bool:
    if not isinstance(value, np.ndarray) or value.size > MAX_ELEMENTS or value.ndim > 6:
        return False
    if value.dtype.kind == "f":
        finite = bool(np.isfinite(value).all())
        return finite and float(np.abs(value).max(initial=0)) <= generator.LARGEST
    return value.dtype.kind in "biu"


def grown(seed: int) -> tuple[onnx.ModelProto, list[tuple[Sizes, dict[str, np.ndarray]]]]:
    """Make a network of 2 to 7 steps, and its six runs."""
    g = SizedGrowing(seed)
    g.open()
    wanted, tries, done = g.random.randint(2, 7), 0, 0
    while done < wanted and tries < 30:
        tries += 1
        done += g.step()
    if not g.nodes:
        return grown(seed + 10**9)
    model = g.model(g.nodes, [name for name in generator.outputs_of(g) if name in g.values])
    names = {each.name for each in model.graph.input}
    if not any(name in names for name, _ in g.places):
        return grown(seed + 10**9)
    runs = [(sizes, {name: feeds[name] for name in sorted(names)}) for sizes, feeds in g.runs]
    model.graph.input.sort(key=lambda each: each.name)
    return model, runs
