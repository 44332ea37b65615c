"""Functions of rows: what C computes for one element, for the elements of a row.

The kernel pack has them for each scalar function of its headers and for C's operators, so that a
loop over elements of a network needs no vectors of its own compiler (row_loops.py). Their names end
in a mask: one letter per operand, ``v`` for a row, ``u`` for a number that is the same for all
elements. The build of the pack imports this module, which needs the standard library alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

# C types of elements, by the names in functions.
TYPES = {"float": "f32", "double": "f64"}
TYPES |= {f"{s}int{bits}_t": f"{s or 'i'}{bits}" for bits in (8, 16, 32, 64) for s in ("", "u")}
# Types of C's arithmetic, of increasing rank.
ARITHMETIC = ("int32_t", "uint32_t", "int64_t", "uint64_t", "float", "double")
INTEGERS = ARITHMETIC[:4]
SIZES = (1, 2, 4, 8)  # bytes of elements
COMPARISONS = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}
BITWISE = {"%": "mod", "&": "and", "|": "or", "^": "xor", "<<": "shl", ">>": "shr"}
OPERATORS = {"+": "add", "-": "sub", "*": "mul", "/": "div", **BITWISE, **COMPARISONS}
FOLDS = {"+": "add", "|": "or"}


@dataclass(frozen=True)
class RowFunction:
    """A function of rows: its name without mask, the C types of its result and operands, and the C
    expression of one element, with ``{0}``, ``{1}`` for the operands."""

    name: str
    result: str
    operands: tuple[str, ...]
    expression: str

    @property
    def masks(self) -> list[str]:
        """The masks that the pack has."""
        count = len(self.operands)
        if count <= 2:
            return [mask for mask in map("".join, product("vu", repeat=count)) if "v" in mask]
        later = product("vu", repeat=2) if count == 3 else ("v" * (count - 1), "u" * (count - 1))
        return [f"v{''.join(mask)}" for mask in later]

    def full_name(self, mask: str) -> str:
        return f"tvmrt_row_{self.name}_{mask}"

    def prototype(self, mask: str) -> str:
        """Return the declaration; the result may be in the place of an operand."""
        operands = "".join(
            f", const {kind} *x{i}" if each == "v" else f", {kind} x{i}"
            for i, (kind, each) in enumerate(zip(self.operands, mask))
        )
        return f"void {self.full_name(mask)}(int n, {self.result} *y{operands})"

    def definition(self, mask: str) -> str:
        """Return the C of the function after its storage."""
        elements = [f"x{i}[i]" if each == "v" else f"x{i}" for i, each in enumerate(mask)]
        return (
            f'{self.prototype(mask)} {{\n  _Pragma("omp simd")\n'
            f"  for (int i = 0; i < n; i++) y[i] = {self.expression.format(*elements)};\n}}\n"
        )


def scalar_function(name: str, result: str, operands: Sequence[str]) -> RowFunction:
    """Return the rows' form of a C function."""
    call = ", ".join(f"{{{i}}}" for i in range(len(operands)))
    return RowFunction(name.removeprefix("tvmrt_"), result, tuple(operands), f"{name}({call})")


def operator(sign: str, kind: str) -> RowFunction:
    """Return the rows' form of a binary operator for operands of one type of arithmetic."""
    result = "int32_t" if sign in COMPARISONS else kind
    name = f"op_{OPERATORS[sign]}_{TYPES[kind]}"
    return RowFunction(name, result, (kind, kind), f"{{0}} {sign} {{1}}")


def negation(kind: str) -> RowFunction:
    return RowFunction(f"op_neg_{TYPES[kind]}", kind, (kind,), "-{0}")


def complement(kind: str) -> RowFunction:
    return RowFunction(f"op_not_{TYPES[kind]}", kind, (kind,), "~{0}")


def selection(kind: str) -> RowFunction:
    """Return the rows' form of C's conditional operator."""
    return RowFunction(f"op_select_{TYPES[kind]}", kind, ("int32_t", kind, kind), "{0} ? {1} : {2}")


def conversion(kind: str, result: str) -> RowFunction:
    return RowFunction(f"{TYPES[kind]}_to_{TYPES[result]}", result, (kind,), f"({result}){{0}}")


def fill(kind: str) -> str:
    """Return the declaration of a row of one number."""
    return f"void tvmrt_row_fill_{TYPES[kind]}(int n, {kind} *y, {kind} x)"


def copy(size: int) -> str:
    """Return the declaration of a copy of elements of ``size`` bytes, with steps in elements."""
    return (
        f"void tvmrt_row_copy_{size}(int n, void *y, int64_t y_step, const void *x, int64_t x_step)"
    )


def fold(sign: str, kind: str) -> str:
    """Return the declaration of a sum of a start and a row; its order is not defined."""
    return (
        f"{kind} tvmrt_row_fold_{FOLDS[sign]}_{TYPES[kind]}(int n, {kind} start, const {kind} *x)"
    )


COUNT = "void tvmrt_row_count(int n, int32_t *y, int32_t start)"


def operators() -> Iterator[RowFunction]:
    """Yield C's operators."""
    for kind in ARITHMETIC:
        for sign in OPERATORS:
            if kind in INTEGERS or sign not in BITWISE:
                yield operator(sign, kind)
        yield from (negation(kind), selection(kind))
    yield from map(complement, INTEGERS)
    yield from (conversion(kind, result) for kind in TYPES for result in TYPES if kind != result)


def definitions(functions: Sequence[RowFunction], storage: str) -> Iterator[str]:
    """Yield the C of all functions of rows: those of operators and ``functions``."""
    for function in (*operators(), *functions):
        yield from (f"{storage} {function.definition(mask)}" for mask in function.masks)
    for kind in TYPES:
        yield f"{storage} {fill(kind)} {{\n  for (int i = 0; i < n; i++) y[i] = x;\n}}\n"
    for kind in ARITHMETIC:
        for sign in FOLDS if kind in INTEGERS else "+":
            yield (
                f"{storage} {fold(sign, kind)} {{\n"
                f'  _Pragma("omp simd reduction({sign} : start)")\n'
                f"  for (int i = 0; i < n; i++) start = start {sign} x[i];\n  return start;\n}}\n"
            )
    yield f"{storage} {COUNT} {{\n  for (int i = 0; i < n; i++) y[i] = start + i;\n}}\n"
    for size in SIZES:
        kind = f"uint{8 * size}_t"
        yield (
            f"{storage} {copy(size)} {{\n  const {kind} *from = x;\n  {kind} *to = y;\n"
            "  if (y_step == 1 && x_step == 1) {\n"
            f"    memmove(to, from, (size_t)n * {size});\n"
            "  } else if (y_step == 1) {\n"
            "    for (int i = 0; i < n; i++) to[i] = from[i * x_step];\n"
            "  } else {\n"
            "    for (int i = 0; i < n; i++) to[i * y_step] = from[i * x_step];\n  }\n}\n"
        )
