"""Generate random networks with dynamic sizes: each step must be valid at every size of the
runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import generator
import numpy as np
import onnx
from generator import Growing, Unfit, is_tame
from references import by_onnxruntime

import tvmrt

Sizes = dict[str, int]
NAMES = ("N", "L")


class OpenGrowing(Growing):
    """Network whose inputs have dynamic axes; the values are those at the largest sizes.

    ``places``: by input and axis the name of the dimension; ``runs``: sizes with inputs.
    """

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.places: dict[tuple[str, int], str] = {}
        self.dims: dict[str, tuple[int, int]] = {}
        self.runs: list[tuple[Sizes, dict[str, np.ndarray]]] = []

    def open(self, shape: Sequence[int]) -> None:
        """Make one or two inputs with some dynamic axes, and values for several sizes."""
        shape = list(shape)
        axes = self.random.sample(range(len(shape)), min(len(shape), 1 + self.chance(0.3)))
        for name, axis in zip(NAMES, axes):
            least = self.random.choice([0, 1, 1, 1, 2])
            most = max(least + 1, self.random.choice([shape[axis], shape[axis] + 5, 9]))
            self.dims[name], shape[axis] = (least, most), most
        kinds = [self.random.choice(generator.TYPES) for _ in range(1 + self.chance(0.3))]
        for kind in kinds:
            name = f"x{len(self.inputs)}"
            self.places.update({(name, axis): dim for dim, axis in zip(NAMES, axes)})
            self.add_input(self.made(shape, kind))
        for sizes in self._sizes():
            feeds = {}
            for name in self.inputs:
                extents = [sizes.get(self.places.get((name, i), ""), each)
                           for i, each in enumerate(shape)]  # fmt: skip
                feeds[name] = self.made(extents, self.values[name].dtype)
            self.runs.append((sizes, feeds))
        self.values.update(self.runs[-1][1])

    def _sizes(self) -> list[Sizes]:
        """Return the smallest and random sizes, one of each next to a bound, and the largest."""
        found = [{name: low for name, (low, _) in self.dims.items()}]
        found.append({name: min(low + 1, high) for name, (low, high) in self.dims.items()})
        found += [
            {name: self.random.randint(*bounds) for name, bounds in self.dims.items()}
            for _ in range(2)
        ]
        found.append({name: high for name, (_, high) in self.dims.items()})
        return [each for i, each in enumerate(found) if each not in found[i + 1 :]]

    def _info(self, name: str) -> onnx.ValueInfoProto:
        info = super()._info(name)
        dims = info.type.tensor_type.shape.dim
        if name not in self.inputs:
            info.type.tensor_type.ClearField("shape")
        for axis, dim in enumerate(dims):
            if (name, axis) in self.places:
                dim.dim_param = self.places[name, axis]
        return info

    def _evaluate(self, nodes: list[onnx.NodeProto]) -> None:
        """Compute the values of new nodes at all sizes, as part of the whole network."""
        outputs = [name for node in nodes for name in node.output if name]
        model = self.model(self.nodes, outputs)
        found: list[Any] = []
        for _, feeds in self.runs:
            used = {each.name: feeds[each.name] for each in model.graph.input}
            found = by_onnxruntime(model, used)
            if not all(is_tame(value, empty=True) for value in found):
                raise Unfit
        if not all(map(is_tame, found)):
            raise Unfit
        try:
            tvmrt.compile(model, target="host", dims=self.used_dims(model))
        except tvmrt.error.UnsupportedError as problem:
            self.refused.append(f"{nodes[-1].op_type}: {problem}")
            raise
        except ValueError as problem:  # of invalid sizes
            self.refused.append(f"{nodes[-1].op_type}: {problem}")
            raise
        except Exception:
            pass  # a defect: it is compared within the whole network
        self.values.update(zip(outputs, found))

    def used_dims(self, model: onnx.ModelProto) -> dict[str, tuple[int, int]]:
        """Return the dynamic dimensions of a network's inputs."""
        names = {each.name for each in model.graph.input}
        return {dim: self.dims[dim] for (name, _), dim in self.places.items() if name in names}


def grown(
    seed: int,
) -> tuple[
    onnx.ModelProto,
    list[tuple[Sizes, dict[str, np.ndarray]]],
    dict[str, tuple[int, int]],
    OpenGrowing,
]:
    """Make a network of 2 to 8 steps, its runs, and the bounds of its dimensions."""
    g = OpenGrowing(seed)
    g.open(generator.first_shape(g.random))
    wanted, tries, done = g.random.randint(2, 8), 0, 0
    while done < wanted and tries < 40:
        tries += 1
        done += g.step()
    if not g.nodes:
        return grown(seed + 10**9)
    model = g.model(g.nodes, generator.outputs_of(g))
    names, dims = {each.name for each in model.graph.input}, g.used_dims(model)
    runs = []
    for sizes, feeds in g.runs:
        used = {name: size for name, size in sizes.items() if name in dims}
        runs.append((used, {name: array for name, array in feeds.items() if name in names}))
    return model, runs, dims, g
