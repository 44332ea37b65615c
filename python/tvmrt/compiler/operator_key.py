"""Identity of operators and functions: the only place that makes keys from nodes and functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import onnx


def domain_of(name: str) -> str:
    """Return a domain's name as schemas have it: ONNX's own has two, "" and "ai.onnx"."""
    return "" if name == "ai.onnx" else name


class FunctionKey(NamedTuple):
    """Identity of a function of a model; a node calls the function with its own key."""

    domain: str
    name: str
    overload: str = ""

    @classmethod
    def of(cls, function: onnx.FunctionProto) -> FunctionKey:
        """Return the key of a function."""
        return cls(domain_of(function.domain), function.name, function.overload)

    @classmethod
    def called_by(cls, node: onnx.NodeProto) -> FunctionKey:
        """Return the key of the function that a node calls, if there is one."""
        return cls(domain_of(node.domain), node.op_type, node.overload)


def functions_by_key(model: onnx.ModelProto) -> dict[FunctionKey, onnx.FunctionProto]:
    """Return the functions of a model. Raises ValueError if two have one key."""
    found: dict[FunctionKey, onnx.FunctionProto] = {}
    for function in model.functions:
        if found.setdefault(FunctionKey.of(function), function) is not function:
            overload = f", overload {function.overload}" if function.overload else ""
            raise ValueError(
                f"two functions are named {function.name} in domain {function.domain or 'ai.onnx'}"
                f"{overload}; give each a name or an overload of its own"
            )
    return found


def operator_name(node: onnx.NodeProto) -> str:
    """Return the name of a node's operator, with its domain unless that is ONNX's own."""
    domain = domain_of(node.domain)
    return f"{domain}::{node.op_type}" if domain else node.op_type
