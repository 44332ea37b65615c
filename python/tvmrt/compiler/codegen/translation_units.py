"""Assignment of functions to C files. A file contains a copy of each kernel that its functions use,
and kernels compile longer than functions: those with a common kernel therefore lie in one file."""

from __future__ import annotations

from collections.abc import Sequence

from tvmrt.compiler.ir.custom import kernel_record

from .c.writer import Function
from .operators.custom_files import header_name

FUNCTIONS_PER_FILE = 24  # several files compile in parallel
LAYERS_PER_FILE = 96  # with common kernels, which compile as long as about 50 layers
# Each file includes the declarations of all functions. More functions make larger files, not more.
MAX_FILES = 32


def split_functions(functions: Sequence[Function], hosted: bool) -> list[list[Function]]:
    """Split functions into files. Each custom operator has its own file. Firmware has one other
    file, so that the image contains each kernel once."""
    own: dict[str, list[Function]] = {"": []}
    for function in functions:
        record = kernel_record(function.step.group.root)
        own.setdefault("" if record is None else header_name(record), []).append(function)
    others = own.pop("")
    files = _pack(_share_kernels(others)) if hosted else [others] if others else []
    return [*files, *own.values()]


def _share_kernels(functions: Sequence[Function]) -> list[list[Function]]:
    """Group functions that use a common kernel, directly or through other functions. Functions
    without kernels follow; the helpers in scalar/ compile in no time."""
    groups: list[tuple[set[object], list[Function]]] = []
    plain = []
    for function in functions:
        headers = {header for header in function.includes if not header.startswith("scalar/")}
        kernels, members = {*headers, *function.definitions}, [function]
        if not kernels:
            plain.append(members)
            continue
        joined = [group for group in groups if kernels & group[0]]
        groups = [group for group in groups if not kernels & group[0]]
        members = [f for group in joined for f in group[1]] + members
        groups.append((kernels.union(*(group[0] for group in joined)), members))
    return [*(members for _, members in groups), *plain]


def _pack(groups: Sequence[list[Function]]) -> list[list[Function]]:
    """Split large groups evenly into files, and put small ones together."""
    files: list[list[Function]] = []
    small: list[list[Function]] = []
    least = -(-sum(map(len, groups)) // MAX_FILES)
    per_file, layers_per_file = max(FUNCTIONS_PER_FILE, least), max(LAYERS_PER_FILE, least)
    for group in groups:
        size, count = len(group), -(-len(group) // layers_per_file)
        if size > per_file:
            files += [group[size * i // count : size * (i + 1) // count] for i in range(count)]
        elif small and len(small[-1]) + size <= per_file:
            small[-1] = [*small[-1], *group]
        else:
            small.append(group)
    return [*files, *small]
