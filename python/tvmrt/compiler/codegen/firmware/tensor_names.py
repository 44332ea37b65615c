"""Names of tensors, their size macros and the header in the files of a firmware network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvmrt.compiler.ir.program import Program
from tvmrt.compiler.ir.tensor_type import PerTensor, TensorType

from ..c.naming import make_unique, member
from . import link_guard


@dataclass(frozen=True)
class Tensor:
    """Input or output in C: its struct member and the name of its size macro."""

    member: str
    origin: str  # name in the network
    type: TensorType
    quantization: PerTensor | None = None


def header_name(prefix: str) -> str:
    """Return the header's file name, which is always lower case."""
    return f"{prefix.lower()}.h"


def input_tensors(program: Program) -> list[Tensor]:
    """Return the inputs; a number distinguishes their macros from those of outputs and pools."""
    used_names = {"workspace", "graph_arena", *(t.member for t in output_tensors(program))}
    used_names |= {f"{pool.name}_workspace_pool".lower() for pool in program.pools}
    quantization = program.input_quantization
    return [
        Tensor(make_unique(member(name), used_names), name, type, quantization.get(name))
        for name, type in zip(program.input_names, program.input_types)
    ]


def output_tensors(program: Program) -> list[Tensor]:
    """Return the outputs: a single one is ``output``, several are ``output0``, ``output1`` ..."""
    names = program.output_names
    numbered = [f"output{i}" for i in range(len(names))] if len(names) > 1 else ["output"]
    quantization = program.output_quantization
    rows = zip(numbered, names, program.output_types)
    return [Tensor(member, name, type, quantization.get(name)) for member, name, type in rows]


def own_include(prefix: str) -> list[str]:
    """Return lines that include the header in the network's own files."""
    return link_guard.own_include(prefix, header_name(prefix))


def own_includes(prefix: str, *headers: str, more: Sequence[str] = ()) -> list[str]:
    """Return the include lines of a file: ``headers`` of the runtime and the network's header;
    ``more``: further ones of the C library."""
    library = [f"#include <{name}.h>" for name in ("stddef", "stdint", *more)]
    runtime = [f"#include <tvm/runtime/{name}.h>" for name in headers]
    return [*library, "", *([*runtime, ""] if runtime else []), *own_include(prefix)]


def tensor_macro(prefix: str, name: str, what: str = "SIZE") -> str:
    """Return the macro of a tensor's size, or of another property ``what``."""
    return f"{prefix.upper()}_{name.upper()}_{what}"
