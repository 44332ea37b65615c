"""Graphs from text, in the form that ``tvmrt.compiler.ir.verifier`` prints.

The types of results may be left out; those given are compared with those that the operators
compute. ``const %w: float32[2, 2] = 1`` has this number everywhere, ``const %w = dequantize(%q,
%s, %z)`` what the operator computes.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator

import numpy as np

from tvmrt.compiler.ir import Graph, Node, TensorType, Value
from tvmrt.compiler.ir.builder import result_types
from tvmrt.compiler.ir.dtype import DTYPES
from tvmrt.compiler.ir.verifier import print_graph

_JSON = {"nan": "NaN", "inf": "Infinity", "True": "true", "False": "false"}
_NAMED = re.compile(r"(input|const) %(\S+): (\w+)\[([\d, ]*)\](?: = (.+))?")
_OUTPUT = re.compile(r"output (\S+) = %(\S+)")
_NODE = re.compile(
    r"(?:const )?(?P<results>%.+?) = (?P<op>\w+)\((?P<operands>[^)]*)\)(?: \{(?P<attrs>.*?)\})?"
    r"(?: if (?P<not>not )?%(?P<guard>\S+))?(?:\s+# (?P<sources>.*))?"
)
_RESULT = re.compile(r"%([^\s:,]+)(?:: (\w+\[[^\]]*\]))?")


def parse_graph(text: str, name: str = "graph") -> Graph:
    """Return the graph that lines describe. Raise ValueError for any other line."""
    graph, values = Graph(name), dict[str, Value]()
    for line in filter(None, (each.strip() for each in text.splitlines())):
        named, output, node = (form.fullmatch(line) for form in (_NAMED, _OUTPUT, _NODE))
        if named:
            values[named[2]] = value = _named(named)
            if named[1] == "input":
                graph.inputs.append(value)
        elif output:
            graph.output_names.append(output[1])
            graph.outputs.append(values[output[2]])
        elif node:
            made = _node(node, values)
            if line.startswith("const "):
                operands = [None if v is None else v.data for v in made.inputs]
                (made.output.data,) = made.operator.evaluate(operands, made.attrs)
            else:
                graph.nodes.append(made)
        elif not re.fullmatch(r"graph \S+ \{|\}", line):
            raise ValueError(f"this line is not an input, constant, node or output: {line}")
    return graph


def _named(found: re.Match[str]) -> Value:
    shape = tuple(int(n) for n in found[4].split(",") if n.strip())
    type = TensorType(shape, DTYPES[found[3]])
    if found[1] == "input":
        return Value(found[2], type)
    text = re.sub(r"\w+", lambda word: _JSON.get(word[0], word[0]), found[5])
    numbers = np.array(json.loads(text), type.dtype.numpy)
    return Value(found[2], type, data=np.array(np.broadcast_to(numbers, shape)))


def _node(found: re.Match[str], values: dict[str, Value]) -> Node:
    op, results = found["op"], _RESULT.findall(found["results"])
    operands = [each.strip() for each in found["operands"].split(",") if each.strip()]
    inputs = [None if each == "none" else values[each.removeprefix("%")] for each in operands]
    attrs = dict(_attributes(found["attrs"] or ""))
    guard = (values[found["guard"]], not found["not"]) if found["guard"] else None
    sources = tuple((found["sources"] or results[0][0]).split(", "))
    node = Node(op, inputs, attrs, results[0][0], sources, guard)
    types = result_types(op, inputs, attrs)
    for (name, given), type in zip(results, types):
        if given and given != str(type):
            raise ValueError(f"%{name} of {op} has the type {type}, not {given}")
        values[name] = Value(name, type, node)
        node.outputs.append(values[name])
    return node


def _attributes(text: str) -> Iterator[tuple[str, object]]:
    """Yield the attributes in ``name=value, name=[1, 2]``."""
    for name, value in re.findall(r"(\w+)=(.*?)(?:, (?=\w+=)|$)", text):
        try:
            literal = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            literal = value  # a word, such as a mode
        yield name, tuple(literal) if isinstance(literal, list) else literal


def format_graph(graph: Graph) -> str:
    """Return the lines of a graph; constants that have one number everywhere have it once."""
    constants = iter(graph.constants())
    lines = []
    for line in print_graph(graph, 0).splitlines()[1:-1]:
        text = line.strip()
        if text.startswith("const "):
            numbers = np.asarray(next(constants).data)
            uniform = numbers.size > 1 and (numbers == numbers.flat[0]).all()
            text = f"{text} = {numbers.flat[0].item() if uniform else numbers.tolist()}"
        lines.append(re.sub(r"^(%([^\s:,]+): .*?)\s+# \2$", r"\1", text))
    return "\n".join(lines) + "\n"
