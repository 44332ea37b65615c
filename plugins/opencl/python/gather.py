"""Kernels that read at data-dependent indices."""

from __future__ import annotations

from collections.abc import Sequence

from tvmrt.compiler.ir import Node
from tvmrt.plugins.opencl.kernel import Kernel, Operand
from tvmrt.plugins.opencl.kernels import any_types, kernel


def _clamped_index(k: Kernel, name: str, index: str, extent: int) -> str:
    """Declare an index, which may be negative, clamped to the tensor."""
    n = k.scalar(extent)
    k.line(f"int {name} = (int){index};")
    k.line(f"{name} = clamp({name} < 0 ? {name} + {n} : {name}, 0, {n} - 1);")
    return name


@kernel("gather", refuses=any_types)
def gather(k: Kernel, node: Node, operands: Sequence[Operand | None]) -> None:
    data, indices = operands
    axis, rank = node.attrs["axis"], len(indices.at.shape)
    o = k.split("i", node.output.shape, "o")
    index = k.load(indices, o[axis : axis + rank])
    p = _clamped_index(k, "p", index, data.at.shape[axis])
    k.line(f"out[i] = {k.load(data, [*o[:axis], p, *o[axis + rank :]])};")


@kernel("gather_elements", refuses=any_types)
def gather_elements(k: Kernel, node: Node, operands: Sequence[Operand | None]) -> None:
    data, indices = operands
    axis = node.attrs["axis"]
    o = k.split("i", node.output.shape, "o")
    p = _clamped_index(k, "p", k.load(indices, o), data.at.shape[axis])
    k.line(f"out[i] = {k.load(data, [*o[:axis], p, *o[axis + 1 :]])};")


@kernel("gather_nd", refuses=any_types)
def gather_nd(k: Kernel, node: Node, operands: Sequence[Operand | None]) -> None:
    data, indices = operands
    batch, tuples = node.attrs["batch"], len(indices.at.shape) - 1
    o = k.split("i", node.output.shape, "o")
    coordinates = [
        _clamped_index(k, f"p{d}", k.load(indices, [*o[:tuples], str(d)]), data.at.shape[batch + d])
        for d in range(indices.at.shape[-1])
    ]
    k.line(f"out[i] = {k.load(data, [*o[:batch], *coordinates, *o[tuples:]])};")
