"""Operators with kernels: one declaration, and up to three bodies that compute the same."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Union

import numpy as np

from tvmrt.ir import DTYPES, Builder, TensorType, Value
from tvmrt.ir.custom import enter_operator

from .halves import narrowed, widened
from .operand import ANY_LAYOUT, Tensor, bind_types, check_operands
from .operator import Operator
from .scalars import Scalar, bind_scalars, parse_scalars

_kernels = count(1)

Choice = Union[str, Mapping[Any, str], Callable[..., str]]


@dataclass(frozen=True)
class C:
    """A body in C99, compiled into the network's library or archive.

    Parameters
    ----------
    source
        Text of static functions, and what they need: includes, types, helpers.
    function
        Which function to call: its name; names by the element type of the first input,
        ``{"float32": "swish_f32"}``, or by that and its layout, ``{("float32", "NHWC"): ...}``; or
        a function of the operands' types and the scalars that returns it.
    scratch
        Function of the operands' types and the scalars: bytes of memory, aligned to 64, that the
        function gets as its last argument ``void *scratch``. None: no such argument.

    The function returns 0, or -1 after TVMAPISetLastError(). It is called with a pointer to the
    elements and a ``const tvmrt_shape *`` for each input and output in order, then the scalars:
    ``int32_t swish_f32(const float *x, const tvmrt_shape *x_shape, float *y, const tvmrt_shape
    *y_shape, float beta)``. Shapes are logical (``N, C, H, W`` in every layout) and constants to
    the C compiler. Pointers never overlap. Half precision is passed as uint16_t.
    """

    source: str
    function: Choice
    scratch: Callable[..., int] | None = None


@dataclass(frozen=True)
class OpenCL:
    """A body in OpenCL C.

    Parameters
    ----------
    source
        The program's text.
    function
        Which ``__kernel`` to run, chosen as for :class:`C`.
    global_size, local_size
        Functions of the operands' types and the scalars: one to three sizes. ``local_size`` None:
        the driver chooses.
    build_options
        Text, or a function like these that returns it; sizes reach the program as ``-DN=8``.

    The kernel takes a ``__global`` pointer for each input that is there and each output, then the
    scalars; operands are dense and row-major.
    """

    source: str
    function: Choice
    global_size: Callable[..., Sequence[int]]
    local_size: Callable[..., Sequence[int]] | None = None
    build_options: str | Callable[..., str] = ""


class Kernel(Operator):
    """Declares an operator by its kernels.

    Parameters
    ----------
    name, domain, version
        The ONNX node that means it: its type, its domain, the first version of the domain.
    inputs, outputs
        One :class:`Tensor` each; optional inputs last.
    types
        Element types that operands may have, by the names that their declarations use; ``{"T":
        ("float32", "bfloat16")}``.
    scalars
        Scalar parameters in the order in which kernels take them: a type of int, uint, float, bool
        and half, or a pair of type and default.
    shape
        Function of the inputs' types (``.shape``, ``.dtype``; None for one left out) and the
        scalars as keywords; returns the shape of the only output, or a list of shapes. None: every
        output has the shape of the first input.
    reference
        The body in Python: arrays and scalars to an array or a tuple of arrays. It says what is
        right: ``tvmrt verify`` compares the others with it.
    c, opencl
        The bodies for the CPU and for OpenCL devices.
    attributes
        Function of an ONNX node's attributes (a dictionary) and its inputs' types that returns the
        scalars by name; raises :class:`Declined` for nodes that are none of its business. None:
        attributes and scalars have the same names.
    sample
        Function of a numpy Generator that returns a list of input arrays and a dictionary of
        scalars, for ``tvmrt verify``. None: random ones.
    overrides
        Whether it takes the place of ONNX's own operator ``name`` in the graphs it is given to.
    doc
        What it computes, for people.

    Raises ValueError for a declaration that contradicts itself.
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
        sample: Callable[..., Any] | None = None,
        overrides: bool = False,
        doc: str = "",
    ) -> None:
        super().__init__(name, domain, version, doc, overrides)
        try:
            self.types = {key: tuple(allowed) for key, allowed in (types or {}).items()}
            check_operands(inputs, outputs, self.types)
            self.scalars: tuple[Scalar, ...] = parse_scalars(scalars or {})
        except ValueError as problem:
            raise ValueError(f"operator {self.name}: {problem}") from None
        if reference is None and c is None and opencl is None:
            raise ValueError(f"operator {self.name} has no body; give reference, c or opencl")
        self.inputs, self.outputs = tuple(inputs), tuple(outputs)
        self.shape, self.reference, self.c, self.opencl = shape, reference, c, opencl
        self.attributes, self.sample = attributes, sample
        self.kernel_id = -1 * next(_kernels)

    # Nodes.

    def add(
        self, builder: Builder, inputs: Sequence[Value | None], attrs: Mapping[str, Any], name: str
    ) -> list[Value]:
        if self.attributes is not None:
            types = self._padded([None if v is None else v.type for v in inputs])
            attrs = self.call("attributes", self.attributes, dict(attrs), types)
        return self.place(builder, inputs, attrs, name)

    def place(
        self,
        builder: Builder,
        inputs: Sequence[Value | None],
        values: Mapping[str, Any],
        name: str,
    ) -> list[Value]:
        """Add a node with these values of the scalars and return its outputs."""
        inputs = narrowed(self, builder, inputs)
        types = [None if v is None else v.type for v in inputs]
        scalars = bind_scalars(self.scalars, values)
        bind_types(self.inputs, self.types, types)
        enter_operator(builder.graph, self)
        made = builder.emit_many("custom", inputs, name, operator=self, scalars=scalars)
        self._check_bodies(types, [v.type for v in made], scalars)
        return widened(builder, made)

    def _check_bodies(self, inputs, outputs, scalars) -> None:
        """Raise ValueError where a body contradicts itself for these operands, whoever runs it."""
        operands = self.operands(inputs, outputs)
        self.scratch_bytes(operands, scalars)
        if self.opencl_refusal(inputs, outputs) is None:
            self.opencl_attributes(inputs, outputs, scalars)

    def result_types(
        self, types: Sequence[TensorType | None], scalars: Sequence[Any]
    ) -> list[TensorType]:
        """Types of the outputs. Raises ValueError naming the field that is wrong."""
        bound = bind_types(self.inputs, self.types, types)
        shapes = self._shapes(self._padded(types), self.keywords(scalars))
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
                f"output {output.name}: no input decides which of {', '.join(allowed)} it has"
            )
        return allowed[0]

    def _shapes(self, types: Sequence[TensorType | None], scalars: dict[str, Any]):
        if self.shape is None:
            return [types[0].shape] * len(self.outputs)
        given = self.call("shape", self.shape, *types, **scalars)
        single = isinstance(given, (tuple, list)) and all(isinstance(n, _NUMBER) for n in given)
        shapes = [given] if single else given
        if not isinstance(shapes, (tuple, list)) or not all(map(_is_shape, shapes)):
            raise ValueError(f"shape: {given!r} is no shape and no list of shapes; return extents")
        if len(shapes) != len(self.outputs):
            raise ValueError(
                f"shape: the function gives {len(shapes)} shapes, "
                f"the operator has {len(self.outputs)} outputs"
            )
        return [tuple(int(n) for n in shape) for shape in shapes]

    def _padded(self, items: Sequence[Any]) -> list[Any]:
        return [*items, *[None] * (len(self.inputs) - len(items))]

    def keywords(self, scalars: Sequence[Any]) -> dict[str, Any]:
        """Scalars by name."""
        return {s.name: value for s, value in zip(self.scalars, scalars)}

    # Bodies.

    def evaluate(
        self, arrays: Sequence[np.ndarray | None], scalars: Sequence[Any]
    ) -> list[np.ndarray] | None:
        """What the Python body makes of arrays; None if there is none.

        Raises ValueError when it raises, or gives other types than the declaration says.
        """
        if self.reference is None:
            return None
        types = [None if a is None else TensorType(a.shape, DTYPES[a.dtype.name]) for a in arrays]
        expected = self.result_types(types, scalars)
        given = self.call(
            "reference", self.reference, *self._padded(arrays), **self.keywords(scalars)
        )
        results = [np.asarray(a) for a in (given if isinstance(given, (tuple, list)) else [given])]
        if len(results) != len(expected):
            raise ValueError(
                f"reference: {len(results)} results, the operator has {len(expected)} outputs"
            )
        for output, type, array in zip(self.outputs, expected, results):
            if array.shape != type.shape:
                raise ValueError(
                    f"shape: the function says {list(type.shape)} for output {output.name}, "
                    f"the reference makes {list(array.shape)}; correct the one that is wrong"
                )
        return [a.astype(t.dtype.numpy) for a, t in zip(results, expected)]

    def evaluate_node(
        self, arrays: Sequence[np.ndarray], attrs: Mapping[str, Any]
    ) -> list[np.ndarray] | None:
        """The same for the attributes of an ONNX node."""
        if self.attributes is not None:
            types = [TensorType(a.shape, DTYPES[a.dtype.name]) for a in arrays]
            attrs = self.call("attributes", self.attributes, dict(attrs), self._padded(types))
        return self.evaluate(arrays, bind_scalars(self.scalars, attrs))

    def choose(
        self, field: str, choice: Choice, operands: Sequence[TensorType | None],
        scalars: Sequence[Any], layout: str | None,
    ) -> str:  # fmt: skip
        """The name of the function for these operands, as the body's ``function`` says."""
        if isinstance(choice, str):
            return choice
        if callable(choice):
            return str(self.call(field, choice, *operands, **self.keywords(scalars)))
        missing = _missing_function(choice, operands, layout)
        if missing is not None:
            raise ValueError(f"{field}: {self.name} declares no function for {missing}")
        dtype = _decisive_type(operands)
        return choice[(dtype, layout) if (dtype, layout) in choice else dtype]

    def operands(
        self, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType]
    ) -> list[TensorType | None]:
        """What the declaration's functions are called with: a type for every operand."""
        return [*self._padded(inputs), *outputs]

    def scratch_bytes(self, operands: Sequence[TensorType | None], scalars: Sequence[Any]) -> int:
        """Bytes that the C body asks for."""
        if self.c is None or self.c.scratch is None:
            return 0
        size = self.call("c.scratch", self.c.scratch, *operands, **self.keywords(scalars))
        if not isinstance(size, _NUMBER) or size < 0:
            raise ValueError(f"c.scratch: {size!r} is no number of bytes")
        return int(size)

    def c_refusal(
        self,
        inputs: Sequence[TensorType | None],
        outputs: Sequence[TensorType],
        layout: str | None,
    ) -> str | None:
        """None if there is a C body for these operands, else the reason."""
        if self.c is None:
            return (
                f"c: {self.name} has no C body for the CPU; declare one, or compile for a device "
                "that takes the operator"
            )
        missing = _missing_function(self.c.function, self.operands(inputs, outputs), layout)
        return missing and f"c.function: {self.name} declares no function for {missing}"

    def opencl_refusal(
        self, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType]
    ) -> str | None:
        """None if there is an OpenCL body for these operands, else the reason."""
        if self.opencl is None:
            return f"opencl: {self.name} has no OpenCL body; declare one"
        missing = _missing_function(self.opencl.function, self.operands(inputs, outputs), None)
        return missing and f"opencl.function: {self.name} declares no function for {missing}"

    def opencl_attributes(
        self,
        inputs: Sequence[TensorType | None],
        outputs: Sequence[TensorType],
        scalars: Sequence[Any],
    ) -> dict[str, Any]:
        """Attributes of the IR's operator ``custom_opencl``. Raises ValueError naming the field:
        no OpenCL body, a size that is no size, a local size that does not divide the global one."""
        body = self.opencl
        if body is None:
            raise ValueError(f"opencl: {self.name} has no OpenCL body; declare one")
        operands = self.operands(inputs, outputs)
        function = self.choose("opencl.function", body.function, operands, scalars, None)
        if not re.search(rf"\b{re.escape(function)}\s*\(", body.source):
            raise ValueError(f"opencl.function: the source of {self.name} has no {function}")
        sizes = [
            self._sizes(f"opencl.{field}", getattr(body, field), operands, scalars)
            for field in ("global_size", "local_size")
        ]
        _check_sizes(*sizes)
        options = body.build_options
        if callable(options):
            options = self.call(
                "opencl.build_options", options, *operands, **self.keywords(scalars)
            )
        return {
            "operator": self.name,
            "source": body.source,
            "function": function,
            "build_options": str(options),
            "global_size": sizes[0],
            "local_size": sizes[1],
            "scalar_types": " ".join(s.type.name for s in self.scalars),
            "scalars": [float(value) for value in scalars],
        }

    def _sizes(self, field: str, function, operands, scalars) -> list[int]:
        if function is None:
            return []
        given = self.call(field, function, *operands, **self.keywords(scalars))
        sizes = [given] if isinstance(given, _NUMBER) else given
        if not isinstance(sizes, (tuple, list)) or not 1 <= len(sizes) <= 3:
            raise ValueError(f"{field}: {given!r} is no list of one to three sizes")
        if not all(isinstance(n, _NUMBER) and n >= 1 for n in sizes):
            raise ValueError(f"{field}: sizes are whole numbers from 1, not {list(sizes)}")
        return [int(n) for n in sizes]

    @property
    def any_layout(self) -> tuple[int, ...]:
        """Positions of the operands, inputs first, that may have any order in memory."""
        both = (*self.inputs, *self.outputs)
        return tuple(i for i, operand in enumerate(both) if operand.layouts == ANY_LAYOUT)


_NUMBER = (int, np.integer)


def _decisive_type(operands: Sequence[TensorType | None]) -> str:
    """The element type by which functions are chosen: the first operand's."""
    return next(type.dtype.name for type in operands if type is not None)


def _missing_function(
    choice: Choice, operands: Sequence[TensorType | None], layout: str | None
) -> str | None:
    """For which type and layout a table of functions has none; None if it has one."""
    dtype = _decisive_type(operands)
    if not isinstance(choice, Mapping) or dtype in choice or (dtype, layout) in choice:
        return None
    return f"{dtype} in layout {layout}" if layout else dtype


def _is_shape(shape: Any) -> bool:
    return isinstance(shape, (tuple, list)) and all(
        isinstance(n, _NUMBER) and not isinstance(n, bool) and n >= 0 for n in shape
    )


def _check_sizes(total: list[int], local: list[int]) -> None:
    if not local:
        return
    if len(local) != len(total):
        raise ValueError(
            f"opencl.local_size: {len(local)} sizes, opencl.global_size has {len(total)}"
        )
    for axis, (n, group) in enumerate(zip(total, local)):
        if n % group:
            raise ValueError(
                f"opencl.global_size: {n} in dimension {axis} is not divisible by the local size "
                f"{group}; round it up and let the kernel leave out what is too much"
            )
