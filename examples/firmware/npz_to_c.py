"""Print arrays of an .npz as C arrays.

    npz_to_c.py IN.npz [NAME[:FIRST-END] ...]

Each array, or its rows from FIRST to before END, becomes ``static const TYPE name[]``, and the
number of its rows a macro ``NAME_COUNT``.
"""

from __future__ import annotations

import sys

import numpy as np

C_TYPES = {
    "int8": "int8_t", "uint8": "uint8_t", "int16": "int16_t", "uint16": "uint16_t",
    "int32": "int32_t", "uint32": "uint32_t", "int64": "int64_t", "uint64": "uint64_t",
    "float32": "float", "float64": "double", "bool": "uint8_t", "float16": "uint16_t",
    "bfloat16": "uint16_t",
}  # fmt: skip


def element_text(value: np.generic) -> str:
    """A C literal of exactly this element; half precision as its bits."""
    if value.dtype.name in ("float16", "bfloat16"):
        return str(int(value.view(np.uint16)))
    if value.dtype.kind == "f":
        number = float(value)
        if not np.isfinite(number):
            return "NAN" if np.isnan(number) else "INFINITY" if number > 0 else "-INFINITY"
        return number.hex() + ("f" if value.dtype.itemsize == 4 else "")
    if value.dtype.name == "int64" and int(value) == -(1 << 63):
        return "INT64_MIN"
    return str(int(value)) + {"uint32": "u", "uint64": "ull", "int64": "ll"}.get(
        value.dtype.name, ""
    )


def array_text(name: str, array: np.ndarray) -> str:
    """A definition of the array, row-major."""
    rows = array.reshape(-1)
    texts = [element_text(value) for value in rows] or ["0"]
    lines = ["  " + ", ".join(texts[i : i + 12]) + "," for i in range(0, len(texts), 12)]
    head = f"static const {C_TYPES[array.dtype.name]} {name}[{max(rows.size, 1)}] = {{"
    return "\n".join([head, *lines, "};", ""])


def main(path: str, *wanted: str) -> None:
    print("#include <math.h>\n#include <stdint.h>\n")
    with np.load(path) as archive:
        for text in wanted or archive.files:
            name, _, rows = text.partition(":")
            array = archive[name][slice(*map(int, rows.split("-")))] if rows else archive[name]
            print(f"#define {name.upper()}_COUNT {len(array)}")
            print(array_text(name, array))


if __name__ == "__main__":
    main(*sys.argv[1:])
