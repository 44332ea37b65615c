"""Prototypes and heads of packed functions in generated C."""

from __future__ import annotations

from collections.abc import Sequence

from tvmrt.compiler.ir import PACKED_NAMES, PACKED_PARAMETERS

from .formatting import wrap

# Placed before a definition whose name several networks in one program may define.
WEAK = ["#if defined(__GNUC__) && !defined(_WIN32)", "__attribute__((weak))", "#endif"]


def packed_prototype(symbol: str, end: str = ";", result: str = "int32_t") -> list[str]:
    """Return the declaration of a packed function, or the head of its definition."""
    return wrap(f"{result} {symbol}", PACKED_PARAMETERS, end)


def exported_head(symbol: str, unused: Sequence[str], result: str = "int32_t") -> list[str]:
    """Return the declaration and head of an exported packed function with unused parameters."""
    return [
        *packed_prototype(symbol, result=f"TVM_DLL {result}"),
        *packed_prototype(symbol, " {", result),
        *(f"  (void){name};" for name in unused),
    ]


def shared_name(name: str, own: str) -> list[str]:
    """Return C lines of a weak packed function with a well-known name that calls the network's own
    function."""
    return [
        "/* The name that executors look up; weak because each of several networks in a program",
        " * defines it. */",
        *packed_prototype(name, result="TVM_DLL int32_t"),
        *WEAK,
        *packed_prototype(name, " {"),
        *wrap(f"return {own}", PACKED_NAMES, ";", 1),
        "}",
        "",
    ]


def exported_call_head(
    symbol: str, count: int, refusal: Sequence[str], result: str = "int32_t"
) -> list[str]:
    """Return the head of an exported function of ``count`` tensors that returns only a code."""
    unused = ["type_codes", "out_ret_value", "out_ret_tcode", "resource_handle"]
    if not count:
        unused.append("args")
    return [
        *exported_head(symbol, unused, result),
        f"  if (num_args != {count}) {{",
        *refusal,
        "  }",
    ]
