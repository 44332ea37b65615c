"""C code of string operators and n-gram counts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tvmrt.compiler.sdk.codegen import (
    FunctionWriter,
    Lowering,
    c_string,
    call,
    error_location,
    input_pointer,
    input_pointers,
    lowers,
    print_array,
    print_struct,
)
from tvmrt.compiler.sdk.program import Step
from tvmrt.plugins.onnx_text.operators.string_ir import STRINGS


class StringLowering(Lowering):
    """Base class: one kernel call over all elements."""

    def body(self, f: FunctionWriter, name: str, arguments: Sequence[object]) -> None:
        f.include(STRINGS)
        f.line(f"{call(f'tvmrt_text_{name}', *arguments)};")

    def print_checked_call(self, f: FunctionWriter, name: str, arguments: Sequence[object]) -> None:
        """Print a kernel call that may fail, with the location for its error text."""
        f.include(STRINGS)
        where = error_location(self.node, "strings")
        f.result(call(f"tvmrt_text_{name}", *arguments, where))

    @property
    def count(self):
        return self.node.output.type.size


def print_strings(f: FunctionWriter, name: str, texts: Sequence[str]) -> str:
    """Print a table of strings with at least one element; return its lvalue in C."""
    strings = [c_string(text) for text in texts] or ["NULL"]
    return print_array(f, "char *const", name, strings)


@lowers("text_equal")
class StringEqualLowering(StringLowering):
    def emit(self, step: Step, f: FunctionWriter) -> None:
        f.include(STRINGS)
        a, b = input_pointers(f, "a", "b")
        i = f.fresh("i")
        with f.loop(i, self.count):
            f.line(f"{f.write()}[{i}] = strcmp(tvmrt_text({a}[{i}]), tvmrt_text({b}[{i}])) == 0;")


@lowers("text_find")
class StringFindLowering(StringLowering):
    def emit(self, step: Step, f: FunctionWriter) -> None:
        keys = self.node.attrs["keys"]
        order = sorted(range(len(keys)), key=lambda i: keys[i].encode("utf-8", "replace"))
        table = print_strings(f, "keys", [keys[i] for i in order])
        places = f.constant("places", np.array(order or [0], np.int64))
        x = input_pointer(f, 0, "x")
        self.body(f, "find", [x, self.count, table, places, len(keys), f.write()])


def case_pairs(to: str) -> np.ndarray:
    """Return pairs of code points with their other case, if that is a single code point."""
    turn = str.upper if to == "upper" else str.lower
    points = (c for c in range(0x110000) if not 0xD800 <= c < 0xE000)
    pairs = [(c, turn(chr(c))) for c in points if turn(chr(c)) != chr(c)]
    return np.array([(c, ord(text)) for c, text in pairs if len(text) == 1], np.int32)


@lowers("text_case")
class StringCaseLowering(StringLowering):
    def emit(self, step: Step, f: FunctionWriter) -> None:
        heap, x = input_pointers(f, "heap", "x")
        pairs = case_pairs(self.node.attrs["to"])
        table = f.constant(self.node.attrs["to"], pairs)
        self.print_checked_call(f, "case", [heap, x, self.count, table, len(pairs), f.write()])


@lowers("number_to_text")
class NumberToStringLowering(StringLowering):
    def emit(self, step: Step, f: FunctionWriter) -> None:
        heap, x = input_pointers(f, "heap", "x")
        kind = self.node.inputs[1].dtype.name
        single = [int(self.node.attrs["single"])] if kind == "float64" else []
        self.print_checked_call(f, f"of_{kind}", [heap, x, self.count, *single, f.write()])


@lowers("count_ngrams")
class CountNgramsLowering(Lowering):
    """N-gram counts by one kernel call."""

    def emit(self, step: Step, f: FunctionWriter) -> None:
        f.include("op/ngrams.h")
        attrs, (rows, length) = self.node.attrs, self.node.inputs[0].shape
        x, grams, columns = input_pointers(f, "x", "grams", "columns")
        counts = f.constant("counts", np.array(attrs["lengths"] or [0], np.int32))
        fields = {
            "rows": rows,
            "length": length,
            "min_n": attrs["least"],
            "max_n": len(attrs["lengths"]),
            "skips": attrs["skips"],
            "width": attrs["width"],
            "counts": counts,
        }
        print_struct(f, "const tvmrt_ngrams of", fields)
        f.line(f"tvmrt_count_ngrams(&of, {x}, {grams}, {columns}, {f.write()});")
