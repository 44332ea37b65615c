"""What the files of a firmware network call its tensors, their sizes and the header."""

from __future__ import annotations

from dataclasses import dataclass

from tvmrt.ir.graph import TensorType
from tvmrt.ir.program import Program

from . import firmware_pools, firmware_seal
from .naming import member


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
    return [Tensor(member(n), n, t) for n, t in zip(program.input_names, program.input_types)]


def output_tensors(program: Program) -> list[Tensor]:
    """A single output is ``output``, several are ``output0``, ``output1`` ..."""
    names = program.output_names
    numbered = [f"output{i}" for i in range(len(names))] if len(names) > 1 else ["output"]
    return [Tensor(m, n, t) for m, n, t in zip(numbered, names, program.output_types)]


def own_include(prefix: str) -> list[str]:
    """Lines by which the network's own files include the header."""
    return firmware_seal.own_include(prefix, header_name(prefix))


def size_macro(prefix: str, name: str) -> str:
    """The macro of a tensor's size."""
    return f"{prefix.upper()}_{name.upper()}_SIZE"


def check_names(prefix: str, inputs, outputs, pools) -> None:
    """Raise ValueError where two of a header's macros would have one name."""
    taken = {size_macro(prefix, "WORKSPACE"): "the size of the workspace"}
    for pool in pools:
        taken[firmware_pools.pool_macro(prefix, pool)] = f"the pool {pool.name}"
    for what, tensors in (("input", inputs), ("output", outputs)):
        for tensor in tensors:
            macro = size_macro(prefix, tensor.member)
            mine = f"{what} {tensor.origin}"
            if macro in taken:
                raise ValueError(
                    f"{taken[macro]} and {mine} both become {macro} in C; "
                    "rename one of them in the network"
                )
            taken[macro] = mine
