"""Targets: what the C compiler is told and what the kernels may count on."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from tvmrt.compiler import processor

if TYPE_CHECKING:
    from tvmrt.compiler.ir.tuned import Guide, Tuned, UsedChoice


@dataclass(frozen=True)
class Target:
    """One kind of machine.

    ``lanes`` is the number of float32 lanes of a vector register (1: none), ``registers`` how
    many there are. ``int8`` names the integer kernels' instruction set. ``board`` names the
    instructions that kernels for microcontrollers may count on, and is None where those are not
    used. ``hosted`` targets have threads, a heap and shared libraries. ``tables`` of 256 bytes are
    looked up in registers, as far as levels are told apart. ``bf16`` is the kind of tiles by which
    bfloat16 is multiplied (``tiles_f32``), empty where no instruction does; ``int8_tiles`` is the
    format of tiles of matrices of bytes (``tiles_i8``), empty alike. ``triple`` names the cross
    compiler of another system; it is empty where this system's compiler does.

    ``levels`` are those of a family of processors for which a library has code side by side, the
    narrowest first. The family itself counts on no more than all its processors have, and chooses
    by its last level; ``widest`` is that level for each of the others, which read weights in its
    order. A level that is ``named`` is only in libraries for which somebody names it.

    ``tuned`` has what was found out about the layers of the network that is compiled.
    """

    name: str
    flags: tuple[str, ...] = ()
    lanes: int = 1
    registers: int = 16
    int8: str = "plain"
    l2_bytes: int = 512 << 10
    hosted: bool = True
    board: frozenset[str] | None = None
    tables: bool = False
    bf16: str = ""
    int8_tiles: str = ""
    levels: tuple[Target, ...] = ()
    widest: Target | None = None
    triple: str = ""
    named: bool = False
    tuned: Tuned | None = field(default=None, compare=False)

    def by(self, guide: Guide) -> Target:
        """The target with choices for its layers, of each level those for such processors."""
        from tvmrt.compiler.ir.tuned import (
            Tuned,  # with numpy, which the command's help does without
        )

        levels = tuple(replace(each, tuned=Tuned(vectors_of(each), guide)) for each in self.levels)
        levels = tuple(replace(e, widest=e.widest and levels[-1]) for e in levels)
        own = levels[-1].tuned if levels else Tuned(vectors_of(self), guide)
        return replace(self, tuned=own, levels=levels)

    @property
    def used_choices(self) -> list[UsedChoice]:
        """The choices that went into the network's code."""
        own = [self.tuned] if self.tuned else []
        known = [each.tuned for each in self.levels if each.tuned] or own
        return [used for tuned in known for used in tuned.used]

    @property
    def library_suffix(self) -> str:
        """What the names of its shared libraries end with."""
        return {"windows": ".dll", "macos": ".dylib"}.get(self.name.rpartition("-")[2], ".so")

    @property
    def digits(self) -> bool:
        """Whether floats meet weights of 4 bits as integers: kernels/op/matmul_digits.h."""
        return self.int8 == "vnni512"

    @property
    def threads(self) -> bool:
        return self.hosted


def vectors_of(target: Target) -> str:
    """What the choice of tiles depends on, in words: ``16x32`` is 32 registers of 16 lanes;
    the kind of tiles where an instruction multiplies bfloat16; the instructions for bytes."""
    words = [f"{target.lanes}x{target.registers}", target.bf16, target.int8]
    return " ".join(filter(None, words))


_HARD = ("-mthumb", "-mfloat-abi=hard")
_M4F = ("-mcpu=cortex-m4", *_HARD, "-mfpu=fpv4-sp-d16")
# registers are saved by the compiler library's functions: a twentieth less code for half a percent
# more instructions
_SAVED = "-msave-restore"

FIRMWARE = {
    "cortex-m0plus": ("-mcpu=cortex-m0plus", "-mthumb"),
    "cortex-m3": ("-mcpu=cortex-m3", "-mthumb"),
    "cortex-m4": _M4F,
    "cortex-m4f": _M4F,
    "cortex-m4-nofp": ("-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=soft"),
    "cortex-m7": ("-mcpu=cortex-m7", *_HARD, "-mfpu=fpv5-d16"),
    "cortex-m23": ("-mcpu=cortex-m23", "-mthumb"),
    "cortex-m33": ("-mcpu=cortex-m33", *_HARD, "-mfpu=fpv5-sp-d16"),
    "cortex-m55": ("-mcpu=cortex-m55", *_HARD),
    # by its architecture: GCC knows the processor's name from 13 on
    "cortex-m85": ("-march=armv8.1-m.main+mve.fp+fp.dp", *_HARD),
    "riscv32": ("-march=rv32imc", "-mabi=ilp32", _SAVED),
    "rv32imac": ("-march=rv32imac", "-mabi=ilp32", _SAVED),
    "rv32imafc": ("-march=rv32imafc", "-mabi=ilp32f", _SAVED),
    # integers by vectors, as cores without a float unit have them
    "rv32imac_zve32x": ("-march=rv32imac_zve32x", "-mabi=ilp32", _SAVED),
    # each with a compiler of its own, which knows the processor; calls reach beyond 512 KiB
    "xtensa-lx106": ("-mlongcalls",),
    "xtensa-lx6": ("-mlongcalls",),
    "xtensa-lx7": ("-mlongcalls",),
}

# Levels of x86-64, each with all that the ones before it have: what the compiler is told, and what
# kernels may count on. include/tvm/runtime/kernels/levels.h has the bits by which they are found.
_V2 = ("-mcx16", "-msahf", "-mpopcnt", "-msse3", "-mssse3", "-msse4.1", "-msse4.2")
_V3 = (*_V2, "-mavx", "-mavx2", "-mfma", "-mf16c", "-mbmi", "-mbmi2", "-mlzcnt", "-mmovbe")
_V4 = (
    *(*_V3, "-mavx512f", "-mavx512bw", "-mavx512cd", "-mavx512dq", "-mavx512vl"),
    "-mprefer-vector-width=512",
)
_VNNI = (*_V4, "-mavx512vnni")
_VBMI = (*_VNNI, "-mavx512vbmi")
_BF16 = (*_VBMI, "-mavx512bf16")
# AVX-VNNI is for those who name it: a sixth copy of products of bytes is more than four times the
# code of one, GCC knows it from version 11 on, and most processors that have it have AVX-512, too.
# Of systems Linux alone is asked for AMX's registers.
X86_LEVELS = (
    Target("v2", _V2, 4, 16, "sse41"),
    Target("v3", _V3, 8, 16, "avx2"),
    Target("v3vnni", (*_V3, "-mavxvnni"), 8, 16, "avxvnni", named=True),
    Target("v4", _V4, 16, 32, "avx2", l2_bytes=1 << 20),
    Target("v4vnni", _VNNI, 16, 32, "vnni512", l2_bytes=1 << 20),
    Target("v4vbmi", _VBMI, 16, 32, "vnni512", 1 << 20, tables=True),
    Target("v4bf16", _BF16, 16, 32, "vnni512", 1 << 20, tables=True, bf16="bf16"),
    Target(
        "v4amx", (*_BF16, "-mamx-tile", "-mamx-bf16", "-mamx-int8"), 16, 32, "vnni512", 1 << 20,
        tables=True, bf16="bf16_amx", int8_tiles="amx",
    ),
)  # fmt: skip

# Levels of AArch64, told by the system. GCC has these instructions from ARMv8.2 on alone.
_DOT = "-march=armv8.2-a+dotprod"
ARM_LEVELS = (
    Target("neon", (), 4, 32, "neon"),
    Target("dot", (_DOT,), 4, 32, "neon_dot"),
    Target("i8mm", (f"{_DOT}+i8mm",), 4, 32, "neon_i8mm"),
    Target("bf16", (f"{_DOT}+i8mm+bf16",), 4, 32, "neon_i8mm", bf16="bf16_mmla"),
)

# Levels of 32-bit ARM. NEON rounds the smallest numbers to zero (below 1.2e-38).
_VFP = ("-march=armv7-a+fp",)
ARMV7_LEVELS = (
    Target("vfp", _VFP),
    Target("neon", ("-march=armv7-a+simd",), 4, 16, "neon32"),
)

# Levels of RISC-V. Eight lanes are two registers of 128 bits, the least that vectors have.
RISCV_LEVELS = (
    Target("rv64"),
    Target("rvv", ("-march=rv64gcv",), 8, 16, "rvv"),
)

# Those of x86-64 on Windows. GCC's stack has vectors of 32 bytes at places that are no multiples of
# 32 there, and moves them by instructions that want them to be: the assembler takes the others.
_ANY_PLACE = "-Wa,-muse-unaligned-vector-move"
WINDOWS_LEVELS = (
    X86_LEVELS[0],
    *(replace(level, flags=(*level.flags, _ANY_PLACE)) for level in X86_LEVELS[1:-1]),
)
LEVELS = {
    "x86-64": X86_LEVELS, "aarch64-linux": ARM_LEVELS, "armv7-linux": ARMV7_LEVELS,
    "riscv64-linux": RISCV_LEVELS, "x86_64-windows": WINDOWS_LEVELS,
}  # fmt: skip

# Other systems and processors, for every one of a family. RISC-V promises no vectors.
_OTHERS = (
    Target("aarch64-linux", (), 4, 32, "neon", triple="aarch64-linux-gnu"),
    Target("riscv64-linux", (), triple="riscv64-linux-gnu"),
    Target("armv7-linux", _VFP, triple="arm-linux-gnueabihf"),
    Target("x86_64-windows", (), 4, 16, triple="x86_64-w64-mingw32"),
    Target("aarch64-macos", (), 4, 32, "neon", triple="aarch64-macos"),
)
CROSS = {each.name: each for each in _OTHERS}

# The family of a Linux machine, by its instructions. A RISC-V machine's own compiler may not know
# vectors, so that it has no family unless it is named.
_OWN_FAMILIES = {"x86_64": "x86-64", "aarch64": "aarch64-linux", "armv7l": "armv7-linux"}
DEFAULT_VARIABLE = "TVMRT_TARGET"
HERE = "here"  # native, or where a network has products for it the level of AMX
MATRICES = "v4amx"
_AMX = {"amx_tile", "amx_bf16", "amx_int8"}

# instructions beyond those that every processor has: SIMD in registers, Helium, RISC-V's vectors
BOARDS = {
    "cortex-m4": {"dsp"}, "cortex-m4f": {"dsp"}, "cortex-m4-nofp": {"dsp"}, "cortex-m7": {"dsp"},
    "cortex-m33": {"dsp"}, "cortex-m55": {"dsp", "mve"}, "cortex-m85": {"dsp", "mve"},
    "riscv32": {"rv32"}, "rv32imac": {"rv32"}, "rv32imafc": {"rv32"},
    "rv32imac_zve32x": {"rv32", "rvv"},
}  # fmt: skip


def target_names() -> list[str]:
    """All targets, this machine first."""
    return list(dict.fromkeys(["native", "host", *LEVELS, *CROSS, *FIRMWARE]))


def default_target(as_sources: bool = False, levels: Sequence[str] = ()) -> str:
    """What is compiled for where no target is named: that of $TVMRT_TARGET, or all processors of
    this machine's family, or this very machine. Raises ValueError where the variable names none.

    Where C sources are what is wanted, or there is no operating system, it is this very machine in
    place of a family, since all files are compiled alike there. ``levels`` that are named are those
    of the family.
    """
    family = own_family()
    if levels and family:
        return family
    chosen = _named_target() or family or "native"
    return "native" if as_sources and chosen in LEVELS else chosen


def target_here(levels: Sequence[str] = (), bf16: bool = False) -> tuple[str, Sequence[str]]:
    """The same for what is compiled to run at once and here, with the levels to name: other
    processors' would only be waited for. Raises ValueError as ``default_target``.

    Products in bfloat16 take AMX where the processor has it, by the level that asks the system for
    its registers: by other instructions such processors compute them slower than in float32.
    Whether there are products of bytes is seen when the network is (``with_matrices``).
    """
    named, family = _named_target(), own_family()
    if bf16 and _has_matrices() and not levels and not named:
        levels = (MATRICES,)
    return (family if levels and family else named or HERE), levels


class Asked(Protocol):
    """What a request says of the target."""

    @property
    def target(self) -> str | None: ...
    @property
    def levels(self) -> Sequence[str]: ...


def _has_matrices() -> bool:
    """Whether this processor has the level of AMX."""
    return _AMX <= processor.flags() and own_family() == "x86-64"


def with_matrices(machine: Target, asked: Asked) -> Target:
    """The target for a network with products of bytes, where nobody has named levels: a family with
    the level that multiplies matrices, and what runs at once and ``here`` that level alone."""
    name, levels = asked.target or "", asked.levels
    if name == HERE and _has_matrices():
        return get_target("x86-64", (MATRICES,))
    names = [level.name for level in machine.levels]
    known = [level.name for level in LEVELS.get(name, ())]
    if levels or not names or MATRICES in names or MATRICES not in known:
        return machine
    return get_target(name, (*names, MATRICES))


def _named_target() -> str:
    named = os.environ.get(DEFAULT_VARIABLE, "")
    if named and named not in target_names():
        raise ValueError(
            f"{DEFAULT_VARIABLE} names the target {named}, which is not known; choose one of "
            f"{', '.join(target_names())}"
        )
    return named


def own_family() -> str:
    """The target for all processors like this machine's, which has the least of its levels; empty
    where there is none."""
    machine, flags = processor.machine(), processor.flags()
    name = _OWN_FAMILIES.get(machine, "") if sys.platform == "linux" else ""
    if machine != "armv7l" and sys.maxsize < 1 << 32:
        return ""  # programs of 32 bits on a processor of 64
    oldest = machine == "x86_64" and flags and not {"cx16", "popcnt", "sse4_2"} <= flags
    return "" if oldest else name


def get_target(name: str, levels: Sequence[str] = (), bf16: bool = False) -> Target:
    """The target of that name, of a family with these of its levels or all of them, those for
    products in bfloat16 where there are such. Raises ValueError listing the names when there is
    none.

    ``native`` is this very machine, and so is ``here``, which ``with_matrices`` may replace;
    ``host`` is any machine of its architecture.
    """
    if name in LEVELS:
        return _family(name, LEVELS[name], levels, bf16)
    if levels:
        raise ValueError(
            f"target {name} has no levels; choose {' or '.join(LEVELS)}, or omit levels"
        )
    if name in CROSS:
        return CROSS[name]
    if name in ("native", "host", HERE):
        return _portable() if name == "host" else _native()
    if name in FIRMWARE:
        board = frozenset(BOARDS.get(name, ()))
        return Target(name, FIRMWARE[name], l2_bytes=64 << 10, hosted=False, board=board)
    known = ", ".join(target_names())
    raise ValueError(f"target {name} is not known; choose one of {known}")


def _family(name: str, all_levels: Sequence[Target], wanted: Sequence[str], bf16: bool) -> Target:
    """One target for several levels."""
    known = [level.name for level in all_levels]
    for each in wanted:
        if each not in known:
            raise ValueError(f"target {name} has no level {each}; choose from {', '.join(known)}")
    usual = wanted or [e.name for e in all_levels if not e.named and (bf16 or not e.bf16)]
    chosen = [level for level in all_levels if level.name in usual]
    widest = chosen[-1]
    levels = (*(replace(level, widest=widest) for level in chosen[:-1]), widest)
    everybody = CROSS.get(name, Target(name))
    triple = "" if name == own_family() else everybody.triple  # this system's own compiler
    return replace(widest, name=name, flags=everybody.flags, levels=levels, triple=triple)


def _native() -> Target:
    machine, flags = processor.machine(), processor.flags()
    if machine == "x86_64":
        if "avx512f" in flags and "avx512bw" in flags and "avx512vl" in flags:
            wide = "vnni512" if "avx512_vnni" in flags else "avx2"
            march = ("-march=native", "-mprefer-vector-width=512")
            bf16 = "bf16" if "avx512_bf16" in flags else ""
            return Target("native", march, 16, 32, wide, l2_bytes=1 << 20, bf16=bf16)
        if "avx2" in flags and "fma" in flags:
            return Target("native", ("-march=native",), 8, 16, "avx2")
        return Target("native", ("-march=native",), 4, 16, "plain")
    if machine == "aarch64":
        kind = "neon_dot" if "asimddp" in flags else "neon"
        kind = "neon_i8mm" if kind == "neon_dot" and "i8mm" in flags else kind
        bf16 = "bf16_mmla" if "bf16" in flags else ""
        return Target("native", ("-mcpu=native",), 4, 32, kind, bf16=bf16)
    return Target("native", ())


def _portable() -> Target:
    vectors = processor.machine() in ("x86_64", "aarch64")
    return Target("host", (), 4 if vectors else 1, 16)
