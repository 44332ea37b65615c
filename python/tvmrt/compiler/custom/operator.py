"""Base of custom operators: identity, and errors that name the operator."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from tvmrt.compiler.ir import Builder, Value
from tvmrt.compiler.ir.sizes.undecided import deciding_by
from tvmrt.compiler.operator_key import domain_of
from tvmrt.error import UnsupportedError

from .scalars import Scalar


class UnsupportedNode(Exception):
    """Raised by a declaration's functions if the operator does not support a node.

    A node that an overriding operator declines is compiled as the built-in operator.
    """


class Operator:
    """Base of kernels and composed operators; see :class:`tvmrt.custom.Kernel` and
    :func:`tvmrt.custom.composed`.

    ``name`` is qualified, ``domain::Name``, and unique in a graph. ``version`` is the first
    version of the domain in which the operator has this meaning, as in ONNX.
    """

    UnsupportedNode = UnsupportedNode
    scalars: tuple[Scalar, ...] = ()  # of kernels

    def __init__(self, name: str, domain: str, version: int, doc: str, overrides: bool) -> None:
        if not name.isidentifier():
            raise ValueError(f"operator name {name!r} is not an identifier; choose another")
        if version < 1:
            raise ValueError(f"operator {name}: version {version} is below 1")
        if overrides == bool(domain_of(domain)):
            raise ValueError(
                f"operator {name}: an operator of ONNX's own domain replaces a built-in one and "
                "needs overrides=True; give any other a domain of its own"
            )
        self.op_type = name
        self.domain = domain_of(domain)
        self.name = f"{self.domain or 'ai.onnx'}::{name}"
        self.version = version
        self.doc = inspect.cleandoc(doc)
        self.overrides = overrides

    def create(self, **attributes: Any) -> Instance:
        """Return an instance whose inputs and outputs are bound later."""
        return Instance(self, attributes)

    def add(
        self, builder: Builder, inputs: Sequence[Value | None], attrs: Mapping[str, Any], name: str
    ) -> list[Value]:
        """Add a node to the builder's graph and return its outputs."""
        raise NotImplementedError(type(self).__name__)

    def call(self, field: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Call a function of the declaration. Its exceptions become a ValueError that names the
        field, or an UnsupportedError if it needs the value of a dynamic extent."""
        try:
            with deciding_by(None):
                return function(*args, **kwargs)
        except UnsupportedNode:
            raise
        except UnsupportedError as problem:
            raise UnsupportedError(f"{field}: the function of {self.name}: {problem}") from problem
        except Exception as problem:
            why = str(problem) or "no message"
            raise ValueError(
                f"{field}: the function of {self.name} raised {type(problem).__name__}: {why}"
            ) from problem

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"operator {self.name} cannot be pickled, because its declaration has functions; "
            "export the compiled network to a file, which needs no declaration"
        )

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"<operator {self.name}, version {self.version}>"


class Instance:
    """Use of an operator, connected when its inputs and outputs are bound, in any order.

    Until then nothing is added to the graph. The inner operators of a composed operator are
    connected at that moment, with the types of the bound inputs.
    """

    def __init__(self, operator: Operator, attributes: Mapping[str, Any]) -> None:
        self.operator = operator
        self.attributes = dict(attributes)
        self.inputs: tuple[Any, ...] | None = None
        self.names: tuple[str, ...] | None = None
        self.outputs: list[Value] | None = None
        self._graph: Any = None

    def bind_inputs(self, graph: Any, *inputs: Any) -> Instance:
        """Connect to values of a :class:`tvmrt.custom.GraphBuilder`."""
        if not hasattr(graph, "add"):
            raise ValueError(
                f"{self.operator.name}: the first argument is {graph!r}; pass a GraphBuilder "
                "before the inputs"
            )
        if self.inputs is not None:
            raise ValueError(f"{self.operator.name}: the inputs are bound already; clone() it")
        self._graph, self.inputs = graph, inputs
        return self._connect()

    def bind_outputs(self, *names: str) -> Instance:
        """Name the outputs."""
        if self.names is not None:
            raise ValueError(f"{self.operator.name}: the outputs are bound already; clone() it")
        self.names = names
        return self._connect()

    def clone(self) -> Instance:
        """Return an unbound instance with the same attributes, for another graph."""
        return Instance(self.operator, self.attributes)

    def _connect(self) -> Instance:
        if self._graph is None or self.inputs is None or self.names is None:
            return self
        outputs = self._graph.add(
            self.operator, *self.inputs, outputs=len(self.names), **self.attributes
        )
        self.outputs = outputs if isinstance(outputs, list) else [outputs]
        for name, value in zip(self.names, self.outputs):
            value.name = name
        return self
