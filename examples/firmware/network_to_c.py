"""Print C tables of a network's inputs, with their values, and of its outputs, with room for them.

    network_to_c.py NET.json [IN.npz]

NET.json is what ``tvmrt compile --json`` prints. Without IN.npz, all inputs are zero.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np
from npz_to_c import C_TYPES, array_text

ELEMENTS = {
    "int8_t": "I8", "uint8_t": "U8", "int16_t": "I16", "uint16_t": "U16", "int32_t": "I32",
    "uint32_t": "U32", "int64_t": "I64", "uint64_t": "U64", "float": "F32", "double": "F64",
}  # fmt: skip


def row(tensor: dict[str, Any], data: str) -> str:
    """One row of a table: the name with type and shape, type, number of elements, place."""
    shape = ", ".join(map(str, tensor["shape"]))
    name = json.dumps(f"{tensor['name']} {tensor['dtype']}[{shape}]")
    count = int(np.prod(tensor["shape"], dtype=np.int64))
    return f"    {{{name}, {ELEMENTS[C_TYPES[tensor['dtype']]]}, {count}, (void *){data}}},"


def values(tensor: dict[str, Any], given: dict[str, np.ndarray]) -> np.ndarray:
    """The input's values; exits where they do not fit."""
    if not given:
        return np.zeros(tensor["shape"], tensor["dtype"])
    if tensor["name"] not in given:
        sys.exit(f"network_to_c.py: the .npz has no array {tensor['name']}; name it like the input")
    array = given[tensor["name"]]
    if list(array.shape) != tensor["shape"] or array.dtype.name != tensor["dtype"]:
        sys.exit(
            f"network_to_c.py: input {tensor['name']} is {tensor['dtype']}{tensor['shape']}, "
            f"not {array.dtype.name}{list(array.shape)}"
        )
    return array


def main(network: str, inputs: str | None = None) -> None:
    with open(network, encoding="utf-8") as file:
        summary = json.load(file)
    given = dict(np.load(inputs)) if inputs else {}
    print("#include <math.h>\n")
    tables: dict[str, list[str]] = {"inputs": [], "outputs": []}
    for i, tensor in enumerate(summary["inputs"]):
        print(array_text(f"input{i}", values(tensor, given)))
        tables["inputs"].append(row(tensor, f"input{i}"))
    for i, tensor in enumerate(summary["outputs"]):
        count = max(int(np.prod(tensor["shape"], dtype=np.int64)), 1)
        print(f"static {C_TYPES[tensor['dtype']]} output{i}[{count}];")
        tables["outputs"].append(row(tensor, f"output{i}"))
    for name, rows in tables.items():
        print(f"\nenum {{ {name.upper()} = {len(rows)} }};")
        print(f"static const tensor {name}[{name.upper()} + 1] = {{")
        print("\n".join([*rows, "    {0},", "};"]))


if __name__ == "__main__":
    main(*sys.argv[1:])
