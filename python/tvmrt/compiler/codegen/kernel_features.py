"""Features of the kernels, by build: what a lowering may use is what the C compiler compiles.

A lowering asks ``PLANES.of(target)``; the C of a build without a feature defines the feature's
macro (``print_macros``), and kernels compile the feature out where that macro is defined. Both come
from the one table here, so that no condition is written twice. Members of structs that belong to a
feature do not exist in builds without it: code that sets them does not compile.

``include/tvm/runtime/kernels`` tests no other macros of the build. The rest follows from the
compiler's own macros, or is a parameter of a kernel that a lowering sets
(``FunctionWriter.macro``): ``PARAMETERS``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .target import Target

_INTEGER_KERNELS = re.compile(r"board/\w+_i8\.h")


@dataclass(frozen=True)
class Feature:
    """A feature of the kernels: whether a build has it, and what it is.

    ``lacking`` is the macro that the C of a build without it defines. It is empty where no kernel
    compiles the feature out: then the feature is a choice among kernels alone. ``members`` of
    structs exist in builds with the feature only. ``kernels``: only files that include such headers
    define the macro; None: all.
    """

    lacking: str
    meaning: str
    rule: Callable[[Target], bool]
    members: tuple[str, ...] = ()
    kernels: re.Pattern[str] | None = None

    def of(self, target: Target) -> bool:
        """Whether builds for a target have the feature."""
        return self.rule(target)


def _for_hosts(target: Target) -> bool:
    """Whether code may be large: on processors that are no microcontrollers, with or without an
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
PLANES = Feature(
    "TVMRT_NO_PLANES",
    "convolutions that read the channels of an image as planes",
    _for_hosts,
    members=("tvmrt_rows.planes",),
)
SHARED_TAIL = Feature(
    "TVMRT_NO_SHARED_TAIL",
    "two tiles that share the last pixels of a row",
    _for_hosts,
    members=("tvmrt_tiles_f32.last",),
)
PREFETCH = Feature(
    "TVMRT_NO_PREFETCH",
    "fetching lines of the cache ahead of a tile",
    _for_hosts,
)
WIDE_LOOPS = Feature(
    "TVMRT_NO_WIDE_LOOPS",
    "loops over several vectors, which take more code and more of the stack",
    _for_hosts,
)
FLOAT_CODE = Feature(
    "TVMRT_FEW_FLOATS",
    "float arithmetic inlined by the compiler in integer networks: calls of it are smaller",
    lambda target: "rv32" not in (target.board or ()),
    kernels=_INTEGER_KERNELS,
)
# Choices among kernels. No kernel compiles these out: there is no macro to disagree with.
BOARD_KERNELS = Feature(
    "",
    "kernels of microcontrollers (kernels/board), layers by rows, functions of rows",
    lambda target: target.board is not None,
)
HELIUM = Feature(
    "",
    "vectors of Cortex-M (Helium), for which GCC must not count the loops of a file",
    lambda target: "mve" in (target.board or ()),
)

FEATURES = (
    RUNTIME, HOST_INSTRUCTIONS, PLANES, SHARED_TAIL, PREFETCH, WIDE_LOOPS, FLOAT_CODE,
    BOARD_KERNELS, HELIUM,
)  # fmt: skip

# Parameters of kernels, which have a default in their header: who sets another.
PARAMETERS = {
    "TVMRT_I8_FORMAT": "window/tiles_i8.py, by Target.int8",
    "TVMRT_MATMUL_BF16_BYTES": "window/matmul.py, as much as it plans scratch for",
    "TVMRT_SLAB_LAYERS": "operators/slab_chain.py",
    "TVMRT_OPENMP_SIMD": "export/toolchain.py, for compilers that are given -fopenmp-simd",
}


def print_macros(target: Target, headers: Iterable[str]) -> list[tuple[str, str]]:
    """(name, value) of the macros for what a target's build lacks, of a file that includes these
    headers of kernels."""
    included = list(headers)
    return [
        (feature.lacking, "1")
        for feature in FEATURES
        if feature.lacking
        and not feature.of(target)
        and (feature.kernels is None or any(map(feature.kernels.fullmatch, included)))
    ]
