"""Lowering of operators that declare the C function that computes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tvmrt.compiler.ir.contract.extent_formula import Formula
from tvmrt.compiler.ir.program import Step

from ..c.formatting import call
from ..c.inputs import input_pointer
from ..c.writer import FunctionWriter, c_string, error_location
from ..lowering import DECLARED_KERNELS, Lowering, lowers


@lowers(DECLARED_KERNELS)
class PlainKernelLowering(Lowering):
    """One call, with the arguments of the operator's ``kernel``."""

    def emit(self, step: Step, f: FunctionWriter) -> None:
        kernel, node = self.node.operator.kernel, self.node
        types = [None if v is None else v.type for v in node.inputs]
        bindings = node.operator.contract.bind(types, node.attrs)
        operands = zip(node.operator.contract.operands, node.inputs)
        names = {o.name: v.dtype.name for o, v in operands if v is not None} | node.attrs
        f.include(kernel.header)
        target, _, words = kernel.arguments.rpartition("= ")
        arguments = [self._argument(f, word, bindings, names) for word in words.split()]
        text = call(kernel.function.format(**names), *arguments)
        if "!" in words:
            f.result(text)
        else:
            f.line(
                f"{self._argument(f, target, bindings, names)} = {text};" if target else f"{text};"
            )

    def _argument(
        self, f: FunctionWriter, word: str, bindings: Mapping[str, Any], names: Mapping[str, Any]
    ) -> str:
        if word.startswith("!"):
            return error_location(self.node, word[1:].format(**names))
        if word.startswith("*"):
            return f"*{self._argument(f, word[1:], bindings, names)}"
        (name, _, is_size), node = word.partition("."), self.node
        contract = node.operator.contract
        operands, results = (
            [o.name for o in part] for part in (contract.operands, contract.results)
        )
        if name in results:
            index = results.index(name)
            return str(node.outputs[index].type.size) if is_size else f.write(index)
        if name in operands:
            index = operands.index(name)
            return str(node.inputs[index].type.size) if is_size else input_pointer(f, index, name)
        if name in contract.attributes:
            value = node.attrs[name]
            return c_string(value) if isinstance(value, str) else str(value)
        return str(Formula(word).values(bindings)[0])
