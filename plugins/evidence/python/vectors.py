"""Recorded inputs, expected outputs, and digests of the tensors between the operators."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvmrt.compiler.sdk.codegen import c_string, memory_pool_symbol
from tvmrt.compiler.sdk.graph import Graph, Value
from tvmrt.compiler.sdk.program import ARENA, Access, dense

from .evaluation import ROUNDING, STEPS, OnnxNetwork, PlainEvaluation, compare, largest, part_of
from .reference.code import bits_text

FEW_MACS = 20_000_000  # networks with fewer multiply-adds get more vectors
Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class VisibleTensor:
    """Tensor that lies in memory after an operator; ``output``: the number of the output that it
    is, or a part of; -1 for others."""

    step: int
    name: str
    nodes: tuple[str, ...]
    value: Value
    access: Access
    output: int
    readers: tuple[int, ...]  # visible tensors that are computed from it

    @property
    def kind(self) -> str:
        """Return the letter of numpy for floats of 32 and 64 bits and for integers, else ``u``."""
        dtype = self.access.dtype.numpy
        is_float = dtype in (np.float32, np.float64)
        return "f" if is_float else "i" if dtype.kind == "i" else "u"


def visible_tensors(program: Any) -> list[VisibleTensor]:
    """Return the tensors that the operators write, in the order of execution."""
    rows = [
        (i, j, step, access)
        for i, step in enumerate(program.steps)
        for j, access in enumerate(step.writes)
    ]
    tensors = []
    for k, (i, j, step, access) in enumerate(rows):
        readers = tuple(
            n for n, (*_, other, _) in enumerate(rows)
            if n > k and any(access.buffer is read.buffer for read in other.reads)
        )  # fmt: skip
        outputs = program.outputs  # no element of them is written twice
        output = outputs.index(access.buffer) if access.buffer in outputs else -1
        value = step.group.outputs[j]
        tensors.append(VisibleTensor(i, step.name, step.sources, value, access, output, readers))
    return tensors


def ranges(program: Any, given: Mapping[str, np.ndarray] | None) -> dict[str, tuple[float, float]]:
    """Return the declared range of each input: that of the given arrays, or a default."""
    found = {}
    for name, type in zip(program.input_names, program.input_types):
        dtype = type.dtype.numpy
        if given is not None:
            array = given[name].astype(np.float64)
            found[name] = float(array.min(initial=0)), float(array.max(initial=0))
        elif dtype.kind in "iu" and dtype.itemsize < 4:
            found[name] = float(np.iinfo(dtype).min), float(np.iinfo(dtype).max)
        else:
            found[name] = (-1.0, 1.0) if dtype.kind in "fV" else (0.0, 1.0)
    return found


def draw_inputs(
    program: Any, given: Mapping[str, np.ndarray] | None, count: int
) -> Iterator[Arrays]:
    """Yield the inputs of each vector: the given ones, then a seeded draw from their ranges."""
    if given is not None:
        yield {name: np.ascontiguousarray(given[name]) for name in program.input_names}
    bounds = ranges(program, given)
    for number in range(count):
        rng = np.random.default_rng(number)
        arrays = {}
        for name, type in zip(program.input_names, program.input_types):
            low, high = bounds[name]
            part = rng.random(tuple(type.shape))
            part = (part, np.rint(part), part**4)[number % 3]  # everywhere, ends, mostly low
            dtype = type.dtype.numpy
            scaled = low + (high - low) * part
            arrays[name] = (scaled if dtype.kind in "fV" else np.rint(scaled)).astype(dtype)
        yield arrays


@dataclass
class Vector:
    """Inputs, expected outputs and what they may be off by, and digests of visible tensors."""

    inputs: Arrays
    outputs: list[np.ndarray]
    allowed: list[float]
    digests: list[str]


def make_vector(
    inputs: Arrays, program: Any, tensors: Sequence[VisibleTensor], graph: Graph,
    network: OnnxNetwork | None,
) -> Vector:  # fmt: skip
    """Evaluate the network as imported, or by the onnx package, and as the compiler lowered it.

    Raises ValueError if neither the operators' definitions nor the onnx package can evaluate it.
    """
    lowered, outputs = PlainEvaluation(inputs), _outputs(inputs, program, graph, network)
    digests, allowed = [], [0.0] * len(outputs)
    for tensor in tensors:
        try:
            array = lowered.array(tensor.value)
        except ValueError:  # an operator without plain evaluation
            array = None
        digests.append(_digest(tensor, array, lowered))
        if tensor.output >= 0:
            right, at = outputs[tensor.output], tensor.access.at
            part = part_of(right, at.shape, at.strides, at.offset)
            drift = 0.0 if array is None else compare(array, part).error
            least = STEPS if right.dtype.kind in "iub" else 16 * ROUNDING * largest(right)
            limit = max(least, 4 * drift) if np.isfinite(drift) else least
            allowed[tensor.output] = max(allowed[tensor.output], float(f"{limit:.3g}"))
    return Vector(inputs, outputs, allowed, digests)


def _outputs(
    inputs: Arrays, program: Any, graph: Graph, network: OnnxNetwork | None
) -> list[np.ndarray]:
    plain = PlainEvaluation(inputs)
    try:
        return [plain.array(value) for value in graph.outputs]
    except ValueError as problem:
        if network is None:
            raise ValueError(f"the evidence needs expected outputs, but {problem}") from problem
    found = network.run(inputs)
    return [found[name].astype(t.dtype.numpy)
            for name, t in zip(program.output_names, program.output_types)]  # fmt: skip


def _digest(tensor: VisibleTensor, array: np.ndarray | None, lowered: PlainEvaluation) -> str:
    dtype = tensor.access.dtype.numpy
    if array is None or not array.size or dtype.kind not in "iufb" or dtype == np.float16:
        return "{REPLAY_NOTHING, 0, 0, 0, 0}"
    if lowered.is_exact(tensor.value):
        little = array.astype(dtype.newbyteorder("<"))
        return f"{{REPLAY_EXACT, {zlib.crc32(little.tobytes()):#010x}u, 0, 0, 0}}"
    wide = array.astype(np.float64)
    if not np.isfinite(wide).all():
        return "{REPLAY_NOTHING, 0, 0, 0, 0}"
    allowed = STEPS + 1 if dtype.kind in "iub" else 2.0**-11 * largest(array) + 1e-30
    return f"{{REPLAY_RANGE, 0, {wide.min():.5g}, {wide.max():.5g}, {allowed:.3g}}}"


def print_vectors(library: Any, tensors: Sequence[VisibleTensor], vectors: Sequence[Vector]) -> str:
    """Return the text of ``vectors.h``."""
    program, prefix = library.program, library.sources.prefix
    symbols = [memory_pool_symbol(p, prefix, library.options) for p in program.pools]
    used = [(s, p) for s, p in zip(symbols, program.pools) if p.used_bytes]
    lines = [
        "/* Recorded inputs, expected outputs and digests of tensors for replay.c. */",
        f'#include "{prefix}.h"', "",
        f"#define REPLAY_IN struct {prefix}_inputs", f"#define REPLAY_OUT struct {prefix}_outputs",
        f"#define REPLAY_STATE struct {prefix}_step_state", f"#define REPLAY_RUN {prefix}_run",
        f"#define REPLAY_BEGIN {prefix}_step_begin", f"#define REPLAY_STEP {prefix}_step",
        "enum {", f"  REPLAY_VECTORS = {len(vectors)},", f"  REPLAY_TENSORS = {len(tensors)},",
        f"  REPLAY_STEPS = {len(program.steps)},", f"  REPLAY_POOLS = {len(used)},",
        f"  REPLAY_OUTPUTS = {len(program.outputs)}", "};", "",
        *(f"extern uint8_t {s}[{p.used_bytes}];" for s, p in used),
        *(f"static uint64_t output_{i}[{-(-b.nbytes // 8) or 1}];"
          for i, b in enumerate(program.outputs)),
        _list("void *const replay_outputs", [f"output_{i}" for i in range(len(program.outputs))]),
        _list("const uint32_t replay_bytes", [f"{b.nbytes}" for b in program.outputs]),
        _list("uint8_t *const replay_pools", [s for s, _ in used] or ["0"]),
        _list("const uint32_t replay_pool_bytes", [str(p.used_bytes) for _, p in used] or ["0"]),
        "", *_tensor_lines(tensors, symbols), *_kept_lines(program, symbols), "",
    ]  # fmt: skip
    for v, vector in enumerate(vectors):
        lines += [_bits(f"in_{v}_{i}", a) for i, a in enumerate(vector.inputs.values())]
        lines += [_bits(f"out_{v}_{i}", a) for i, a in enumerate(vector.outputs)]
    for name, start, buffers in (
        ("inputs", "in", program.inputs), ("expected", "out", program.outputs),
    ):  # fmt: skip
        rows = [", ".join(f"{start}_{v}_{i}" for i in range(len(buffers))) or "0"
                for v in range(len(vectors))]  # fmt: skip
        lines.append(_table(f"const void *const replay_{name}", rows, len(buffers) or 1))
    rows = [", ".join(map(repr, vector.allowed)) for vector in vectors]
    lines.append(_table("const double replay_allowed", rows, len(program.outputs)))
    rows = [",\n   ".join(vector.digests) for vector in vectors]
    lines.append(_table("const replay_digest replay_digests", rows, len(tensors)))
    return "\n".join(lines) + "\n"


def _list(head: str, parts: Sequence[str]) -> str:
    return f"static {head}[] = {{{', '.join(parts)}}};"


def _table(head: str, rows: Sequence[str], columns: int) -> str:
    body = "},\n  {".join(rows)
    return f"static {head}[][{columns}] = {{\n  {{{body}}}\n}};"


def _tensor_lines(tensors: Sequence[VisibleTensor], symbols: Sequence[str]) -> Iterator[str]:
    rows = []
    for k, each in enumerate(tensors):
        at, dtype = each.access.at, each.access.dtype.numpy
        axes = [str(n) for pair in zip(at.shape, at.strides) for n in pair] or ["1", "1"]
        yield _list(f"const int32_t axes_{k}", axes)
        buffer = each.access.buffer
        place = (buffer.address or 0) + at.offset * dtype.itemsize
        pool = "0" if each.output >= 0 else symbols[buffer.pool]
        rows.append(
            f"  {{{each.step}, {each.output}, {c_string(each.name)}, "
            f"{c_string(', '.join(each.nodes))}, '{each.kind}', {dtype.itemsize}, "
            f"{len(axes) // 2}, axes_{k}, {at.size}, {pool}, {place}}}"
        )
    yield "static const replay_tensor replay_tensors[] = {\n" + ",\n".join(rows) + "\n};"


def _kept_lines(program: Any, symbols: Sequence[str]) -> Iterator[str]:
    """Yield the bytes of each pool that each operator must not change: all but those from the first
    to the last of each result, and its scratch memory."""
    yield "static const replay_span replay_kept[] = {"
    for number, step in enumerate(program.steps):
        changed = [a for a in step.writes if a.buffer.kind == ARENA and a.at.size]
        if step.scratch is not None:
            changed.append(Access(step.scratch, dense((step.scratch.size,))))
        for place, (symbol, pool) in enumerate(zip(symbols, program.pools)):
            spans = [_span(access) for access in changed if access.buffer.pool == place]
            begin = 0
            for start, end in sorted([*spans, (pool.used_bytes, pool.used_bytes)]):
                if begin < start:
                    yield f"  {{{number}, {symbol}, {begin}, {start}}},"
                begin = max(begin, end)
    yield "  {-1, 0, 0, 0}\n};"


def _span(access: Access) -> tuple[int, int]:
    """Return where the first byte of a tensor is in its pool, and where its last one ends."""
    ends = [stride * (n - 1) for n, stride in zip(access.shape, access.at.strides)]
    first = access.at.offset + sum(n for n in ends if n < 0)
    last = access.at.offset + sum(n for n in ends if n > 0)
    size = access.dtype.numpy.itemsize
    return access.buffer.address + first * size, access.buffer.address + (last + 1) * size


def _bits(name: str, array: np.ndarray) -> str:
    bits = 8 * array.dtype.itemsize
    return f"static const uint{bits}_t {name}[] = {{\n{bits_text(array)}\n}};"
