"""The reference page of ONNX operators, which ``docs/generate_reference.py`` writes.

Everything is measured: versions come from the installed onnx, passing cases from its tests and
``not_passing.json``; element types and boards from compiling the operator's cases, errors from
``docs/reference/accuracy.md``.
"""

from __future__ import annotations

import json
import re
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import onnx
from batched import Values, with_needed_values
from onnx import TensorProto
from onnx.backend.test import loader

import tvmrt
from tvmrt.compiler.frontend.onnx import import_model
from tvmrt.compiler.frontend.onnx.registry import find
from tvmrt.compiler.frontend.onnx.unsupported_operators import refuse

HERE = Path(__file__).parent
DOCS = HERE.parents[2] / "docs" / "reference"
BOARD = "cortex-m4"
TRIED = 3  # maximum cases per operator for the types and boards columns

HEAD = f"""# The operators of ONNX

This page is made from the test cases of onnx {onnx.__version__}.
[The internal operators](operators.md) have their own page; see also
[add an operator](../how-to/add-an-operator.md).

- versions: opsets that changed the definition of the operator. All are supported; opsets 1 to 6 are
  converted to 7 first.
- types: supported element types of the first operand; `all` if these are all that ONNX allows.
- boards: whether the cases compile for microcontrollers, tried with `{BOARD}`; shapes and
  axes that are inputs have fixed values (`--value`).
- cases: number of ONNX's test cases that pass, including those of expanded forms. `own` marks
  operators without ONNX test cases, covered by tests of tvmrt only; types and boards are not tried.
- ULPs: the largest error in float32, from [accuracy](accuracy.md). Empty if the operator only moves
  or adds and multiplies elements, or if its error depends on the length of sums.
"""
# Families of types: one word if all of them are accepted.
FAMILIES = {
    "int8-64": ("int8", "int16", "int32", "int64"),
    "uint8-64": ("uint8", "uint16", "uint32", "uint64"),
    "int2, int4": ("int2", "int4"),
    "uint2, uint4": ("uint2", "uint4"),
    "float8": ("float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz"),
}
DOMAINS = {
    "": "ai.onnx",
    "ai.onnx.ml": "ai.onnx.ml",
    "ai.onnx.preview": "ai.onnx.preview",
    "ai.onnx.preview.training": "ai.onnx.preview.training",
}

Key = tuple[str, str]


class Case(NamedTuple):
    """An ONNX test case, with inputs of a run by name."""

    name: str
    model: onnx.ModelProto
    inputs: Mapping[str, Any]


def cases_by_operator() -> dict[Key, list[Case]]:
    """Return the node cases of each operator; expanded forms go with the original."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loaded = loader.load_model_tests(kind="node")
    whole = {case.name: _operator(case.model) for case in loaded if "_expanded" not in case.name}
    found = defaultdict(list)
    for case in loaded:
        key = whole.get(re.sub(r"_expanded.*", "", case.name)) or _operator(case.model)
        values = case.data_sets[0][0] if case.data_sets else ()
        inputs = {info.name: value for info, value in zip(case.model.graph.input, values)}
        found[key].append(Case(case.name, case.model, inputs))
    return dict(found)


def _operator(model: onnx.ModelProto) -> Key:
    """Return the operator that a case tests: its last node that is not a constant."""
    nodes = [node for node in model.graph.node if node.op_type != "Constant"] or model.graph.node
    return (nodes[-1].domain, nodes[-1].op_type) if nodes else ("", "")


# Type names of this page that differ from ONNX's.
ONNX_NAMES = {"float32": "float", "float64": "double"}
OUR_NAMES = {name: ours for ours, name in ONNX_NAMES.items()}


def _type_name(number: int) -> str:
    name = TensorProto.DataType.Name(number).lower()
    return OUR_NAMES.get(name, name)


def _allowed(schema: onnx.defs.OpSchema) -> list[str]:
    """Return the element types of the first operand, or of the result if there is none."""
    if not schema.inputs and not schema.outputs:
        return []
    formal = (schema.inputs or schema.outputs)[0]
    found = [re.fullmatch(r"tensor\((\w+)\)", text) for text in formal.types]
    return sorted(OUR_NAMES.get(match[1], match[1]) for match in found if match)


def _retyped(case: Case, schema: onnx.defs.OpSchema, name: str) -> Iterator[onnx.ModelProto]:
    """Change the element type of a case: in all places that ONNX ties to the first operand, then in
    all places that have the old type."""
    (node, *others) = case.model.graph.node
    if others or not schema.inputs or not case.model.graph.input:
        return
    letter = schema.inputs[0].type_str
    bound = set()
    for formals, names in ((schema.inputs, node.input), (schema.outputs, node.output)):
        for i, used in enumerate(names):
            if formals[min(i, len(formals) - 1)].type_str == letter:
                bound.add(used)
    infos = (*case.model.graph.input, *case.model.graph.output)
    first = case.model.graph.input[0].type.tensor_type.elem_type
    alike = {info.name for info in infos if info.type.tensor_type.elem_type == first}
    for wanted in (bound, alike):
        model = onnx.ModelProto()
        model.CopyFrom(case.model)
        for info in (*model.graph.input, *model.graph.output):
            if info.name in wanted:
                number = TensorProto.DataType.Value(ONNX_NAMES.get(name, name).upper())
                info.type.tensor_type.elem_type = number
        yield model


def _accepts(make: Callable[[Values], object], case: Case) -> bool:
    """Tell whether ``make`` succeeds, with the values of the inputs that the compiler asks for."""
    try:
        with_needed_values(make, case.inputs)
    except Exception:
        return False
    return True


def _imports(model: onnx.ModelProto, case: Case) -> bool:
    return _accepts(lambda values: import_model(model, values=values), case)


def _compiles(case: Case) -> bool:
    options = {"target": BOARD, "executor": "aot", "interface_api": "c"}
    return _accepts(lambda values: tvmrt.compile(case.model, **options, values=values), case)


def types(passing: Sequence[Case], schema: onnx.defs.OpSchema) -> str:
    """Return the element types of the first operand that the importer accepts."""
    allowed = _allowed(schema)
    own = {
        _type_name(case.model.graph.input[0].type.tensor_type.elem_type)
        for case in passing
        if case.model.graph.input
    }
    taken = [
        name
        for name in allowed
        if name in own
        or any(
            _imports(model, case)
            for case in passing[:TRIED]
            for model in _retyped(case, schema, name)
        )
    ]
    if taken and taken == allowed:
        return "all"
    return ", ".join(_in_families(taken))


def _in_families(names: Iterable[str]) -> Iterator[str]:
    left = list(names)
    for word, members in FAMILIES.items():
        if set(members) <= set(left):
            left = [name for name in left if name not in members]
            left.append(word)
    return iter(sorted(left))


def errors() -> dict[str, str]:
    """Return the largest float32 error of each function on the accuracy page."""
    text = (DOCS / "accuracy.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([\w;, ]+) \| ([\d.]+) \|", text, re.MULTILINE)
    return {name: error for names, error in rows for name in names.split("; ")}


def row(schema: onnx.defs.OpSchema, cases: Sequence[Case], missing: set[str], ulps: str) -> str:
    """Return the table row of an operator."""
    passing = [case for case in cases if case.name not in missing]
    tried = sorted(passing, key=lambda case: ("_expanded" in case.name, len(case.name)))
    history = onnx.defs.get_all_schemas_with_history()
    versions = sorted(
        s.since_version for s in history if (s.domain, s.name) == (schema.domain, schema.name)
    )
    importer = find(schema.domain, schema.name)
    known = (importer is not None or schema.has_function) and importer is not refuse
    cells = [
        f"`{schema.name}`",
        ", ".join(map(str, versions)),
        types(tried, schema) if known else "refused",
        "yes" if any(map(_compiles, tried[:TRIED])) else "no" if tried else "",
        f"{len(passing)} of {len(cases)}" if cases else "own" if known else "",
        ulps,
    ]
    return f"| {' | '.join(cells)} |"


def _section(
    domain: str, defined: Sequence[onnx.defs.OpSchema], cases: Mapping[Key, Sequence[Case]]
) -> str:
    missing, ulps = not_passing(), errors()
    rows = [
        row(schema, cases.get((domain, schema.name), []), missing, ulps.get(schema.name, ""))
        for schema in defined
    ]
    head = ["operator", "versions", "types", "boards", "cases", "ULPs"]
    table = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}", *rows]
    return "\n".join([f"## {DOMAINS[domain]}", "", *table])


def schemas() -> list[onnx.defs.OpSchema]:
    """Return the newest schema of each ONNX operator."""
    return [schema for schema in onnx.defs.get_all_schemas() if not schema.deprecated]


def not_passing() -> set[str]:
    """Return the names of the cases that fail."""
    return set(json.loads((HERE / "not_passing.json").read_text()))


def page() -> str:
    """Return the whole page."""
    latest = schemas()
    cases = cases_by_operator()
    parts = [HEAD.rstrip()]
    for domain in DOMAINS:
        of_domain = sorted((s for s in latest if s.domain == domain), key=lambda s: s.name)
        if of_domain:
            parts.append(_section(domain, of_domain, cases))
    return "\n\n".join(parts) + "\n"
