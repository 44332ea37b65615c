"""Check an operator: compare its bodies with each other and with its Python reference.

Each body runs as in a network. The C body is compiled into a library, in every layout that it
declares; another body runs on the device of its name.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from tvmrt.compiler import devices
from tvmrt.compiler.custom import GraphBuilder, Kernel, Tensor
from tvmrt.compiler.custom.bodies import BODIES
from tvmrt.compiler.custom.operand import ANY_LAYOUT
from tvmrt.compiler.custom.scalars import REQUIRED, Scalar, bind_scalars
from tvmrt.compiler.ir import DTYPES
from tvmrt.compiler.ir.custom import kernel_record
from tvmrt.error import TVMError

CASES = 2  # per combination of element types
ATTEMPTS = 200  # maximum number of tries to find random operands that the declaration accepts
MAX_ELEMENTS = 4096


@dataclass(frozen=True)
class OperandCase:
    """Operands for comparing bodies, None for omitted ones; ``text`` describes them for
    people."""

    arrays: tuple[np.ndarray | None, ...]
    scalars: Mapping[str, Any]
    text: str


@dataclass(frozen=True)
class Comparison:
    """One output of one body. ``right`` is from the reference or, without one, from the first body.
    If the body did not run, ``problem`` is set instead of ``found``; ``skipped`` is set if this
    machine cannot run it."""

    operator: str
    body: str
    judge: str
    case: str
    output: str
    right: np.ndarray | None = None
    found: np.ndarray | None = None
    problem: str = ""
    skipped: str = ""


def check_operator(operator: Kernel, seed: int = 0, cases: int = CASES) -> list[Comparison]:
    """Run all bodies on random operands of every combination of element types.

    Raises ValueError if no random operands fit the declaration; it must then declare ``sample``.
    """
    rows: list[Comparison] = []
    for case in make_cases(operator, seed, cases):
        rows += _compare(operator, case)
    return rows


def make_cases(operator: Kernel, seed: int = 0, cases: int = CASES) -> list[OperandCase]:
    """Create random operands, by the declaration's ``sample`` or by trial and error."""
    rng = np.random.default_rng(seed)
    if operator.sample is not None:
        return [_sample_operands(operator, rng) for _ in range(cases)]
    half_types = (False, True) if any(o.optional for o in operator.inputs) else (False,)
    return [
        _random_case(operator, dict(zip(operator.types, chosen)), rng, left_out)
        for chosen in product(*operator.types.values())
        for left_out in half_types
        for _ in range(cases)
    ]


def _sample_operands(operator: Kernel, rng: np.random.Generator) -> OperandCase:
    found = operator.call("sample", operator.sample, rng)
    if not _is_sample(found):
        raise ValueError(
            f"operator {operator.name}: sample: {found!r} is not a list of arrays with a "
            "dictionary of scalars"
        )
    arrays, scalars = found
    return OperandCase(tuple(arrays), dict(scalars), _text(arrays, scalars))


def _is_sample(found: Any) -> bool:
    return (
        isinstance(found, (tuple, list))
        and len(found) == 2
        and isinstance(found[0], (tuple, list))
        and all(a is None or isinstance(a, np.ndarray) for a in found[0])
        and isinstance(found[1], Mapping)
    )


def _random_case(
    operator: Kernel, chosen: Mapping[str, str], rng: np.random.Generator, left_out: bool
) -> OperandCase:
    """Create operands of one shape or, if the operator refuses that, of independent shapes;
    ``left_out`` omits optional operands."""
    problem = "no inputs were tried"
    for attempt in range(ATTEMPTS):
        common = _random_shape(operator, rng)
        shapes = [
            common if attempt % 2 == 0 else _random_shape(operator, rng) for _ in operator.inputs
        ]
        arrays = tuple(
            None
            if operand.optional and left_out
            else random_array(rng, shape, chosen.get(operand.type, operand.type))
            for operand, shape in zip(operator.inputs, shapes)
        )
        scalars = {s.name: random_scalar(rng, s) for s in operator.scalars}
        try:
            _network(operator, arrays, scalars)
            operator.evaluate(arrays, [scalars[s.name] for s in operator.scalars])
        except (ValueError, TVMError) as failure:
            problem = str(failure)
            continue
        return OperandCase(arrays, scalars, _text(arrays, scalars))
    raise ValueError(
        f"operator {operator.name}: no random operands fit its declaration ({problem}); "
        "declare sample"
    )


def _random_shape(operator: Kernel, rng: np.random.Generator) -> tuple[int, ...]:
    ranks = {layout.rank for o in operator.inputs for layout in o.parsed_layouts()}
    rank = rng.choice(sorted(ranks)) if ranks else rng.integers(1, 5)
    while True:
        shape = tuple(int(n) for n in rng.choice([1, 2, 3, 4, 5, 8, 16], rank))
        if np.prod(shape) <= MAX_ELEMENTS:
            return shape


def random_array(rng: np.random.Generator, shape: Sequence[int], dtype: str) -> np.ndarray:
    """Return normal floats, integers of 8 bits in their full range, or small other integers."""
    row = DTYPES[dtype]
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if row.is_int:
        limits = np.iinfo(row.numpy)
        low, high = max(limits.min, -256), min(limits.max, 256)
        return rng.integers(low, high, shape, endpoint=True).astype(row.numpy)
    return (3 * rng.standard_normal(shape)).astype(row.numpy)


def random_scalar(rng: np.random.Generator, scalar: Scalar) -> Any:
    """Return the default with probability 0.5, otherwise a small value of the type."""
    if scalar.default is not REQUIRED and rng.random() < 0.5:
        return scalar.default
    kind = scalar.type.name
    if kind == "bool":
        return bool(rng.integers(2))
    if kind in ("int", "uint"):
        return int(rng.integers(0 if kind == "uint" else -4, 9))
    return scalar.convert(float(rng.normal()))


def _compare(operator: Kernel, case: OperandCase) -> list[Comparison]:
    judge, right = _reference(operator, case)
    rows = []
    for body, device in BODIES.items():
        if getattr(operator, body) is None:
            continue
        for label, variant in _variants(operator, case) if body == "c" else [("", operator)]:
            name = f"{body} {label}".strip()
            found = _outcome(variant, case, device)
            if isinstance(found, list) and right is None:
                judge, right = name, found
                continue
            rows += _rows(operator, case, name, judge, right, found)
    return rows


def _variants(operator: Kernel, case: OperandCase) -> list[tuple[str, Kernel]]:
    """Return the operator restricted to each of its layouts that fits the operands."""
    if operator.any_layout:
        names = {3: "NWC", 4: "NHWC", 5: "NDHWC"}
        ranks = {a.ndim for i, a in _present(case.arrays) if i in operator.any_layout}
        rank = min(ranks, default=0)
        plain, other = _restrict_bodies(operator, ()), names.get(rank)
        more = [(other, _restrict_bodies(operator, (other,)))] if other else []
        return [("", plain), *more]
    count = max(len(o.parsed_layouts()) for o in (*operator.inputs, *operator.outputs))
    found = [_with_layout_index(operator, i) for i in range(count)]
    fitting = [variant for variant in found if _is_accepted(variant, case)]
    first = [variant.inputs[0].layouts for variant in fitting]
    labels = [names[0] if count > 1 and names else "" for names in first]
    return list(zip(labels, fitting)) or [("", operator)]


def _restrict_bodies(operator: Kernel, layouts: tuple[str, ...]) -> Kernel:
    """Return a copy in which operands of any layout have the given layouts."""

    def restrict(operand: Tensor) -> Tensor:
        return replace(operand, layouts=layouts) if operand.layouts == ANY_LAYOUT else operand

    return operator.with_operands(map(restrict, operator.inputs), map(restrict, operator.outputs))


def _with_layout_index(operator: Kernel, index: int) -> Kernel:
    """Return a copy restricted to the layouts with one index."""

    def restrict(operand: Tensor) -> Tensor:
        names = tuple(layout.name for layout in operand.parsed_layouts())
        return replace(operand, layouts=names[index : index + 1] if len(names) > 1 else names)

    return operator.with_operands(map(restrict, operator.inputs), map(restrict, operator.outputs))


def _is_accepted(operator: Kernel, case: OperandCase) -> bool:
    return all(
        layout.mismatch(array.shape) is None
        for i, array in _present(case.arrays)
        for layout in operator.inputs[i].parsed_layouts()
    )


def _present(arrays: Sequence[np.ndarray | None]) -> list[tuple[int, np.ndarray]]:
    """Return the operands that are not omitted, with their positions."""
    return [(i, array) for i, array in enumerate(arrays) if array is not None]


def _rows(operator, case, body, judge, right, found) -> list[Comparison]:
    head = (operator.name, body, judge, case.text)
    if isinstance(found, Skipped):
        return [Comparison(*head, "", skipped=str(found))]
    if isinstance(found, str):
        return [Comparison(*head, "", problem=found)]
    return [
        Comparison(*head, output.name, wanted, got)
        for output, wanted, got in zip(operator.outputs, right, found)
    ]


def _reference(operator: Kernel, case: OperandCase) -> tuple[str, list[np.ndarray] | None]:
    try:
        scalars = bind_scalars(operator.scalars, case.scalars)
        return "reference", operator.evaluate(case.arrays, scalars)
    except ValueError as problem:
        raise ValueError(f"operator {operator.name}: {problem}; operands {case.text}") from problem


class Skipped(str):
    """Why a body did not run for reasons other than an error: the machine or the operator."""


def _outcome(operator: Kernel, case: OperandCase, device: str) -> list[np.ndarray] | str | Skipped:
    """Return the body's outputs, or why there are none."""
    if device != "cpu":
        missing = _missing_device(device)
        if missing is not None:
            return Skipped(missing)
    reason = _refusal(operator, case, device) if device != "cpu" else None
    if reason is not None:
        return Skipped(reason)
    try:
        return run_body(operator, case.arrays, case.scalars, device)
    except (ValueError, TypeError, OSError, MemoryError, TVMError) as problem:
        return str(problem)


@cache
def _missing_device(device: str) -> str | None:
    """Return why this machine cannot run a device; None if it can."""
    g = GraphBuilder("probe")
    g.output("output0", g.Relu(g.input("input0", (4,))))
    try:
        _run(g, [np.zeros(4, np.float32)], 1, device)
    except (ValueError, ImportError, OSError, TVMError) as problem:
        return str(problem)
    return None


def _refusal(operator: Kernel, case: OperandCase, device: str) -> str | None:
    """Return why the device rejects the operator's node; None if it supports it."""
    graph = _network(operator, case.arrays, case.scalars).graph()
    (node,) = (n for n in graph.nodes if kernel_record(n) is not None)
    return devices.get(device).supports(node)


def run_body(
    operator: Kernel, arrays: Sequence[np.ndarray], scalars: Mapping[str, Any], device: str
) -> list[np.ndarray]:
    """Compile a network of one node for a device and run it."""
    network = _network(operator, arrays, scalars)
    return _run(network, arrays, len(operator.outputs), device)


def _run(network: GraphBuilder, arrays: Sequence[np.ndarray], outputs: int, device: str):
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
        for i, array in _present(arrays):
            session.set_input(f"input{i}", nd.array(array))
        session.run()
        return [session.get_output(i).numpy() for i in range(outputs)]


def _network(operator: Kernel, arrays, scalars) -> GraphBuilder:
    g = GraphBuilder(operator.op_type)
    values: list[Any] = [None] * len(arrays)
    for i, array in _present(arrays):
        values[i] = g.input(f"input{i}", array.shape, array.dtype.name)
    made = g.add_kernel(operator.without_reference(), values, scalars)
    (node,) = (n for n in g.graph().nodes if kernel_record(n) is not None)
    for i, (value, result) in enumerate(zip(made, node.outputs)):
        g.output(f"output{i}", value, result.dtype.name)
    return g


def _text(arrays: Sequence[np.ndarray], scalars: Mapping[str, Any]) -> str:
    operands = [
        "none" if a is None else f"{a.dtype.name}[{', '.join(map(str, a.shape))}]" for a in arrays
    ]
    return ", ".join([*operands, *(f"{name}={value:g}" for name, value in scalars.items())])
