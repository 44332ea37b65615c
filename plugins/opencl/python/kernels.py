"""Kernels of operators that are not pointwise; each function is named after its operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from tvmrt.compiler.ir import Node, Trait, Value
from tvmrt.compiler.ir.strided import Strided, dense
from tvmrt.plugins.opencl.kernel import Kernel, Operand, cl_type

Builder = Callable[[Node, Sequence["Operand | None"]], Kernel]
Refusal = Callable[[Node], "str | None"]
Writer = Callable[[Kernel, Node, Sequence["Operand | None"]], None]

MAX_OPERANDS = 16  # maximum number of tensors that one kernel joins
BUILDERS: dict[str, Builder] = {}
REFUSALS: dict[str, Refusal] = {}


def only_floats(node: Node, operands: Sequence[Value | None] | None = None) -> str | None:
    """Return why a kernel for float32 operands, by default all, cannot compute a node; None if it
    can."""
    for value in node.inputs if operands is None else operands:
        if value is not None and value.dtype.name != "float32":
            return f"the OpenCL kernel of {node.op} computes in float32, not in {value.dtype}"
    return None


def any_types(node: Node) -> str | None:
    """Return None: a kernel that moves elements computes every node."""
    return None


def kernel(
    *names: str, helpers: str = "", refuses: Refusal = only_floats
) -> Callable[[Writer], Writer]:
    """Register a function that writes the kernels of these operators.

    ``helpers`` is text in front of them; ``refuses`` returns why they cannot compute a node.
    """

    def add(write: Writer) -> Writer:
        def build(node: Node, operands: Sequence[Operand | None]) -> Kernel:
            result = node.outputs[0]
            k = Kernel(node.op, result.dtype, result.type.size, helpers=helpers)
            write(k, node, operands)
            return k

        BUILDERS.update(dict.fromkeys(names, build))
        REFUSALS.update(dict.fromkeys(names, refuses))
        return write

    return add


def copy(operand: Operand, name: str = "copy") -> Kernel:
    """Return a kernel that copies the operand's elements in row-major order."""
    k = Kernel(name, operand.buffer.dtype, operand.at.size)
    index = k.split("i", operand.at.shape, "d")
    k.line(f"out[i] = {k.load(operand, index)};")
    return k


# Sliding windows --------------------------------------------------------------------------------


def _spatial_triple(values: Sequence[int], fill: int) -> tuple[int, ...]:
    """Return three spatial axes, with leading ones filled in."""
    return (fill,) * (3 - len(values)) + tuple(values)


def _spatial(operand: Operand) -> Operand:
    """Return a tensor with fewer spatial axes as [N, C, D, H, W]."""
    shape, strides = operand.at.shape, operand.at.strides
    ones = 5 - len(shape)
    at = Strided(
        (*shape[:2], *(1,) * ones, *shape[2:]),
        (*strides[:2], *(0,) * ones, *strides[2:]),
        operand.at.offset,
    )
    return Operand(operand.buffer, at)


def _pixels(k: Kernel, node: Node) -> list[str]:
    """Declare the index of the result's element in [N, C, D, H, W]."""
    return k.split("i", (*node.output.shape[:2], *_spatial_triple(node.output.shape[2:], 1)), "o")


def _window(k: Kernel, node: Node, taps: Sequence[int], extents: Sequence[int]):
    """Open loops over a window's taps inside the input; return the input's indices."""
    attrs = node.attrs
    strides, dilations = (
        _spatial_triple(attrs["strides"], 1),
        _spatial_triple(attrs["dilations"], 1),
    )
    before = _spatial_triple(attrs["pads_before"], 0)
    index = []
    for axis, letter in enumerate("zyx"):
        k.line(f"for (int k{letter} = 0; k{letter} < {k.scalar(taps[axis])}; ++k{letter}) {{")
        k.line(
            f"const int p{letter} = o{axis + 2} * {k.scalar(strides[axis])} "
            f"+ k{letter} * {k.scalar(dilations[axis])} - {k.scalar(before[axis])};"
        )
        k.line(f"if (p{letter} < 0 || p{letter} >= {k.scalar(extents[axis])}) continue;")
        index.append(f"p{letter}")
    return index


@kernel("conv")
def conv(k: Kernel, node: Node, operands: Sequence[Operand | None]) -> None:
    x, w = _spatial(operands[0]), _spatial(operands[1])
    o = _pixels(k, node)
    per_group = node.output.shape[1] // node.attrs["groups"]
    channels = w.at.shape[1]
    bias = operands[2] if len(operands) > 2 else None
    k.line(f"float acc = {k.load(bias, [o[1]]) if bias else '0.0f'};")
    if channels > 1:
        k.line(f"const int first = {o[1]} / {k.scalar(per_group)} * {k.scalar(channels)};")
        k.line(f"for (int c = 0; c < {k.scalar(channels)}; ++c) {{")
        channel, tap = "(first + c)", "c"
    else:  # depthwise
        k.line(f"const int c = {o[1]} / {k.scalar(per_group)};")
        channel, tap = "c", "0"
    index = _window(k, node, w.at.shape[2:], x.at.shape[2:])
    weights = k.load(w, [o[1], tap, "kz", "ky", "kx"])
    k.line(f"acc += {k.load(x, [o[0], channel, *index])} * {weights};")
    k.line("}}}" + ("}" if channels > 1 else ""))
    k.line("out[i] = acc;")


@kernel("conv_transpose")
def conv_transpose(k: Kernel, node: Node, operands: Sequence[Operand | None]) -> None:
    x, w = _spatial(operands[0]), _spatial(operands[1])
    o = _pixels(k, node)
    groups = node.attrs["groups"]
    per_group, channels = node.output.shape[1] // groups, x.at.shape[1] // groups
    bias = operands[2] if len(operands) > 2 else None
    strides, dilations = (
        _spatial_triple(node.attrs["strides"], 1),
        _spatial_triple(node.attrs["dilations"], 1),
    )
    before = _spatial_triple(node.attrs["pads_before"], 0)
    k.line(f"float acc = {k.load(bias, [o[1]]) if bias else '0.0f'};")
    k.line(f"const int first = {o[1]} / {k.scalar(per_group)} * {k.scalar(channels)};")
    k.line(f"const int oc = {o[1]} % {k.scalar(per_group)};")
    k.line(f"for (int c = first; c < first + {k.scalar(channels)}; ++c) {{")
    for axis, letter in enumerate("zyx"):
        stride = k.scalar(strides[axis])
        k.line(
            f"for (int k{letter} = 0; k{letter} < {k.scalar(w.at.shape[axis + 2])}; ++k{letter}) {{"
        )
        k.line(
            f"const int q{letter} = o{axis + 2} + {k.scalar(before[axis])} "
            f"- k{letter} * {k.scalar(dilations[axis])};"
        )
        k.line(f"if (q{letter} < 0 || q{letter} % {stride} != 0) continue;")
        k.line(f"const int p{letter} = q{letter} / {stride};")
        k.line(f"if (p{letter} >= {k.scalar(x.at.shape[axis + 2])}) continue;")
    weights = k.load(w, ["c", "oc", "kz", "ky", "kx"])
    k.line(f"acc += {k.load(x, [o[0], 'c', 'pz', 'py', 'px'])} * {weights};")
    k.line("}}}}")
    k.line("out[i] = acc;")


@kernel("max_pool", "avg_pool")
def pool(k: Kernel, node: Node, operands: Sequence[Operand | None]) -> None:
    x = _spatial(operands[0])
    o = _pixels(k, node)
    taps = _spatial_triple(node.attrs["kernel"], 1)
    largest = node.has(Trait.EXTREMUM)
    k.line(f"float acc = {'-INFINITY' if largest else '0.0f'};")
    k.line("int met = 0;")
    index = _window(k, node, taps, x.at.shape[2:])
    k.line(f"const float v = {k.load(x, [o[0], o[1], *index])};")
    k.line("acc = v > acc || v != v ? v : acc;" if largest else "acc += v;")
    k.line("++met;")
    k.line("}}}")
    if node.has(Trait.MEAN) and node.attrs.get("count_pads"):
        _count_padded(k, node, taps, x.at.shape[2:])
    k.line("out[i] = acc;" if largest else "out[i] = acc / (float)met;")


def _count_padded(k: Kernel, node: Node, taps, extents) -> None:
    """Count the taps in the input or its padding."""
    strides = _spatial_triple(node.attrs["strides"], 1)
    dilations = _spatial_triple(node.attrs["dilations"], 1)
    before, after = (_spatial_triple(node.attrs[f"pads_{side}"], 0) for side in ("before", "after"))
    k.line("met = 1;")
    for axis in range(3):
        k.line("{ int inside = 0;")
        k.line(f"for (int t = 0; t < {k.scalar(taps[axis])}; ++t) {{")
        element_offset = (
            f"o{axis + 2} * {k.scalar(strides[axis])} + t * {k.scalar(dilations[axis])}"
        )
        end = before[axis] + extents[axis] + after[axis]
        k.line(f"inside += {element_offset} < {k.scalar(end)};")
        k.line("} met *= inside; }")


# Products and folds -----------------------------------------------------------------------------


@kernel("matmul")
def matmul(k: Kernel, node: Node, operands: Sequence[Operand | None]) -> None:
    shape = node.output.shape
    a, b = operands[0], operands[1]
    inner = a.at.shape[-1]
    a = Operand(a.buffer, a.at.expand((*shape[:-2], shape[-2], inner)))
    b = Operand(b.buffer, b.at.expand((*shape[:-2], inner, shape[-1])))
    o = k.split("i", shape, "o")
    k.line("float acc = 0.0f;")
    k.line(f"for (int r = 0; r < {k.scalar(inner)}; ++r)")
    k.line(f"  acc += {k.load(a, [*o[:-1], 'r'])} * {k.load(b, [*o[:-2], 'r', o[-1]])};")
    if len(operands) > 2 and operands[2] is not None:
        bias = Operand(operands[2].buffer, operands[2].at.expand(shape))
        k.line(f"acc += {k.load(bias, o)};")
    k.line("out[i] = acc;")


_FOLDS = {
    "reduce_sum": ("0", "acc += v;", ""),
    "reduce_mean": ("0", "acc += v;", " / (float)total"),
    "reduce_prod": ("1", "acc *= v;", ""),
    "reduce_sum_square": ("0", "acc += v * v;", ""),
    "reduce_max": ("-INFINITY", "acc = v > acc || v != v ? v : acc;", ""),
    "reduce_min": ("INFINITY", "acc = v < acc || v != v ? v : acc;", ""),
}


def _nothing_to_reduce(node: Node) -> str | None:
    return only_floats(node) or (None if node.attrs["axes"] else "there is nothing to reduce")


def _split_reduced_axes(at: Strided, axes: Sequence[int]) -> tuple[Strided, Strided]:
    kept = [d for d in range(len(at.shape)) if d not in axes]
    return at.transpose(kept), Strided(*zip(*((at.shape[d], at.strides[d]) for d in axes)))


@kernel(*_FOLDS, refuses=_nothing_to_reduce)
def reduction(k: Kernel, node: Node, operands: Sequence[Operand | None]) -> None:
    x = operands[0]
    kept, folded = _split_reduced_axes(x.at, node.attrs["axes"])
    start, step, finish = _FOLDS[node.op]
    o = k.split("i", kept.shape, "o")
    k.line(f"const int begin = {k.element_offset(kept, o)};")
    k.line(f"const int total = {k.scalar(folded.size)};")
    k.line(f"float acc = {start};")
    k.line("for (int r = 0; r < total; ++r) {")
    index = k.split("r", folded.shape, "f")
    k.line(f"const float v = {k.pointer(x.buffer)}[begin + {k.element_offset(folded, index)}];")
    k.line(step)
    k.line("}")
    k.line(f"out[i] = acc{finish};")


@kernel("argmax", "argmin")
def extreme(k: Kernel, node: Node, operands: Sequence[Operand | None]) -> None:
    x = operands[0]
    kept, folded = _split_reduced_axes(x.at, [node.attrs["axis"]])
    better = (">" if node.op == "argmax" else "<") + ("=" if node.attrs["select_last"] else "")
    o = k.split("i", kept.shape, "o")
    value = f"{k.pointer(x.buffer)}[begin + r * {k.scalar(folded.strides[0])}]"
    dtype = cl_type(x.buffer.dtype)
    k.line(f"const int begin = {k.element_offset(kept, o)};")
    k.line("int r = 0, best = 0;")
    k.line(f"{dtype} top = {value};")
    k.line(f"for (r = 1; r < {k.scalar(folded.size)}; ++r) {{")
    k.line(f"const {dtype} v = {value};")
    k.line(f"if (v {better} top) {{ top = v; best = r; }}")
    k.line("}")
    k.line("out[i] = best;")


# Rows -------------------------------------------------------------------------------------------


@kernel("softmax")
def softmax(k: Kernel, node: Node, operands: Sequence[Operand | None]) -> None:
    x, axis = operands[0], node.attrs["axis"]
    o = k.split("i", x.at.shape, "o")
    o[axis] = "0"
    begin, stride = k.element_offset(x.at, o), k.scalar(x.at.strides[axis])
    row = f"{k.pointer(x.buffer)}[begin + r * {stride}]"
    extent = k.scalar(x.at.shape[axis])
    k.line(f"const int begin = {begin};")
    k.line("float top = -INFINITY, total = 0.0f;")
    k.line(f"for (int r = 0; r < {extent}; ++r) top = fmax(top, {row});")
    k.line(f"for (int r = 0; r < {extent}; ++r) total += exp({row} - top);")
    k.line(f"const int r = o{axis};")
    if node.attrs.get("log"):
        k.line(f"out[i] = {row} - top - log(total);")
    else:
        k.line(f"out[i] = exp({row} - top) / total;")


@kernel("layer_norm")
def layer_norm(k: Kernel, node: Node, operands: Sequence[Operand | None]) -> None:
    """Write a row-wise kernel with dense operands; each work item reads its whole row."""
    extent = prod(node.output.shape[node.attrs["axis"] :])
    length = k.scalar(extent)
    x = k.pointer(operands[0].buffer)
    k.line(f"const int begin = i / {length} * {length}, column = i - begin;")
    k.line("float mean = 0.0f, spread = 0.0f;")
    if node.attrs["centre"]:
        k.line(f"for (int r = 0; r < {length}; ++r) mean += {x}[begin + r];")
        k.line(f"mean /= (float){length};")
    k.line(f"for (int r = 0; r < {length}; ++r) {{")
    k.line(f"const float v = {x}[begin + r] - mean;")
    k.line("spread += v * v;")
    k.line("}")
    epsilon = float(node.attrs["epsilon"]).hex()
    k.line(f"float y = ({x}[i] - mean) / sqrt(spread / (float){length} + (float){epsilon}f);")
    for operand, sign in zip(operands[1:], "*+"):
        if operand is not None:
            k.line(f"y {sign}= {k.pointer(operand.buffer)}[column];")
    k.line("out[i] = y;")


# Moves ------------------------------------------------------------------------------------------


def _too_many_operands(node: Node) -> str | None:
    many = len(node.inputs) > MAX_OPERANDS
    return f"a kernel joins {MAX_OPERANDS} tensors at most" if many else None


@kernel("concat", refuses=_too_many_operands)
def concat(k: Kernel, node: Node, operands: Sequence[Operand | None]) -> None:
    axis = node.attrs["axis"]
    o = k.split("i", node.output.shape, "o")
    k.line(f"int at = {o[axis]};")
    index = [*o[:axis], "at", *o[axis + 1 :]]
    for operand in operands[:-1]:
        extent = k.scalar(operand.at.shape[axis])
        k.line(f"if (at < {extent}) {{ out[i] = {k.load(operand, index)}; return; }}")
        k.line(f"at -= {extent};")
    k.line(f"out[i] = {k.load(operands[-1], index)};")


@kernel("pad", refuses=any_types)
def pad(k: Kernel, node: Node, operands: Sequence[Operand | None]) -> None:
    x, mode = operands[0], node.attrs["mode"]
    o = k.split("i", node.output.shape, "o")
    index = []
    outside = []
    for axis, (n, before) in enumerate(zip(x.at.shape, node.attrs["before"])):
        if n == node.output.shape[axis]:
            index.append(o[axis])
            continue
        extent = k.scalar(n)
        k.line(f"int p{axis} = {o[axis]} - {k.scalar(before)};")
        if mode == "constant":
            outside.append(f"p{axis} < 0 || p{axis} >= {extent}")
        elif mode == "edge":
            k.line(f"p{axis} = clamp(p{axis}, 0, {extent} - 1);")
        elif mode == "wrap":
            k.line(f"p{axis} = (p{axis} % {extent} + {extent}) % {extent};")
        else:  # reflect: forwards and backwards, without repeating the border elements
            k.line(f"const int turn{axis} = max(2 * {extent} - 2, 1);")
            k.line(f"p{axis} = (p{axis} % turn{axis} + turn{axis}) % turn{axis};")
            k.line(f"p{axis} = min(p{axis}, turn{axis} - p{axis});")
        index.append(f"p{axis}")
    if outside:
        value = "0"
        if len(operands) > 1 and operands[1] is not None:
            value = f"{k.pointer(operands[1].buffer)}[{k.scalar(operands[1].at.offset)}]"
        k.line(f"if ({' || '.join(outside)}) {{ out[i] = {value}; return; }}")
    k.line(f"out[i] = {k.load(x, index)};")


@kernel("pick", refuses=any_types)
def pick(k: Kernel, node: Node, operands: Sequence[Operand | None]) -> None:
    index = k.split("i", node.output.shape, "o")
    for axis, indices in zip(node.attrs["axes"], operands[1:]):
        flat = Operand(indices.buffer, dense((indices.at.size,)))
        index[axis] = k.load(flat, [index[axis]])
    k.line(f"out[i] = {k.load(operands[0], index)};")


def _x_is_not_of_floats(node: Node) -> str | None:
    """Return the refusal of ``only_floats`` for x; the other operands are indices."""
    return only_floats(node, node.inputs[:1])


@kernel("resample", refuses=_x_is_not_of_floats)
def resample(k: Kernel, node: Node, operands: Sequence[Operand | None]) -> None:
    x, indices, weights = operands
    axis = node.attrs["axis"]
    index = k.split("i", node.output.shape, "o")
    row = [index[axis], "t"]
    k.line("float acc = 0.0f;")
    k.line(f"for (int t = 0; t < {k.scalar(indices.at.shape[1])}; ++t) {{")
    k.line(f"const int p = {k.load(indices, row)};")
    index[axis] = "p"
    k.line(f"acc += {k.load(x, index)} * {k.load(weights, row)};")
    k.line("}")
    k.line("out[i] = acc;")
