"""What the files of a firmware network call its tensors, their sizes and the header."""

from __future__ import annotations

from dataclasses import dataclass

from tvmrt.compiler.ir.graph import TensorType
from tvmrt.compiler.ir.program import Program

from ..c.naming import member, told_apart
from . import seal


@dataclass(frozen=True)
class Tensor:
    """An input or output as C sees it: the struct's member and the macro of its size."""

    member: str
    origin: str  # the network's own name
    type: TensorType


def header_name(prefix: str) -> str:
    """The file's name; lower case, whatever the module is called."""
    return f"{prefix.lower()}.h"


def input_tensors(program: Program) -> list[Tensor]:
    """Each has a macro of its own, which is no output's nor a pool's: a number tells apart."""
    taken = {"workspace", "graph_arena", *(t.member for t in output_tensors(program))}
    taken |= {f"{pool.name}_workspace_pool".lower() for pool in program.pools}
    named = zip(program.input_names, program.input_types)
    return [Tensor(told_apart(member(name), taken), name, type) for name, type in named]


def output_tensors(program: Program) -> list[Tensor]:
    """A single output is ``output``, several are ``output0``, ``output1`` ..."""
    names = program.output_names
    numbered = [f"output{i}" for i in range(len(names))] if len(names) > 1 else ["output"]
    return [Tensor(m, n, t) for m, n, t in zip(numbered, names, program.output_types)]


def own_include(prefix: str) -> list[str]:
    """Lines by which the network's own files include the header."""
    return seal.own_include(prefix, header_name(prefix))


def own_includes(prefix: str) -> list[str]:
    """The same, after what files with checks of their own include."""
    return [
        "#include <stddef.h>",
        "#include <stdint.h>",
        "",
        "#include <tvm/runtime/crt/error_codes.h>",
        "",
        *own_include(prefix),
    ]


def size_macro(prefix: str, name: str) -> str:
    """The macro of a tensor's size."""
    return f"{prefix.upper()}_{name.upper()}_SIZE"
