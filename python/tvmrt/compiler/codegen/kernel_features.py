"""Kernel features of each build, so that lowerings use only code that the C compiler compiles.

A lowering checks ``NCHW_CONVOLUTIONS.of(target)``. The generated C of a build without a feature
defines the feature's macro (``print_macros``), and kernels compile the feature out if it is
defined. Both come from the table in this file, so that no condition is written twice. Struct
members of a feature do not exist in builds without it: code that sets them does not compile.

``include/tvm/runtime/kernels`` tests no other build macros. Everything else follows from macros of
the compiler, or is a kernel parameter that a lowering sets (``FunctionWriter.macro``):
``PARAMETERS``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .target import Target

_INTEGER_KERNELS = re.compile(r"board/\w+_i(8|16)\w*\.h")


@dataclass(frozen=True)
class Feature:
    """Feature of the kernels and the rule that decides which builds have it.

    ``macro_if_absent`` is the macro that generated C defines in builds without the feature. It is
    empty if no kernel compiles the feature out: the feature then only selects kernels. Struct
    ``members`` exist only in builds with the feature. If ``kernels`` is set, only files that
    include matching headers define the macro.
    """

    macro_if_absent: str
    description: str
    applies_to: Callable[[Target], bool]
    members: tuple[str, ...] = ()
    kernels: re.Pattern[str] | None = None

    def of(self, target: Target) -> bool:
        """Return whether builds for a target have the feature."""
        return self.applies_to(target)


def _for_hosts(target: Target) -> bool:
    """Return whether code may be large: on any processor but a microcontroller, with or without an
    operating system."""
    return target.board is None


RUNTIME = Feature(
    "TVMRT_FREESTANDING",
    "the runtime library: threads, error texts, scratch memory, calls from several threads",
    lambda target: target.hosted,
)
HOST_INSTRUCTIONS = Feature(
    "TVMRT_BOARD",
    "instructions of hosts by their names, and the headers that have them",
    _for_hosts,
)
NCHW_CONVOLUTIONS = Feature(
    "TVMRT_NO_NCHW_INPUT",
    "convolutions that read the channels of an image as planes",
    _for_hosts,
    members=("tvmrt_row_plan.channel_stride",),
)
SHARED_TAIL = Feature(
    "TVMRT_NO_SHARED_TAIL",
    "two tiles that share the last pixels of a row",
    _for_hosts,
    members=("tvmrt_tiles_f32.last",),
)
PREFETCH = Feature("TVMRT_NO_PREFETCH", "fetching lines of the cache ahead of a tile", _for_hosts)
MULTI_VECTOR_LOOPS = Feature(
    "TVMRT_NO_WIDE_LOOPS",
    "loops over several vectors, which take more code and more of the stack",
    _for_hosts,
)
INLINE_FLOATS = Feature(
    "TVMRT_FEW_FLOATS",
    "float arithmetic inlined by the compiler in integer networks: calls of it are smaller",
    lambda target: "rv32" not in (target.board or ()),
    kernels=_INTEGER_KERNELS,
)
ANY_ORDER = Feature(
    "TVMRT_FIXED_ORDER",
    "sums in the order and with the roundings that suit the processor",
    lambda target: not target.fixed_order,
)
# Features that only select kernels; they have no macro.
BOARD_KERNELS = Feature(
    "",
    "kernels of microcontrollers (kernels/board), layers by rows, functions of rows",
    lambda target: target.board is not None,
)
INT16_KERNELS = Feature(
    "",
    "products of int16 activations with int8 weights in one pass",
    lambda target: target.board is not None and "rvv" not in target.board,
)
HELIUM = Feature(
    "",
    "vectors of Cortex-M (Helium), for which GCC must not count the loops of a file",
    lambda target: "mve" in (target.board or ()),
)
PIXELS_IN_THREES = Feature(
    "",
    "dense int8 tiles of three pixels (kernels/board/conv_i8_3px_dsp.h)",
    lambda target: "dsp" in (target.board or ()) and "mve" not in target.board,
)
DUAL_ISSUE = Feature(
    "",
    "loads between the multiplications of dense int8 tiles",
    lambda target: "dual_issue" in (target.board or ()),
)

FEATURES = (
    RUNTIME, HOST_INSTRUCTIONS, NCHW_CONVOLUTIONS, SHARED_TAIL, PREFETCH,
    MULTI_VECTOR_LOOPS, INLINE_FLOATS, ANY_ORDER, BOARD_KERNELS, INT16_KERNELS, HELIUM,
    PIXELS_IN_THREES, DUAL_ISSUE,
)  # fmt: skip

# Kernel parameters with a default in their header, and the modules that set another value.
PARAMETERS = {
    "TVMRT_I8_FORMAT": "window/tiles_i8.py, by Target.int8",
    "TVMRT_MATMUL_BF16_BYTES": "window/matmul.py, as much as it plans scratch for",
    "TVMRT_DEPTH_FIRST_LAYERS": "operators/depth_first_chain.py",
    "TVMRT_ANY_WEIGHTS": "firmware/call_lines.py, for options that detect changed weights",
    "TVMRT_MICRO_CHECKSUM": "firmware/call_lines.py, for options that compare the sums",
    "TVMRT_PAIRED_TABLES": "firmware/call_lines.py, for options that compare constants",
    "TVMRT_MICRO_ROUNDS_TWICE": "window/boards/requant_multipliers.py, for layers that do",
    "TVMRT_MICRO_DUAL_ISSUE": "window/quantized.py, for processors that do",
    "TVMRT_MICRO_CHANNEL_GROUPS": "window/boards/channel_groups.py, for layers with epilogues",
    "TVMRT_OPENMP_SIMD": "export/toolchain.py, for compilers that are given -fopenmp-simd",
}


def print_macros(target: Target, headers: Iterable[str]) -> list[tuple[str, str]]:
    """Return (name, value) of the macros for features that a target lacks, for a file that includes
    these kernel headers."""
    included = list(headers)
    return [
        (feature.macro_if_absent, "1")
        for feature in FEATURES
        if feature.macro_if_absent
        and not feature.of(target)
        and (feature.kernels is None or any(map(feature.kernels.fullmatch, included)))
    ]
