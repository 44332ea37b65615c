"""Initialisers of the structs that kernels take, as C text."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tvmrt.compiler.ir import DTYPES, DType
from tvmrt.compiler.ir.sizes import Extent, SymInt, as_extent, symbols_of, upper_bound

from .formatting import LINE, initializer, members, wrap
from .writer import FunctionWriter, literal

_STATIC = "static const"


def triple(values: Sequence[SymInt], missing: int) -> tuple[SymInt, SymInt, SymInt]:
    """Return (depth, height, width) from 1 to 3 spatial values, filling with ``missing``."""
    return (*[missing] * (3 - len(values)), *map(as_extent, values))


def float_literal(value: float) -> str:
    """Return a float32 literal."""
    return literal(np.float32(value), DTYPES["float32"])


# Names of the type codes of dlpack.h; its codes of the eight-bit floats have none.
_DTYPE_CODES = {0: "kDLInt", 1: "kDLUInt", 2: "kDLFloat", 4: "kDLBfloat"}


def dtype_initializer(dtype: DType) -> str:
    """Return the ``DLDataType`` initialiser of one element."""
    code = _DTYPE_CODES.get(dtype.code, dtype.code)
    return initializer({"code": code, "bits": dtype.bits, "lanes": 1})


def print_struct(
    f: FunctionWriter, head: str, fields: Mapping[str, object] | Iterable[str]
) -> None:
    """Print an automatic variable with its initialiser, one member per line; ``head`` ends with its
    name. It names every member: compilers call memset() for missing ones."""
    f.line(f"{head} = {_struct_initializer(fields)};")


def print_static_struct(
    f: FunctionWriter, kind: str, name: str, fields: Mapping[str, object] | Iterable[str]
) -> str:
    """Print a constant struct of static storage, without members that are zero; return its lvalue
    in C (see :func:`print_static`)."""
    if isinstance(fields, Mapping):
        fields = without_zeros(fields)
    return print_static(f, kind, name, _struct_initializer(fields))


def _struct_initializer(fields: Mapping[str, object] | Iterable[str]) -> str:
    lines = members(fields) if isinstance(fields, Mapping) else fields
    return "\n".join(["{", *(f"    {member}," for member in lines), "}"])


def print_static(
    f: FunctionWriter,
    kind: str,
    name: str,
    value: str,
    dims: str = "",
    storage: str = _STATIC,
    separator: str = " ",
) -> str:
    """Print a constant; ``value`` is its initialiser, ``dims`` are those of an array in brackets.
    Return its lvalue in C: the name, or in networks that compare their constants the first of two
    copies at file scope. This function and :func:`share_layer` print all constants that operators
    define."""
    if storage != _STATIC or not f.common.paired_constants:
        f.line(f"{storage} {kind} {name}{dims} ={separator}{value};")
        return name
    return f"{_define_pair(f, kind, value, f.static_symbol(f'_{name}'), dims)}[0]"


def print_array(
    f: FunctionWriter, kind: str, name: str, values: Sequence[object], storage: str = _STATIC
) -> str:
    """Print a constant array, wrapped; return its lvalue in C (see :func:`print_static`)."""
    head = f"{storage} {kind} {name}[] = "
    value = "\n".join(wrap(head, values, ";", brackets="{}"))[len(head) : -1]
    dims = f"[{len(values)}]" if f.common.paired_constants else "[]"
    return print_static(f, kind, name, value, dims, storage)


def _define_pair(f: FunctionWriter, kind: str, value: str, symbol: str, dims: str = "") -> str:
    """Define two copies of a constant at file scope; return the array of both in C."""
    pair = LayerStruct(kind, (value,), symbol, f"[2]{dims}")
    f.include("scalar/pairs.h")
    f.define(pair)
    return pair.placeholder


def print_tensors(f: FunctionWriter, kind: str, fields: Mapping[str, object]) -> None:
    """Print ``data``, the struct of a call's tensors, in as few lines as possible."""
    head = f"const {kind} data = "
    f.line("\n".join(wrap(head, members(fields), ";", columns=LINE - 4, brackets="{}")))


# Members that are printed also if they are 0, because a reader looks for them.
_ALWAYS_PRINTED = frozenset("batch hi kind lo source stride x_signed x_zero zero".split())


def without_zeros(fields: Mapping[str, object]) -> dict[str, object]:
    """Return the members of a static struct that are not zero, and those of ``_ALWAYS_PRINTED``."""
    members = {
        name: without_zeros(value) if isinstance(value, Mapping) else value
        for name, value in fields.items()
        if not _is_zero(value) or name in _ALWAYS_PRINTED
    }
    return members or dict([*fields.items()][:1])


def _is_zero(value: object) -> bool:
    if isinstance(value, Mapping):
        return all(map(_is_zero, value.values()))
    return isinstance(value, (int, str)) and str(value) in ("0", "NULL", "{{0, 0}}")


# Comments in front of a file's first layer of a kind.
_HOST_NOTE = """\
/* Layers. Triples are {depth, height, width}, strides are in elements. `rows` is how the rows below
 * a window are read, in place or through scratch; `at_` are byte offsets in a task's scratch. */"""
_BOARD_NOTE = """\
/* Layers. Pairs are {height, width}, strides are in elements, scratch is in bytes."""
_NOTES = {
    "tvmrt_layer_f32": _HOST_NOTE,
    "tvmrt_conv_i8": _HOST_NOTE,
    "tvmrt_micro_conv_f32": f"{_BOARD_NOTE} */",
    "tvmrt_micro_conv_i8": f"""\
{_BOARD_NOTE} A sum of
 * products becomes a byte of `range` by the multiplier of its channel: the bits of a float scale,
 * or a negative integer, about -2 ^ 36 times the scale. */""",
}


def _explain(f: FunctionWriter, kind: str) -> None:
    if kind in _NOTES:
        f.define(_NOTES[kind])


# From this many constant members on, copying a static struct is less code than writing each member.
MIN_COPIED_MEMBERS = 12

# TVMRT_PARALLEL_MIN_MACS for the widest vectors: minimum float multiply-adds for two threads. A
# kernel that never exceeds it is inlined, together with the values of its struct.
PARALLEL_WORK = 2000 * 4 * 16


def print_layer(
    f: FunctionWriter,
    kind: str,
    fields: Mapping[str, object],
    name: str = "layer",
    work: SymInt | None = None,
) -> str:
    """Print the struct of a step's extents, with this C type and variable name; return its lvalue
    in C.

    A struct without symbolic dimensions is static. Otherwise the constant members lie in a static
    struct, and the symbolic dimensions are written to a copy of it. If the kernel is inlined
    because ``work`` is always small, the struct needs no memory.
    """
    _explain(f, kind)
    symbolic = dict(_symbolic_members(fields))
    work = fields.get("work") if work is None else work
    inlined = f.threads and isinstance(work, (int, Extent)) and upper_bound(work) < PARALLEL_WORK
    if not symbolic:
        return print_static_struct(f, kind, name, fields)
    if inlined or _count_members(fields) - len(symbolic) < MIN_COPIED_MEMBERS:
        print_struct(f, f"const {kind} {name}", fields)
    else:
        fixed = f.fresh(f"fixed_{name}")
        constant = without_zeros(_constant_members(fields))
        f.line(f"static const {kind} {fixed} = {_struct_initializer(constant)};")
        f.include("parallel.h")
        f.line(f"{kind} {name};")
        f.line(f"tvmrt_copy_struct(&{name}, &{fixed}, sizeof({name}));")
        for path, value in symbolic.items():
            f.line(f"{name}.{path} = {value};")
    return name


@dataclass(frozen=True)
class LayerStruct:
    """Layer struct at file scope that equal layers share. Functions refer to it by ``placeholder``;
    :func:`name_layers` puts the symbol of the file's first such layer there.

    ``dims``: ``[2]`` for two copies, and dimensions of an array; ``lines`` is then one initialiser.
    The copies lie in one array, because linkers may merge equal objects.
    """

    kind: str
    lines: tuple[str, ...]
    symbol: str = field(compare=False)
    dims: str = ""

    @property
    def placeholder(self) -> str:
        """Name that depends on the content alone, so that equal functions have equal texts."""
        content = "\n".join((self.kind + self.dims, *self.lines))
        return f"tvmrt_layer_{hashlib.sha256(content.encode()).hexdigest()[:16]}"

    def __str__(self) -> str:
        head = f"static const {self.kind} {self.placeholder}{self.dims} ="
        if is_pair(self):
            return f"{head} TVMRT_TWICE({self.lines[0]});"
        return "\n".join([f"{head} {{", *self.lines, "};"])


def is_pair(definition: object) -> bool:
    """Return whether a definition of a function is a constant with its copy."""
    return isinstance(definition, LayerStruct) and bool(definition.dims)


def name_layers(text: str, definitions: Iterable[object]) -> str:
    """Return a file's text with the symbols of its layer structs instead of the placeholders."""
    structs = {d.placeholder: d.symbol for d in definitions if isinstance(d, LayerStruct)}
    if not structs:
        return text
    return re.sub(r"\btvmrt_layer_[0-9a-f]{16}\b", lambda match: structs[match[0]], text)


def share_layer(
    f: FunctionWriter, kind: str, fields: Mapping[str, object], is_dynamic: bool, layer: str
) -> str:
    """Return the C address of the struct (see :func:`print_layer`) of the layer with this name.
    Equal structs are defined once at file scope, so the functions are equal, too, and compiled
    once. ``is_dynamic``: members depend on a symbolic dimension; the struct is local."""
    if is_dynamic:
        print_struct(f, f"const {kind} layer", fields)
        return "&layer"
    _explain(f, kind)
    fields, symbol = without_zeros(fields), f.common.symbols.layer(layer)
    if f.common.paired_constants:
        return f"&{_define_pair(f, kind, _struct_initializer(fields), symbol)}[0]"
    struct = LayerStruct(kind, tuple(f"    {member}," for member in members(fields)), symbol)
    f.define(struct)
    return f"&{struct.placeholder}"


def _symbolic_members(fields: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """Yield (path, value) of members that depend on a symbolic dimension. Those are extents;
    strings among the members name C constants."""
    for name, value in fields.items():
        if isinstance(value, Mapping):
            yield from ((f"{name}.{path}", each) for path, each in _symbolic_members(value))
        elif isinstance(value, tuple):
            yield from ((f"{name}[{i}]", v) for i, v in enumerate(value) if symbols_of(v))
        elif symbols_of(value):
            yield name, value


def _count_members(value: object) -> int:
    """Count the members of a struct, including nested structs and arrays."""
    if isinstance(value, Mapping):
        return sum(map(_count_members, value.values()))
    return len(value) if isinstance(value, tuple) else 1


def _constant_members(fields: Mapping[str, object]) -> dict[str, object]:
    """Return the constant members; symbolic elements of arrays become 0."""
    constant: dict[str, object] = {}
    for name, value in fields.items():
        if isinstance(value, Mapping):
            constant[name] = _constant_members(value)
        elif isinstance(value, tuple):
            constant[name] = tuple(0 if symbols_of(v) else v for v in value)
        elif not symbols_of(value):
            constant[name] = value
    return constant


def print_tiles(f: FunctionWriter, tiles, name: str = "tiles") -> str:
    """Print a float32 kernel's register tiles and the functions that they name; return the lvalue
    of the tiles in C."""
    f.include(*tiles.headers)
    f.target_fields.update(tiles.target_fields)
    for line in tiles.definitions():
        f.define(line)
    return print_static(f, tiles.c_type, name, tiles.initializer())


def range_initializer(attrs: dict) -> str:
    """Return the ``tvmrt_i8_range`` initialiser of a node with a quantised result."""
    return (
        f"{{.zero = {attrs['y_zero']}, .lo = {attrs['low']}, .hi = {attrs['high']}, "
        f".is_signed = {int(attrs['to'] == 'int8')}}}"
    )
