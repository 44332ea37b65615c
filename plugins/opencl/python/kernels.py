"""Kernels of operators that are not pointwise; ``KERNELS`` has the function that writes each."""

from __future__ import annotations

from tvmrt.compiler.sdk.graph import Node
from tvmrt.plugins.opencl.kernel import Kernel


def conv(k: Kernel, node: Node) -> None:
    """Write a convolution of one to three spatial axes; each work item sums its whole window."""
    x, w, *bias = node.inputs
    attrs = node.attrs
    o = k.split(node.output.shape)
    per_group = k.scalar(node.output.shape[1] // attrs["groups"])
    channels = k.scalar(w.shape[1])
    k.line(f"float acc = {k.load(bias[0], [o[1]]) if bias and bias[0] else '0.0f'};")
    k.line(f"const int first = {o[1]} / {per_group} * {channels};")
    k.line(f"for (int c = 0; c < {channels}; ++c) {{")
    pixel, tap = [o[0], "(first + c)"], [o[1], "c"]
    for axis, (out, extent) in enumerate(zip(o[2:], x.shape[2:])):
        stride, dilation, before = (
            k.scalar(attrs[key][axis]) for key in ("strides", "dilations", "pads_before")
        )
        k.line(f"for (int k{axis} = 0; k{axis} < {k.scalar(w.shape[axis + 2])}; ++k{axis}) {{")
        k.line(f"const int p{axis} = {out} * {stride} + k{axis} * {dilation} - {before};")
        k.line(f"if (p{axis} < 0 || p{axis} >= {k.scalar(extent)}) continue;")
        pixel.append(f"p{axis}")
        tap.append(f"k{axis}")
    k.line(f"acc += {k.load(x, pixel)} * {k.load(w, tap)};")
    k.line("}" * (len(x.shape) - 1))
    k.line("out[i] = acc;")


def matmul(k: Kernel, node: Node) -> None:
    """Write a matrix product; each work item sums the products of a row and a column."""
    a, b, *bias = node.inputs
    o = k.split(node.output.shape)
    k.line(f"float acc = {k.load(bias[0], o) if bias and bias[0] else '0.0f'};")
    k.line(f"for (int r = 0; r < {k.scalar(a.shape[-1])}; ++r)")
    k.line(f"  acc += {k.load(a, [*o[:-1], 'r'])} * {k.load(b, [*o[:-2], 'r', o[-1]])};")
    k.line("out[i] = acc;")


KERNELS = {"conv": conv, "matmul": matmul}
