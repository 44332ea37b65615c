"""Assignment of a network's functions to C files.

A file contains a copy of each kernel that its functions use, and compiling the kernels takes longer
than compiling the functions. Functions with a common kernel therefore lie in one file.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tvmrt.compiler.ir.custom import kernel_record

from .c.writer import Function
from .operators.custom_files import header_name

FUNCTIONS_PER_FILE = 24  # several files compile in parallel
LAYERS_PER_FILE = 96  # with common kernels; the kernels compile as long as about 50 layers


def split_functions(functions: Sequence[Function], hosted: bool) -> list[list[Function]]:
    """Split functions into files. Each custom operator has its own file. Firmware has one other
    file, so that the image contains each kernel once."""
    own: dict[str, list[Function]] = {}
    others = []
    for function in functions:
        record = kernel_record(function.step.group.root)
        if record is not None:
            own.setdefault(header_name(record), []).append(function)
        else:
            others.append(function)
    files = _pack(_share_kernels(others)) if hosted else [others] if others else []
    return [*files, *own.values()]


def _share_kernels(functions: Sequence[Function]) -> list[list[Function]]:
    """Group functions that use a common kernel, directly or through other functions. Groups and
    their functions are in order of first appearance; functions without kernels follow."""
    groups: list[tuple[set[object], list[int]]] = []
    plain = []
    for index, function in enumerate(functions):
        kernels = _kernels(function)
        if not kernels:
            plain.append([function])
            continue
        joined = [group for group in groups if kernels & group[0]]
        members = sorted([index, *(i for group in joined for i in group[1])])
        groups = [group for group in groups if group not in joined]
        groups.append((kernels.union(*(group[0] for group in joined)), members))
    groups.sort(key=lambda group: group[1][0])
    return [*([functions[i] for i in members] for _, members in groups), *plain]


def _kernels(function: Function) -> set[object]:
    """Return the kernels of a function. The helpers in scalar/ compile in no time."""
    headers = {header for header in function.includes if not header.startswith("scalar/")}
    return {*headers, *function.definitions}


def _pack(groups: Iterable[list[Function]]) -> list[list[Function]]:
    """Split large groups evenly into files, and put small ones together."""
    files: list[list[Function]] = []
    shared: list[Function] = []
    for group in groups:
        if len(group) <= FUNCTIONS_PER_FILE:
            if shared and len(shared) + len(group) > FUNCTIONS_PER_FILE:
                files.append(shared)
                shared = []
            shared = [*shared, *group]
            continue
        count = -(-len(group) // LAYERS_PER_FILE)
        bounds = [len(group) * i // count for i in range(count + 1)]
        files += [group[begin:end] for begin, end in zip(bounds, bounds[1:])]
    return [*files, *([shared] if shared else [])]
