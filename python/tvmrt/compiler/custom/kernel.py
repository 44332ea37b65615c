"""Operators with kernels: one declaration, and up to three equivalent bodies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any

import numpy as np

from tvmrt.compiler.ir import DTYPES, Builder, TensorType, Value
from tvmrt.compiler.ir.custom import enter_operator
from tvmrt.compiler.ir.sizes import as_extent, lower_bound
from tvmrt.compiler.ir.sizes.undecided import describe_symbols
from tvmrt.option_syntax import option

from .bodies import EXTENT, C, Call, OpenCL, missing_function
from .operand import Tensor, bind_types, check_operands, convert_to_half, types_of, widen
from .operator import Operator
from .scalars import bind_scalars, parse_scalars

_kernels = count(1)


class Kernel(Operator):
    """Operator that is declared by its kernels.

    Parameters
    ----------
    name, domain, version
        Type, domain and first domain version of the ONNX node.
    inputs, outputs
        One :class:`Tensor` each; optional inputs last.
    types
        Allowed element types of operands, by the type names in their declarations; ``{"T":
        ("float32", "bfloat16")}``.
    scalars
        Scalar parameters in the order in which kernels take them: a type of int, uint, float, bool
        and half, or a pair of type and default.
    shape
        Function of the inputs' types (``.shape``, ``.dtype``; None for one left out) and the
        scalars as keywords; returns the shape of the only output, or a list of shapes. A dynamic
        extent supports integer arithmetic (``+ - * // %``); if the function needs its value, the
        network is refused. None: every output has the shape of the first input.
    reference
        Reference implementation in Python: from arrays and scalars to an array or a tuple of
        arrays. ``tvmrt verify`` compares a network's nodes with it.
    c, opencl
        Bodies for the CPU and for OpenCL devices.
    attributes
        Function of an ONNX node's attributes (a dictionary) and its inputs' types that returns the
        scalars by name; raises :class:`UnsupportedNode` for unsupported nodes. None: attributes and
        scalars have the same names.
    overrides
        Whether it replaces ONNX's own operator ``name`` in the graphs that it is used for.
    doc
        Description of the operator.

    Raises ValueError for an inconsistent declaration.
    """

    def __init__(
        self,
        name: str,
        domain: str = "",
        version: int = 1,
        *,
        inputs: Sequence[Tensor],
        outputs: Sequence[Tensor],
        types: Mapping[str, Sequence[str]] | None = None,
        scalars: Mapping[str, Any] | None = None,
        shape: Callable[..., Any] | None = None,
        reference: Callable[..., Any] | None = None,
        c: C | None = None,
        opencl: OpenCL | None = None,
        attributes: Callable[..., Mapping[str, Any]] | None = None,
        overrides: bool = False,
        doc: str = "",
    ) -> None:
        super().__init__(name, domain, version, doc, overrides)
        try:
            self.types = {key: tuple(allowed) for key, allowed in (types or {}).items()}
            check_operands(inputs, outputs, self.types)
            names = {o.name for o in (*inputs, *outputs)}
            self.scalars = parse_scalars(scalars or {}, names)
        except ValueError as problem:
            raise ValueError(f"operator {self.name}: {problem}") from None
        self._check_fields(
            c=(c, C), opencl=(opencl, OpenCL), shape=(shape, Callable),
            reference=(reference, Callable), attributes=(attributes, Callable),
        )  # fmt: skip
        if reference is None and c is None and opencl is None:
            raise ValueError(f"operator {self.name} has no body; give reference, c or opencl")
        if shape is None and (not inputs or inputs[0].optional):
            raise ValueError(
                f"operator {self.name}: without shape, outputs have the shape of the first "
                "input, but all inputs are optional; give shape"
            )
        self.inputs, self.outputs = tuple(inputs), tuple(outputs)
        self.shape, self.reference, self.c, self.opencl = shape, reference, c, opencl
        self.attributes = attributes
        self.kernel_id = -1 * next(_kernels)

    def _check_fields(self, **fields: tuple[Any, Any]) -> None:
        for field, (value, kind) in fields.items():
            if value is not None and not isinstance(value, kind):
                expected = "a function" if kind is Callable else f"tvmrt.custom.{kind.__name__}"
                raise ValueError(f"operator {self.name}: {field} is {value!r}; give {expected}")

    # Nodes.

    def add(
        self, builder: Builder, inputs: Sequence[Value | None], attrs: Mapping[str, Any], name: str
    ) -> list[Value]:
        attrs = self._scalars_of(attrs, [None if v is None else v.type for v in inputs])
        inputs = convert_to_half(builder, inputs, [each.type for each in self.inputs], self.types)
        types = [None if v is None else v.type for v in inputs]
        scalars = bind_scalars(self.scalars, attrs)
        bind_types(self.inputs, self.types, types)
        enter_operator(builder.graph, self)
        outputs = builder.emit_many("custom", inputs, name, operator=self, scalars=scalars)
        self._check_bodies(self.call_for(types, [v.type for v in outputs], scalars))
        return widen(builder, outputs)

    def _scalars_of(
        self, attrs: Mapping[str, Any], types: Sequence[TensorType | None]
    ) -> Mapping[str, Any]:
        """Return a node's scalars by name: its attributes, or what ``attributes`` makes of them."""
        if self.attributes is None:
            return attrs
        scalars = self.call("attributes", self.attributes, dict(attrs), self._fill_optional(types))
        if not isinstance(scalars, Mapping):
            raise ValueError(
                f"attributes: the function of {self.name} returns {scalars!r}; return a "
                "dictionary of scalars"
            )
        return scalars

    def _check_bodies(self, call: Call) -> None:
        """Raise ValueError if any body is inconsistent for these operands."""
        if self.c is not None:
            self.c.scratch_bytes(call)
            if self.c_refusal(call) is None:
                self.c.function_for(call)
        if self.opencl is not None and self.opencl_refusal(call) is None:
            self.opencl.attributes(call)

    def result_types(
        self, types: Sequence[TensorType | None], scalars: Sequence[Any]
    ) -> list[TensorType]:
        """Return the types of the outputs. Raise ValueError naming the invalid field."""
        bound = bind_types(self.inputs, self.types, types)
        shapes = self._shapes(self._fill_optional(types), self.keywords(scalars))
        return [
            TensorType(shape, DTYPES[self._element_type(output, bound)])
            for output, shape in zip(self.outputs, shapes)
        ]

    def _element_type(self, output: Tensor, bound: Mapping[str, str]) -> str:
        if output.type in bound:
            return bound[output.type]
        allowed = self.types.get(output.type, (output.type,))
        if len(allowed) != 1:
            raise ValueError(
                f"output {output.name}: no input determines its type among {', '.join(allowed)}"
            )
        return allowed[0]

    def _shapes(self, types: Sequence[TensorType | None], scalars: dict[str, Any]) -> Any:
        if self.shape is None:
            first = types[0]
            return [() if first is None else first.shape] * len(self.outputs)
        result = self.call("shape", self.shape, *types, **scalars)
        single = isinstance(result, (tuple, list)) and all(isinstance(n, EXTENT) for n in result)
        shapes = [result] if single else result
        if not isinstance(shapes, (tuple, list)) or not all(map(_is_shape, shapes)):
            raise ValueError(
                f"shape: {result!r} is neither a shape nor a list of shapes; return dimensions"
            )
        if len(shapes) != len(self.outputs):
            raise ValueError(
                f"shape: the function returns {len(shapes)} shapes, the operator has "
                f"{len(self.outputs)} outputs"
            )
        return [tuple(map(as_extent, shape)) for shape in shapes]

    def _fill_optional(self, items: Sequence[Any]) -> list[Any]:
        return [*items, *[None] * (len(self.inputs) - len(items))]

    def keywords(self, scalars: Sequence[Any]) -> dict[str, Any]:
        """Return scalars by name."""
        return {s.name: value for s, value in zip(self.scalars, scalars)}

    # Bodies.

    def evaluate(
        self, arrays: Sequence[np.ndarray | None], scalars: Sequence[Any]
    ) -> list[np.ndarray] | None:
        """Evaluate the Python body; return None if there is none.

        Raises ValueError when the body raises, or returns other types than declared.
        """
        if self.reference is None:
            return None
        types = types_of(arrays)
        expected = self.result_types(types, scalars)
        own = [None if a is None else a.copy() for a in arrays]  # the body may change them
        y = self.call(
            "reference", self.reference, *self._fill_optional(own), **self.keywords(scalars)
        )
        results = [np.asarray(a) for a in (y if isinstance(y, (tuple, list)) else [y])]
        if not all(a.dtype.name in DTYPES for a in results):
            names = ", ".join(a.dtype.name for a in results)
            raise ValueError(f"reference: the results are of numpy's type {names}; return numbers")
        shapes, declared = [a.shape for a in results], [t.shape for t in expected]
        if shapes != declared:
            raise ValueError(
                f"reference: the results have the shapes {shapes}, by the declaration they have "
                f"{declared}; correct one of them"
            )
        return [a.astype(t.dtype.numpy) for a, t in zip(results, expected)]

    def evaluate_node(
        self, arrays: Sequence[np.ndarray | None], attrs: Mapping[str, Any]
    ) -> list[np.ndarray] | None:
        """Evaluate the Python body for the attributes of an ONNX node."""
        scalars = self._scalars_of(attrs, types_of(arrays))
        return self.evaluate(arrays, bind_scalars(self.scalars, scalars))

    def call_for(
        self,
        inputs: Sequence[TensorType | None],
        outputs: Sequence[TensorType],
        scalars: Sequence[Any] = (),
        layout: str | None = None,
    ) -> Call:
        """Return a node as passed to the functions of the declaration."""
        operands = [*self._fill_optional(inputs), *outputs]
        return Call(self, operands, self.keywords(scalars), layout)

    def c_refusal(self, call: Call) -> str | None:
        """Return None if there is a C body for a node, else the reason."""
        if self.c is None:
            return (
                f"c: {self.name} has no C body for the CPU; declare one, or compile for a device "
                f"that takes the operator, without {option('device_fallback')}"
            )
        return missing_function("c.function", self.c.function, call)

    def opencl_refusal(self, call: Call) -> str | None:
        """Return None if there is an OpenCL body for a node, else the reason."""
        if self.opencl is None:
            return f"opencl: {self.name} has no OpenCL body; declare one"
        if call.symbols():
            chosen = describe_symbols(call.symbols())
            return f"opencl: {self.name} has dynamic dimensions here ({chosen})"
        if any(type is not None and type.size == 0 for type in call.operands):
            return f"opencl: {self.name} has an empty tensor here, which needs no device"
        return missing_function("opencl.function", self.opencl.function, call)


def _is_shape(shape: Any) -> bool:
    return isinstance(shape, (tuple, list)) and all(
        isinstance(n, EXTENT) and not isinstance(n, bool) and lower_bound(as_extent(n)) >= 0
        for n in shape
    )
