"""Composed operators in C: a graph builder for the function pointers of ``tvmrt_graph``."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import cffi
import numpy as np
import onnx

from tvmrt.compiler.ir import DTYPES, Value

from .c_structs import scalars_of, text
from .composed import Composed
from .graph_builder import GraphBuilder
from .operator import Operator
from .scalars import bind_scalars, check_scalar_names, parse_scalars

MAX_CONSTANT_BYTES = (1 << 31) - 1


class ComposedInC(Composed):
    """Composed operator declared by a ``tvmrt_op_composed``."""

    def __init__(self, ffi: cffi.FFI, library: Any, struct: Any) -> None:
        self._ffi, self._library, self._declaration = (
            ffi,
            library,
            struct,
        )  # the library stays loaded
        self.siblings: list[Operator] = []
        name, domain = text(ffi, struct.name), text(ffi, struct.domain)
        if struct.struct_bytes != ffi.sizeof("tvmrt_op_composed"):
            raise ValueError(f"operator {name}: struct_bytes is not sizeof(tvmrt_op_composed)")
        if struct.compose == ffi.NULL:
            raise ValueError(f"operator {name}: compose is missing")
        Operator.__init__(
            self, name, domain, struct.version, text(ffi, struct.doc), bool(struct.overrides)
        )
        words = text(ffi, struct.inputs).split()
        self.inputs = [word.rstrip("?") for word in words]
        self.optional = [word.rstrip("?") for word in words if word.endswith("?")]
        self._check_inputs()
        declared = scalars_of(ffi, struct.attributes, struct.num_attributes)
        self.scalars = parse_scalars(declared)
        check_scalar_names(self.scalars, self.inputs)
        self.defaults = {scalar.name: scalar.default for scalar in self.scalars}
        self.function = self._compose

    def _check_inputs(self) -> None:
        names = set(self.inputs)
        if len(names) != len(self.inputs) or not all(map(str.isidentifier, names)):
            raise ValueError(
                f"operator {self.name}: inputs are {' '.join(self.inputs)}; name each by an "
                "identifier of its own"
            )
        first = len(self.inputs) - len(self.optional)
        if self.inputs[first:] != self.optional:
            raise ValueError(
                f"operator {self.name}: an optional input cannot precede a required one"
            )

    def _values(self, attrs: Mapping[str, Any]) -> dict[str, Any]:
        bound = bind_scalars(self.scalars, attrs)
        return {scalar.name: value for scalar, value in zip(self.scalars, bound)}

    def _compose(self, g: GraphBuilder, /, *inputs: Value | None, **values: Any) -> list[Value]:
        session = _Session(self._ffi, g, self.siblings)
        input_ids = self._ffi.new("tvmrt_value[]", [session.enter(v) for v in inputs] or [-1])
        scalar_values = self._ffi.new("double[]", [float(v) for v in values.values()] or [0.0])
        output_ids = self._ffi.new("tvmrt_value[]", [-1] * max(self._declaration.num_outputs, 1))
        message = self._declaration.compose(session.pointer, input_ids, scalar_values, output_ids)
        if session.problem is not None:
            raise session.problem
        if message != self._ffi.NULL:
            raise ValueError(self._ffi.string(message).decode("utf-8", "replace"))
        return [session.value(output_ids[i]) for i in range(self._declaration.num_outputs)]


class _Session:
    """One call of ``compose``: its values by number, and the first exception."""

    def __init__(self, ffi: cffi.FFI, g: GraphBuilder, siblings: list[Operator]) -> None:
        self._ffi, self._g = ffi, g
        self._siblings = {operator.name: operator for operator in siblings}
        self._values: list[Value] = []
        self.problem: Exception | None = None
        self._memory: list[Any] = []
        pointer = ffi.new("tvmrt_graph *")
        for field, method in (
            ("add", self._add),
            ("constant", self._constant),
            ("type", self._type),
        ):
            signature = ffi.typeof(getattr(pointer, field))
            callback = ffi.callback(signature, self._guard(method), error=-1)
            self._memory.append(callback)
            setattr(pointer, field, callback)
        self.pointer = pointer

    def _guard(self, method: Any) -> Any:
        """Return a wrapper that stores exceptions: none may propagate through C."""

        def call(_graph: Any, *args: Any) -> int:
            if self.problem is not None:
                return -1
            try:
                return method(*args)
            except Exception as problem:
                self.problem = problem
                return -1

        return call

    def enter(self, value: Value | None) -> int:
        """Add a value and return its number; -1 for None."""
        if value is None:
            return -1
        self._values.append(value)
        return len(self._values) - 1

    def value(self, number: int) -> Value:
        """Return the value of a number. Raise ValueError if there is none."""
        if not 0 <= number < len(self._values):
            raise ValueError(f"{number} is not a value of the graph")
        return self._values[number]

    def _add(self, op, inputs, num_inputs, attrs, num_attrs, outputs, num_outputs) -> int:
        name = self._name(op, "add: op")
        operator = self._siblings.get(name, name)
        operands = [None if inputs[i] < 0 else self.value(inputs[i]) for i in range(num_inputs)]
        keywords = dict(self._attribute(name, attrs[i]) for i in range(num_attrs))
        results = self._g.add(operator, *operands, outputs=num_outputs, **keywords)
        values = results if isinstance(results, list) else [results]
        if len(values) < num_outputs:
            raise ValueError(f"{name}: {num_outputs} outputs requested, it has {len(values)}")
        for i in range(num_outputs):
            outputs[i] = self.enter(values[i])
        return 0

    def _attribute(self, op: str, row: Any) -> tuple[str, Any]:
        key = self._name(row.key, f"{op}: the key of an attribute")
        if row.text != self._ffi.NULL:
            return key, self._ffi.string(row.text).decode("utf-8", "replace")
        pointer = row.ints if row.ints != self._ffi.NULL else row.floats
        if pointer == self._ffi.NULL:
            raise ValueError(f"{op}: attribute {key} has neither ints, floats nor text")
        elements = [pointer[i] for i in range(row.count)]
        return key, elements if _is_list(op, key) or row.count != 1 else elements[0]

    def _name(self, pointer: Any, what: str) -> str:
        if pointer == self._ffi.NULL:
            raise ValueError(f"{what} is NULL; give its name")
        return self._ffi.string(pointer).decode("utf-8", "replace")

    def _constant(self, dtype, data, shape, ndim) -> int:
        name = self._name(dtype, "constant: dtype")
        if name not in DTYPES:
            raise ValueError(f"constant: unknown element type {name}")
        extents = [shape[i] for i in range(ndim)]
        if any(n < 0 for n in extents):
            raise ValueError(f"constant: shape {extents} has a negative extent")
        kind = DTYPES[name].numpy
        size = prod(extents) * kind.itemsize
        if size > MAX_CONSTANT_BYTES or (data == self._ffi.NULL and size > 0):
            what = "NULL" if data == self._ffi.NULL else "too large"
            raise ValueError(f"constant: data of shape {extents} is {what}")
        content = bytes(self._ffi.buffer(data, size)) if size else b""
        array = np.frombuffer(content, kind).reshape(extents)
        return self.enter(self._g.constant(array))

    def _type(self, number, out) -> int:
        value = self.value(number)
        shape = self._ffi.new("int64_t[]", list(value.shape) or [1])
        dtype = self._ffi.new("char[]", value.dtype.name.encode())
        self._memory += [shape, dtype]
        out.ndim, out.shape, out.dtype = value.type.rank, shape, dtype
        return 0


def _is_list(op: str, key: str) -> bool:
    """Return whether ONNX defines the attribute as a list, even with one element."""
    try:
        rule = onnx.defs.get_schema(op).attributes[key]
    except (onnx.defs.SchemaError, KeyError):
        return False
    return rule.type in (onnx.defs.OpSchema.AttrType.INTS, onnx.defs.OpSchema.AttrType.FLOATS)
