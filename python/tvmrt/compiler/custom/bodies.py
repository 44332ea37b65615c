"""Bodies of kernels: their source texts, and functions that describe one node."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Union

import numpy as np

from tvmrt.compiler.ir import TensorType
from tvmrt.compiler.ir.sizes import Extent, Symbol, SymInt, as_extent, lower_bound, symbols_of

from .operator import Operator

NUMBER = (int, np.integer)
EXTENT = (*NUMBER, Extent)

# If a macro joins names, or a header other than C's own or tvmrt's is included, a function may
# exist although its name is not in the text.
_ELSEWHERE = re.compile(
    r"##|#\s*include(?!\s*<tvm/|\s*<(?:assert|complex|errno|fenv|float|inttypes|limits|math|std\w+|"
    r"string|tgmath)\.h>)"
)

Choice = Union[str, Mapping[Any, str]]


@dataclass(frozen=True)
class Call:
    """Node as passed to the functions of a declaration.

    ``operands`` has a type for every declared input, None if it is left out, then for every
    output. ``layout``: layout of the first operand, None for row-major.
    """

    operator: Operator
    operands: Sequence[TensorType | None]
    scalars: Mapping[str, Any]
    layout: str | None = None

    def evaluate(self, field: str, function: Callable[..., Any]) -> Any:
        """Return the function's result; its exceptions become a ValueError that names the field."""
        return self.operator.call(field, function, *self.operands, **self.scalars)

    def symbols(self) -> set[Symbol]:
        """Return the dimensions that the operands' extents depend on."""
        return symbols_of(*(type.shape for type in self.operands if type is not None))

    @property
    def dtype(self) -> str:
        """Element type of the first operand, which selects functions."""
        return next(type.dtype.name for type in self.operands if type is not None)


def missing_function(field: str, choice: Choice, call: Call) -> str | None:
    """Return that a table has no function for a type and layout; None if it has one."""
    if not isinstance(choice, Mapping) or {call.dtype, (call.dtype, call.layout)} & set(choice):
        return None
    kind = f"{call.dtype} in layout {call.layout}" if call.layout else call.dtype
    return f"{field}: {call.operator.name} declares no function for {kind}"


@dataclass(frozen=True)
class C:
    """C99 body, compiled into the network's library or archive.

    Parameters
    ----------
    source
        Text of static functions with their includes, types and helpers.
    function
        Name of the function to call; or names by the element type of the first input,
        ``{"float32": "swish_f32"}``, or by that and its layout, ``{("float32", "NHWC"): ...}``.
    scratch
        Function of the operands' types and the scalars that returns a number of bytes. The C
        function gets that much memory, aligned to 64, as its last argument ``void *scratch``; with
        dynamic dimensions, the maximum. None: no such argument.

    The function returns 0, or -1 after TVMAPISetLastError(). It is called with a pointer to the
    elements and a ``const tvmrt_shape *`` for each input and output in order, then the scalars:
    ``int32_t swish_f32(const float *x, const tvmrt_shape *x_shape, float *y, const tvmrt_shape
    *y_shape, float beta)``. Shapes are logical (``N, C, H, W`` in every layout). They are constants
    for the C compiler, except for dynamic dimensions, which have the run's values. Pointers never
    overlap. bool is passed as uint8_t, half precision as uint16_t.
    """

    source: str
    function: Choice
    scratch: Callable[..., int] | None = None

    def function_for(self, call: Call) -> str:
        """Return the name of the function for a node. Raise ValueError if the source lacks it."""
        return _function_name("c.function", self.function, self.source, call)

    def scratch_bytes(self, call: Call) -> SymInt:
        """Return the bytes of scratch memory of a node."""
        if self.scratch is None:
            return 0
        size = call.evaluate("c.scratch", self.scratch)
        if not isinstance(size, EXTENT) or lower_bound(as_extent(size)) < 0:
            raise ValueError(f"c.scratch: {size!r} is not a number of bytes")
        return as_extent(size)


@dataclass(frozen=True)
class OpenCL:
    """OpenCL C body.

    Parameters
    ----------
    source
        Text of the program.
    function
        Name of the ``__kernel``, selected as for :class:`C`.
    global_size, local_size
        Functions of the operands' types and the scalars that return one to three sizes. Without
        ``local_size`` the driver chooses.
    build_options
        Text, or a function of types and scalars that returns it, with sizes as ``-DN=8``.

    The kernel takes a ``__global`` pointer for each present input and each output, then the
    scalars; operands are dense and row-major. A parameter may be an image instead: ``__read_only``
    for an input, ``__write_only`` for an output. In an ``image2d_array_t`` the last two extents are
    height and width, all others are layers. In an ``image2d_t`` the last extent is the width, all
    others are the height. Each element is one channel (``CL_R``) of the element's type.
    """

    source: str
    function: Choice
    global_size: Callable[..., Sequence[int]]
    local_size: Callable[..., Sequence[int]] | None = None
    build_options: str | Callable[..., str] = ""

    def attributes(self, call: Call) -> dict[str, Any]:
        """Return the attributes of a node for a device, except for the outputs' types.

        Raises ValueError naming the field: an invalid size, a local size that does not divide the
        global one, a function that is not in the source.
        """
        total = _sizes("opencl.global_size", self.global_size, call)
        local = (
            [] if self.local_size is None else _sizes("opencl.local_size", self.local_size, call)
        )
        _check_sizes(total, local)
        options = self.build_options
        if callable(options):
            options = call.evaluate("opencl.build_options", options)
        return {
            "operator": call.operator.name,
            "source": self.source,
            "function": self.function_for(call),
            "build_options": str(options),
            "global_size": total,
            "local_size": local,
            "scalar_types": " ".join(s.type.name for s in call.operator.scalars),
            "scalars": [float(value) for value in call.scalars.values()],
            **self._images(self.function_for(call)),
        }

    def _images(self, function: str) -> dict[str, str]:
        """Return a word for each parameter, if any parameter is an image."""
        match = re.search(rf"\b{re.escape(function)}\s*\(([^)]*)\)", self.source)
        parameters = match.group(1).split(",") if match else []
        words = [
            "array" if "image2d_array_t" in p else "2d" if "image2d_t" in p else "-"
            for p in parameters
        ]
        return {"images": " ".join(words)} if set(words) - {"-"} else {}

    def function_for(self, call: Call) -> str:
        """Return the name of the kernel for a node. Raise ValueError if the source lacks it."""
        return _function_name("opencl.function", self.function, self.source, call)


def _function_name(field: str, choice: Choice, source: str, call: Call) -> str:
    """Return the name of the function for a node by a body's ``function``.

    Raises ValueError if the source does not have it and cannot get it from a header or a macro.
    """
    name = choice
    if isinstance(choice, Mapping):
        key = (call.dtype, call.layout)
        name = choice[key if key in choice else call.dtype]  # see missing_function()
    if not isinstance(name, str) or not name.isidentifier():
        raise ValueError(f"{field}: {name!r} is not a function name")
    if not _ELSEWHERE.search(source) and not re.search(rf"\b{re.escape(name)}\b", source):
        raise ValueError(f"{field}: the source of {call.operator.name} has no {name}")
    return name


def _sizes(field: str, function: Callable[..., Any], call: Call) -> list[int]:
    result = call.evaluate(field, function)
    sizes = [result] if isinstance(result, NUMBER) else result
    if field == "opencl.local_size" and isinstance(sizes, (tuple, list)) and not sizes:
        return []
    if not isinstance(sizes, (tuple, list)) or not 1 <= len(sizes) <= 3:
        raise ValueError(f"{field}: {result!r} is not a list of one to three sizes")
    if not all(isinstance(n, NUMBER) and n >= 1 for n in sizes):
        raise ValueError(f"{field}: sizes must be positive whole numbers, not {list(sizes)}")
    return [int(n) for n in sizes]


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
                f"{group}; round it up and skip the surplus in the kernel"
            )
