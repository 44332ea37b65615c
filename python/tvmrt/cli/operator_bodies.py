"""Compare the C and OpenCL bodies of a custom operator with its Python reference.

Each body runs as in a network. The C body is compiled into a library, for every layout that it
declares; an OpenCL body runs on the device of that name.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from tvmrt.compiler import devices
from tvmrt.compiler.custom import GraphBuilder, Kernel
from tvmrt.compiler.custom.bodies import BODIES
from tvmrt.compiler.custom.scalars import Scalar, bind_scalars
from tvmrt.compiler.ir import DTYPES, Graph, Node
from tvmrt.compiler.ir.custom import kernel_record
from tvmrt.compiler.transform.layout_inference import layout_choices
from tvmrt.error import TVMError

CASES = 2  # by ``sample``
RANKS = (1, 4)  # of random operands, unless layouts are declared


@dataclass(frozen=True)
class OperandCase:
    """Operands for comparing bodies, None for omitted ones."""

    arrays: tuple[np.ndarray | None, ...]
    scalars: Mapping[str, Any]

    def __str__(self) -> str:
        operands = [
            "none" if a is None else f"{a.dtype.name}[{', '.join(map(str, a.shape))}]"
            for a in self.arrays
        ]
        return ", ".join([*operands, *(f"{name}={v:g}" for name, v in self.scalars.items())])


@dataclass(frozen=True)
class Comparison:
    """One output of one body. If the body did not run, ``problem`` is set instead of ``found``;
    ``skipped`` is set if this machine cannot run it."""

    operator: str
    body: str
    case: str
    output: str = ""
    right: np.ndarray | None = None
    found: np.ndarray | None = None
    problem: str = ""
    skipped: str = ""


def check_operator(operator: Kernel, cases: int = CASES) -> list[Comparison]:
    """Run all bodies on the operands of ``sample`` or, without one, on random operands of every
    combination of element types. Raise ValueError if these do not fit the declaration."""
    rows: list[Comparison] = []
    for case in make_cases(operator, cases):
        try:
            scalars = bind_scalars(operator.scalars, case.scalars)
            right = operator.evaluate(case.arrays, scalars)
        except ValueError as problem:
            raise ValueError(f"operator {operator.name}: {problem}; operands {case}") from problem
        if right is None:
            raise ValueError(f"operator {operator.name} has no reference; declare one to verify it")
        for body, device in BODIES.items():
            if getattr(operator, body) is not None:
                rows += _compare(operator, case, body, device, right)
    return rows


def make_cases(operator: Kernel, cases: int = CASES) -> list[OperandCase]:
    """Return operands by the declaration's ``sample``, or random ones."""
    rng = np.random.default_rng(0)
    if operator.sample is not None:
        return [_sample_operands(operator, rng) for _ in range(cases)]
    ranks = {len(layout.order) for o in operator.inputs for layout in o.parsed_layouts()}
    return [
        _random_case(operator, dict(zip(operator.types, chosen)), rank, rng, left_out)
        for chosen in product(*operator.types.values())
        for left_out in sorted({False, any(o.optional for o in operator.inputs)})
        for rank in sorted(ranks) or RANKS
    ]


def _sample_operands(operator: Kernel, rng: np.random.Generator) -> OperandCase:
    found = operator.call("sample", operator.sample, rng)
    try:
        arrays, scalars = found
        fits = all(a is None or isinstance(a, np.ndarray) for a in arrays)
    except (TypeError, ValueError):
        fits = False
    if not fits or not isinstance(scalars, Mapping):
        raise ValueError(
            f"operator {operator.name}: sample: {found!r} is not a list of arrays with a "
            "dictionary of scalars"
        )
    return OperandCase(tuple(arrays), scalars)


def _random_case(
    operator: Kernel,
    chosen: Mapping[str, str],
    rank: int,
    rng: np.random.Generator,
    left_out: bool,
) -> OperandCase:
    """Return operands of one shape; ``left_out`` omits optional ones."""
    shape = [int(n) for n in rng.integers(1, 9, rank)]
    arrays = tuple(
        None
        if operand.optional and left_out
        else _random_array(rng, shape, chosen.get(operand.type, operand.type))
        for operand in operator.inputs
    )
    case = OperandCase(arrays, {s.name: _random_scalar(rng, s) for s in operator.scalars})
    try:
        _network(operator, case)
        operator.evaluate(arrays, list(case.scalars.values()))
    except (ValueError, TVMError) as problem:
        raise ValueError(
            f"operator {operator.name}: random operands do not fit its declaration ({problem}); "
            "declare sample"
        ) from problem
    return case


def _random_array(rng: np.random.Generator, shape: Sequence[int], dtype: str) -> np.ndarray:
    """Return normal floats, integers of 8 bits in their full range, or small other integers."""
    row = DTYPES[dtype]
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if row.is_int:
        limits = np.iinfo(row.numpy)
        low, high = max(limits.min, -256), min(limits.max, 256)
        return rng.integers(low, high, shape, endpoint=True).astype(row.numpy)
    return (3 * rng.standard_normal(shape)).astype(row.numpy)


def _random_scalar(rng: np.random.Generator, scalar: Scalar) -> Any:
    is_float = scalar.type.name in ("float", "half")
    return scalar.convert(float(rng.normal()) if is_float else int(rng.integers(2)))


def _compare(
    operator: Kernel, case: OperandCase, body: str, device: str, right: Sequence[np.ndarray]
) -> list[Comparison]:
    try:
        skipped = _not_run(operator, case, device)
        if skipped is not None:
            return [Comparison(operator.name, body, str(case), skipped=skipped)]
        return [
            Comparison(operator.name, f"{body} {layout}".strip(), str(case), output.name, wanted, y)
            for layout, network in _networks(operator, case, device)
            for output, wanted, y in zip(operator.outputs, right, _run(network, case, device))
        ]
    except (ValueError, TypeError, OSError, MemoryError, TVMError) as problem:
        return [Comparison(operator.name, body, str(case), problem=str(problem))]


def _networks(operator: Kernel, case: OperandCase, device: str) -> Iterator[tuple[str, Graph]]:
    """Yield networks of one node, each with a layout of the C body; OpenCL bodies have none."""
    graph = _network(operator, case).graph()
    node = _custom_node(graph)
    choices = layout_choices(node, graph) if device == "cpu" else [()]
    for names in choices:
        node.attrs["layouts"] = names
        yield next(filter(None, names), "") if len(choices) > 1 else "", graph


def _not_run(operator: Kernel, case: OperandCase, device: str) -> str | None:
    """Return why a device cannot run the operator here; None if it can."""
    if device == "cpu":
        return None
    node = _custom_node(_network(operator, case).graph())
    return missing_device(device) or devices.get(device).supports(node)


@cache
def missing_device(device: str) -> str | None:
    """Return why this machine cannot run a device; None if it can."""
    g = GraphBuilder("probe")
    g.output("output0", g.Relu(g.input("input0", (4,))))
    try:
        _run(g, OperandCase((np.zeros(4, np.float32),), {}), device)
    except (ValueError, ImportError, OSError, TVMError) as problem:
        return str(problem)
    return None


def _run(network: GraphBuilder | Graph, case: OperandCase, device: str) -> list[np.ndarray]:
    from tvmrt import cpu, nd
    from tvmrt.compiler.pipeline import compile as compile_network
    from tvmrt.contrib.graph_executor import GraphModule
    from tvmrt.runtime import load_module

    others = {} if device == "cpu" else {"devices": [device], "require_device": [device]}
    library = compile_network(network, **others)
    with tempfile.TemporaryDirectory(prefix="tvmrt-operator-") as folder:
        path = Path(folder) / "operator.so"
        library.export_library(path)
        session = GraphModule(load_module(path)["default"](cpu(0)))
        for i, array in enumerate(case.arrays):
            if array is not None:
                session.set_input(f"input{i}", nd.array(array))
        session.run()
        return [session.get_output(i).numpy() for i in range(session.get_num_outputs())]


def _network(operator: Kernel, case: OperandCase) -> GraphBuilder:
    """Return a network of one node, which is not folded even if all inputs are omitted."""
    g = GraphBuilder(operator.op_type)
    values = [
        None if array is None else g.input(f"input{i}", array.shape, array.dtype.name)
        for i, array in enumerate(case.arrays)
    ]
    made = g.add(
        operator.for_verification(), *values, outputs=len(operator.outputs), **case.scalars
    )
    results = made if isinstance(made, list) else [made]
    for i, (value, result) in enumerate(zip(results, _custom_node(g.graph()).outputs)):
        g.output(f"output{i}", value, result.dtype.name)
    return g


def _custom_node(graph: Graph) -> Node:
    (node,) = (n for n in graph.nodes if kernel_record(n) is not None)
    return node
