"""Names of a network's inputs and outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from tvmrt.compiler.sdk.frontend import unused_name
from tvmrt.plugins.tflite.frontend.model_file import Model, Signature

T = TypeVar("T")


def names_of(model: Model, entry: tuple[int, Signature | None]) -> tuple[list[str], list[str]]:
    """Return the input and output names of a graph, from its signature or else its tensors.

    ``entry`` is a result of :func:`entry_of`.
    """
    graph, found = model.subgraphs[entry[0]], entry[1]
    named = [
        {} if found is None else {i: n for n, i in table.items() if n}
        for table in ((found and found.inputs) or {}, (found and found.outputs) or {})
    ]
    return (
        distinct([named[0].get(i, graph.tensors[i].name) for i in graph.inputs]),
        distinct([named[1].get(i, graph.tensors[i].name) for i in graph.outputs]),
    )


def aliases_of(model: Model, entry: tuple[int, Signature | None]) -> dict[str, str]:
    """Return alternative input names, mapped to those of :func:`names_of`: the tensor names in the
    file, which LiteRT's interpreter uses. A name shared by several inputs is omitted."""
    graph, names = model.subgraphs[entry[0]], names_of(model, entry)[0]
    found: dict[str, set[str]] = {}
    for index, name in zip(graph.inputs, names):
        found.setdefault(graph.tensors[index].own_name, set()).add(name)
    return {
        alias: known for alias, (known, *more) in found.items() if not more and alias not in names
    }


def by_input(given: Mapping[str, T], aliases: Mapping[str, str]) -> dict[str, T]:
    """Return values keyed by input name, with aliases replaced by the input's name. Raises
    KeyError if both an input's name and its alias have a value."""
    result = {name: value for name, value in given.items() if name not in aliases}
    for alias, value in given.items():
        name = aliases.get(alias, alias)
        if name != alias and name in given:
            raise KeyError(f"input {name} is given twice, the second time as {alias}")
        result.setdefault(name, value)
    return result


def distinct(names: Sequence[str]) -> list[str]:
    """Return the names, with a number appended to repeated ones."""
    result: list[str] = []
    for name in names:
        result.append(unused_name(name, result.__contains__))
    return result
