"""Kernels declared in C by ``tvmrt_op_kernel``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import cffi

from tvmrt.compiler.ir import TensorType
from tvmrt.compiler.ir.extent import lower_bound, symbols_of, upper_bound
from tvmrt.compiler.ir.undecided import describe_symbols
from tvmrt.error import UnsupportedError
from tvmrt.option_syntax import option

from .bodies import C, OpenCL
from .c_structs import rows, scalars_of, text
from .kernel import Kernel
from .operand import ANY_LAYOUT, Tensor

OPTIONS_BYTES = 1024  # size of the buffer for OpenCL build options


class Call:
    """Node in the form that C functions of a declaration take; owns the memory it points to."""

    def __init__(
        self, ffi: cffi.FFI, inputs: Sequence[Any], outputs: Sequence[Any] | None, scalars: Any
    ) -> None:
        self._memory: list[Any] = []
        values = ffi.new("double[]", [float(v) for v in scalars] or [0.0])
        input_types = self._types(ffi, inputs)
        output_types = ffi.NULL if outputs is None else self._types(ffi, outputs)
        self._memory += [values, input_types, output_types]
        count = 0 if outputs is None else len(outputs)
        fields = (input_types, len(inputs), output_types, count, values, len(scalars))
        self.pointer = ffi.new("tvmrt_op_call *", fields)

    def _types(self, ffi: cffi.FFI, types: Sequence[TensorType | None]) -> Any:
        rows = ffi.new("tvmrt_op_type[]", max(len(types), 1))
        for row, type in zip(rows, types):
            row.ndim = -1
            if type is not None:
                shape = ffi.new("int64_t[]", list(type.shape) or [1])
                dtype = ffi.new("char[]", type.dtype.name.encode())
                self._memory += [shape, dtype]
                row.ndim, row.shape, row.dtype = type.rank, shape, dtype
        return rows


class KernelInC(Kernel):
    """Kernel declared by a ``tvmrt_op_kernel``."""

    def __init__(self, ffi: cffi.FFI, library: Any, struct: Any) -> None:
        self._ffi, self._library, self._declaration = (
            ffi,
            library,
            struct,
        )  # the library stays loaded
        name = text(ffi, struct.name)
        if struct.struct_bytes != ffi.sizeof("tvmrt_op_kernel"):
            raise ValueError(f"operator {name}: struct_bytes is not sizeof(tvmrt_op_kernel)")
        self._count = struct.num_inputs
        super().__init__(
            name,
            text(ffi, struct.domain),
            struct.version,
            inputs=_operands(ffi, struct.inputs, struct.num_inputs, f"{name}: inputs"),
            outputs=_operands(ffi, struct.outputs, struct.num_outputs, f"{name}: outputs"),
            types=_types(text(ffi, struct.types)),
            scalars=scalars_of(ffi, struct.scalars, struct.num_scalars),
            shape=None if struct.shape == ffi.NULL else self._shape_in_c,
            c=self._c_body(),
            opencl=self._opencl_body(),
            overrides=bool(struct.overrides),
            doc=text(ffi, struct.doc),
        )

    def _c_body(self) -> C | None:
        struct, null = self._declaration, self._ffi.NULL
        if struct.c_source == null:
            return None
        scratch = (
            None
            if struct.c_scratch == null
            else self._wrap_bounds_function(struct.c_scratch, int, max)
        )
        source = text(self._ffi, struct.c_source)
        return C(source, self._names(struct.c_function, "c_function"), scratch)

    def _opencl_body(self) -> OpenCL | None:
        struct, null = self._declaration, self._ffi.NULL
        if struct.opencl_source == null:
            return None
        if struct.opencl_sizes == null:
            raise ValueError(f"operator {text(self._ffi, struct.name)}: opencl_sizes is missing")
        return OpenCL(
            text(self._ffi, struct.opencl_source),
            self._names(struct.opencl_function, "opencl_function"),
            global_size=lambda *types, **scalars: self._opencl_sizes(types, scalars)[0],
            local_size=lambda *types, **scalars: self._opencl_sizes(types, scalars)[1],
            build_options="" if struct.opencl_options == null else self._options,
        )

    def _names(self, function: Any, field: str) -> Callable[..., str]:
        if function == self._ffi.NULL:
            raise ValueError(
                f"operator {text(self._ffi, self._declaration.name)}: {field} is missing"
            )
        return self._wrap_bounds_function(
            function, lambda name: text(self._ffi, name), _require_equal
        )

    def _wrap_bounds_function(
        self,
        function: Any,
        convert: Callable[[Any], Any],
        combine: Callable[[Sequence[Any]], Any],
    ) -> Callable[..., Any]:
        """Wrap a C function that takes numbers: with dynamic extents it is called for the upper and
        the lower bounds, and ``combine`` combines both results."""

        def call_at_bounds(*types: TensorType | None, **scalars: Any) -> Any:
            ends = [upper_bound, lower_bound] if _symbols(types) else [upper_bound]
            calls = [self._call(_types_at(types, end), scalars) for end in ends]
            return combine([convert(function(call.pointer)) for call in calls])

        return call_at_bounds

    def _call(self, types: Sequence[TensorType | None], scalars: dict[str, Any]) -> Call:
        inputs, outputs = types[: self._count], types[self._count :]
        return Call(self._ffi, inputs, outputs or None, list(scalars.values()))

    def _shape_in_c(self, *types: TensorType | None, **scalars: Any) -> list[tuple[int, ...]]:
        if _symbols(types):
            raise UnsupportedError(
                "its C function takes numbers, not dynamic dimensions "
                f"({describe_symbols(_symbols(types))}); fix them with {option('shapes')}"
            )
        max_rank = len(self._ffi.new("tvmrt_op_shape *").dim)
        rows = self._ffi.new("tvmrt_op_shape[]", len(self.outputs))
        call = self._call(types, scalars)  # keeps the memory of its pointer alive
        problem = self._declaration.shape(call.pointer, rows)
        if problem != self._ffi.NULL:
            raise ValueError(text(self._ffi, problem))
        if any(not 0 <= row.ndim <= max_rank for row in rows):
            raise ValueError(f"the shape function must set ndim from 0 to {max_rank}")
        return [tuple(row.dim[i] for i in range(row.ndim)) for row in rows]

    def _opencl_sizes(
        self, types: Sequence[Any], scalars: dict[str, Any]
    ) -> tuple[list[int], list[int]]:
        total, local = self._ffi.new("int64_t[3]"), self._ffi.new("int64_t[3]")
        call = self._call(types, scalars)  # keeps the memory of its pointer alive
        count = self._declaration.opencl_sizes(call.pointer, total, local)
        if not 1 <= count <= 3:
            raise ValueError(f"opencl_sizes returned {count} dimensions; return 1 to 3")
        chosen = [local[i] for i in range(count)]
        return [total[i] for i in range(count)], chosen if any(chosen) else []

    def _options(self, *types: TensorType | None, **scalars: Any) -> str:
        buffer = self._ffi.new("char[]", OPTIONS_BYTES)
        call = self._call(types, scalars)  # keeps the memory of its pointer alive
        self._declaration.opencl_options(call.pointer, buffer, OPTIONS_BYTES)
        return text(self._ffi, buffer)


def _symbols(types: Sequence[TensorType | None]) -> set:
    return symbols_of(*(type.shape for type in types if type is not None))


def _types_at(
    types: Sequence[TensorType | None], end: Callable[[Any], int]
) -> list[TensorType | None]:
    """Return the types with every extent at its maximum or minimum."""
    return [t and TensorType(tuple(map(end, t.shape)), t.dtype) for t in types]


def _require_equal(results: Sequence[str]) -> str:
    if len(set(results)) > 1:
        raise UnsupportedError(
            f"it returns {results[0]} at the upper bounds and {results[-1]} at the lower bounds; "
            f"fix the dimensions with {option('shapes')}"
        )
    return results[0]


def _operands(ffi: cffi.FFI, pointer: Any, count: int, what: str) -> list[Tensor]:
    operands = []
    for row in rows(ffi, pointer, count, what):
        layouts = text(ffi, row.layouts)
        parsed = layouts if layouts == ANY_LAYOUT else tuple(layouts.split())
        optional = bool(row.optional)
        operands.append(Tensor(text(ffi, row.name), text(ffi, row.type), parsed, optional))
    return operands


def _types(declared: str) -> dict[str, tuple[str, ...]]:
    """Parse ``T=float32,bfloat16 I=int32``."""
    types: dict[str, tuple[str, ...]] = {}
    for word in declared.split():
        name, _, allowed = word.partition("=")
        if name in types:
            raise ValueError(f"types: {name} is declared twice; rename one")
        types[name] = tuple(allowed.split(","))
    return types
