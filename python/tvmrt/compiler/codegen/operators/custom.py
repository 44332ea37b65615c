"""Custom operators with C bodies: the generated function calls the body."""

from __future__ import annotations

import re
from collections.abc import Callable

from tvmrt.compiler.ir import DTYPES, TensorType, Value
from tvmrt.compiler.ir.custom import call_of
from tvmrt.compiler.ir.program import DENSE, Step
from tvmrt.compiler.ir.strided import parse_layout
from tvmrt.error import UnsupportedError

from ..c.formatting import call
from ..c.initializers import print_static
from ..c.naming import local_name
from ..c.writer import FunctionWriter, literal
from ..lowering import Lowering, ResultLayout, Scratch, lowers
from .custom_files import header_name

MAX_RANK = 8  # maximum rank of tvmrt_shape
# names that make a C body depend on the instruction set
_INSTRUCTIONS = re.compile(r"__(?:AVX|SSE|FMA|ARM|riscv)|intrin\.h|arm_neon")


@lowers("custom")
class CustomLowering(Lowering):
    """Call of a C body with dense operands in the layouts of the node's attribute."""

    in_memory = ()

    def __init__(self, group, target) -> None:
        super().__init__(group, target)
        self.operator = self.node.attrs["operator"]
        self.scalars = self.node.attrs["scalars"]

    def demand(self, value: Value):
        return self._order(self.node.inputs.index(value))

    def result_layout(self, index: int, accesses) -> ResultLayout:
        order = self._order(len(self.node.inputs) + index)
        return ResultLayout(None if order == DENSE else order, order)

    def scratch(self, step: Step) -> Scratch:
        return Scratch(self.operator.c.scratch_bytes(call_of(self.node)))

    def emit(self, step: Step, f: FunctionWriter) -> None:
        f.define(f'#include "{header_name(self.operator)}"')
        if _INSTRUCTIONS.search(self.operator.c.source):
            f.target_fields.add("flags")
        arguments = []
        inputs, outputs = self.operator.inputs, self.operator.outputs
        for i, operand in enumerate(inputs):
            value = self.node.inputs[i] if i < len(self.node.inputs) else None
            arguments += self._input(step, f, i, operand.name, value)
        for i, operand in enumerate(outputs):
            pointer = _rename_pointer(f.write(i), local_name(operand.name), f.name_write, i)
            arguments += [pointer, self._shape(f, operand.name, self.node.outputs[i].type)]
        for scalar, value in zip(self.operator.scalars, self.scalars):
            arguments.append(_literal(scalar.type.name, value))
        if self.operator.c.scratch is not None:
            arguments.append(f.scratch() if step.scratch is not None else "NULL")
        function = self.operator.c.function_for(call_of(self.node))
        f.result(call(function, *arguments))

    def _input(self, step: Step, f: FunctionWriter, i: int, name: str, value: Value | None):
        if value is None:
            return ["NULL", "NULL"]
        if value.is_constant:
            order = self._order(i)
            data = value.data if order == DENSE else value.data.transpose(order)
            pointer = f.constant(local_name(name), data)
        else:
            at = step.read_values.index(value)
            pointer = _rename_pointer(f.read(at), local_name(name), f.name_read, at)
        return [pointer, self._shape(f, name, value.type)]

    def _shape(self, f: FunctionWriter, name: str, type: TensorType) -> str:
        if type.rank > MAX_RANK:
            raise UnsupportedError(
                f"{', '.join(self.node.sources)} ({self.operator.name}: operand {name} has rank "
                f"{type.rank}; C bodies take at most {MAX_RANK})"
            )
        variable = f.fresh(f"{local_name(name)}_shape")
        extents = ", ".join(map(str, type.shape)) or "1"
        value = f"{{{type.rank}, {type.size}, {{{extents}}}}}"
        return f"&{print_static(f, 'tvmrt_shape', variable, value, storage=f.storage)}"

    def _order(self, position: int):
        """Return the demand on an operand's memory: DENSE, or an order of axes. Inputs are numbered
        before outputs."""
        layouts = self.node.attrs.get("layouts")
        order = parse_layout(layouts[position]).order if layouts and layouts[position] else ()
        return DENSE if order == tuple(range(len(order))) else order


def _rename_pointer(current: str, name: str, rename: Callable[[int, str], str], index: int) -> str:
    """Return the operand's pointer, renamed after its declaration."""
    return current if current == name else rename(index, name)


def _literal(kind: str, value) -> str:
    if kind == "bool":
        return str(int(value))
    names = {"int": "int32", "uint": "uint32", "float": "float32", "half": "float16"}
    text = literal(value, DTYPES[names[kind]])
    return f"{text}u" if kind == "uint" and not text.endswith("u") else text
