"""Targets: compiler flags and the processor features that kernels may use."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tvmrt import plugin
from tvmrt.compiler import processor
from tvmrt.error import gpu_advice, suggestion
from tvmrt.option_syntax import option


@dataclass(frozen=True)
class Target:
    """One kind of machine.

    ``lanes`` is the number of float32 lanes of a vector register (1: no vectors), ``registers`` the
    number of vector registers. ``int8`` names the instruction set of integer kernels. ``board`` has
    the instructions that microcontroller kernels may use; it is None for other targets. ``hosted``
    targets have threads, a heap and shared libraries. ``tables``: 256-byte tables are looked up in
    registers (known only for ISA levels). ``bf16`` names the bfloat16 tiles (``tiles_f32``) and
    ``int8_tiles`` the int8 matrix tiles (``tiles_i8``); both are empty without such instructions.
    ``triple`` names the cross compiler; it is empty if this system's own compiler is used.

    ``levels`` are the ISA levels that a library of a processor family contains, in ascending order.
    The family's common code uses only features of all its processors; its choices follow the last
    level. ``widest`` is that last level, set on the other levels, which read weights in its order.
    An ``opt_in`` level is included only if it is requested by name.

    ``fixed_order``: sums have one order on all processors (``--reproducible``).

    A processor that a plug-in adds is ``like`` a target of tvmrt: it has its compiler, its machine
    in QEMU and its costs, but for the cycles of the instruction kinds in ``costs``.
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
    opt_in: bool = False
    like: str = ""
    fixed_order: bool = False
    costs: Mapping[str, float] = field(default_factory=dict, hash=False)

    @property
    def base(self) -> str:
        """Name of the target of tvmrt that it is like."""
        return self.like or self.name

    @property
    def library_suffix(self) -> str:
        """File extension of shared libraries."""
        return {"windows": ".dll", "macos": ".dylib"}.get(self.name.rpartition("-")[2], ".so")

    @property
    def runs_here(self) -> bool:
        """Whether this machine can load shared libraries of the target."""
        processors = "x86_64" if self.name == "x86-64" else self.triple.partition("-")[0]
        is_library = self.hosted and self.library_suffix == ".so"
        return is_library and processor.machine().startswith(processors)

    def with_fixed_order(self) -> Target:
        """Return the target with one order of sums on all processors, on all its levels."""
        levels = tuple(each.with_fixed_order() for each in self.levels)
        widest = self.widest.with_fixed_order() if self.widest else None
        return replace(self, levels=levels, widest=widest, fixed_order=True)

    @property
    def digits(self) -> bool:
        """Whether block-quantised weights of float32 matmuls are multiplied as integers
        (matmul_int4_vnni.h, matmul_nbits_vnni.h)."""
        return self.int8 == "vnni512"

    @property
    def threads(self) -> bool:
        return self.hosted


_HARD = ("-mthumb", "-mfloat-abi=hard")
_M4F = ("-mcpu=cortex-m4", *_HARD, "-mfpu=fpv4-sp-d16")
# the compiler library saves registers: a twentieth less code for half a percent more instructions
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
    # by architecture: GCC knows the processor name only since version 13
    "cortex-m85": ("-march=armv8.1-m.main+mve.fp+fp.dp", *_HARD),
    "cortex-r5f": ("-mcpu=cortex-r5", *_HARD, "-mfpu=vfpv3-d16"),
    "riscv32": ("-march=rv32imc", "-mabi=ilp32", _SAVED),
    "rv32imac": ("-march=rv32imac", "-mabi=ilp32", _SAVED),
    "rv32imafc": ("-march=rv32imafc", "-mabi=ilp32f", _SAVED),
    # integer vectors, as in cores without a float unit
    "rv32imac_zve32x": ("-march=rv32imac_zve32x", "-mabi=ilp32", _SAVED),
    # each has its own compiler with this processor as default; -mlongcalls: code beyond 512 KiB
    "xtensa-lx106": ("-mlongcalls",),
    "xtensa-lx6": ("-mlongcalls",),
    "xtensa-lx7": ("-mlongcalls",),
}

# ISA levels of x86-64, each a superset of the levels before it: compiler flags and kernel features.
# include/tvm/runtime/kernels/cpu_dispatch.h has the CPUID bits that detect them.
_V2 = ("-mcx16", "-msahf", "-mpopcnt", "-msse3", "-mssse3", "-msse4.1", "-msse4.2")
_V3 = (*_V2, "-mavx", "-mavx2", "-mfma", "-mf16c", "-mbmi", "-mbmi2", "-mlzcnt", "-mmovbe")
_V4 = (
    *(*_V3, "-mavx512f", "-mavx512bw", "-mavx512cd", "-mavx512dq", "-mavx512vl"),
    "-mprefer-vector-width=512",
)
_VNNI = (*_V4, "-mavx512vnni")
_VBMI = (*_VNNI, "-mavx512vbmi")
_BF16 = (*_VBMI, "-mavx512bf16")
# AVX-VNNI is opt-in: a sixth copy of int8 kernels is more than four times the code of one, GCC
# supports it since version 11, and most processors with it also have AVX-512. AMX state is
# requested on Linux only.
X86_LEVELS = (
    Target("v2", _V2, 4, 16, "sse41"),
    Target("v3", _V3, 8, 16, "avx2"),
    Target("v3vnni", (*_V3, "-mavxvnni"), 8, 16, "avxvnni", opt_in=True),
    Target("v4", _V4, 16, 32, "avx2", l2_bytes=1 << 20),
    Target("v4vnni", _VNNI, 16, 32, "vnni512", l2_bytes=1 << 20),
    Target("v4vbmi", _VBMI, 16, 32, "vnni512", 1 << 20, tables=True),
    Target("v4bf16", _BF16, 16, 32, "vnni512", 1 << 20, tables=True, bf16="bf16"),
    Target(
        "v4amx", (*_BF16, "-mamx-tile", "-mamx-bf16", "-mamx-int8"), 16, 32, "vnni512", 1 << 20,
        tables=True, bf16="bf16_amx", int8_tiles="amx",
    ),
)  # fmt: skip

# ISA levels of AArch64, as reported by the system. GCC needs ARMv8.2 for these instructions.
_DOT = "-march=armv8.2-a+dotprod"
ARM_LEVELS = (
    Target("neon", (), 4, 32, "neon"),
    Target("dot", (_DOT,), 4, 32, "neon_dot"),
    Target("i8mm", (f"{_DOT}+i8mm",), 4, 32, "neon_i8mm"),
    Target("bf16", (f"{_DOT}+i8mm+bf16",), 4, 32, "neon_i8mm", bf16="bf16_mmla"),
)

# ISA levels of 32-bit ARM. NEON flushes denormals (below 1.2e-38) to zero.
_VFP = ("-march=armv7-a+fp",)
ARMV7_LEVELS = (Target("vfp", _VFP), Target("neon", ("-march=armv7-a+simd",), 4, 16, "neon32"))

# ISA levels of RISC-V. Eight lanes are two registers of 128 bits, the minimum vector length.
RISCV_LEVELS = (Target("rv64"), Target("rvv", ("-march=rv64gcv",), 8, 16, "rvv"))

# ISA levels of x86-64 on Windows. GCC's stack there does not align 32-byte vectors, but GCC moves
# them by aligned instructions: this option makes the assembler emit unaligned ones.
_UNALIGNED_MOVES = "-Wa,-muse-unaligned-vector-move"
WINDOWS_LEVELS = (
    X86_LEVELS[0],
    *(replace(level, flags=(*level.flags, _UNALIGNED_MOVES)) for level in X86_LEVELS[1:-1]),
)
LEVELS = {
    "x86-64": X86_LEVELS, "aarch64-linux": ARM_LEVELS, "armv7-linux": ARMV7_LEVELS,
    "riscv64-linux": RISCV_LEVELS, "x86_64-windows": WINDOWS_LEVELS,
    "x86_64-macos": X86_LEVELS[:-1],
}  # fmt: skip

# Other systems and processors; each covers all of a family. RISC-V does not guarantee vectors.
_CROSS_TARGETS = (
    Target("aarch64-linux", (), 4, 32, "neon", triple="aarch64-linux-gnu"),
    Target("riscv64-linux", (), triple="riscv64-linux-gnu"),
    Target("armv7-linux", _VFP, triple="arm-linux-gnueabihf"),
    Target("x86_64-windows", (), 4, 16, triple="x86_64-w64-mingw32"),
    Target("x86_64-macos", (), 4, 16, triple="x86_64-macos"),
    Target("aarch64-macos", (), 4, 32, "neon", triple="aarch64-macos"),
)
CROSS = {each.name: each for each in _CROSS_TARGETS}

# Machines without an operating system that are no microcontrollers.
VIRTUAL = {
    "wasm32": Target(
        "wasm32", ("-msimd128",), 4, 16, "simd128", hosted=False, triple="wasm32-wasi"
    ),
}
UNHOSTED = (*FIRMWARE, *VIRTUAL)

# Family of a Linux machine by its architecture. RISC-V has none by default, because the machine's
# own compiler may not support vectors.
_NATIVE_FAMILIES = {"x86_64": "x86-64", "aarch64": "aarch64-linux", "armv7l": "armv7-linux"}
DEFAULT_VARIABLE = "TVMRT_TARGET"
HERE = "here"  # native, or the AMX level for networks with int8 matmuls
AMX_LEVEL = "v4amx"
_AMX = {"amx_tile", "amx_bf16", "amx_int8"}

# instructions beyond the base set: SIMD in registers (DSP), Helium (MVE), RISC-V and its vectors;
# dual_issue: a load and a multiplication in one cycle
BOARDS = {
    "cortex-m4": {"dsp"}, "cortex-m4f": {"dsp"}, "cortex-m4-nofp": {"dsp"},
    "cortex-m7": {"dsp", "dual_issue"}, "cortex-m33": {"dsp"},
    "cortex-m55": {"dsp", "mve"}, "cortex-m85": {"dsp", "mve"},
    "cortex-r5f": {"dsp"},
    "riscv32": {"rv32"}, "rv32imac": {"rv32"}, "rv32imafc": {"rv32"},
    "rv32imac_zve32x": {"rv32", "rvv"},
}  # fmt: skip


_OWN_NAMES = ("native", "host", *LEVELS, *CROSS, *UNHOSTED)  # known without reading plug-ins


def target_names() -> list[str]:
    """Return all target names, this machine first."""
    return list(dict.fromkeys([*_OWN_NAMES, *plugin.keys("targets")]))


def is_unhosted(name: str | None) -> bool:
    """Return whether a target of this name has no operating system; not for an unknown name."""
    added = None if name in _OWN_NAMES or not name else _added_target(name)
    return name in UNHOSTED if added is None else not added.hosted


def _added_target(name: str) -> Target | None:
    """Return the target of a plug-in; ValueError if its name is not the one it is added by."""
    added: Target | None = plugin.find("targets", name, Target)
    if added is not None and added.name != name:
        raise ValueError(
            f"the plug-in {plugin.owner_of('targets', name)} adds the target {name} with the name "
            f"{added.name}; give both one name"
        )
    return added


def default_target(as_sources: bool = False, levels: Sequence[str] = ()) -> str:
    """Return the target to compile for by default: $TVMRT_TARGET, else this machine's family, else
    this machine. Raises ValueError if the variable names an unknown target.

    For C sources, where all files are compiled with the same flags, a family is replaced by this
    machine. Requested ``levels`` select this machine's family.
    """
    family = native_family()
    if levels and family:
        return family
    chosen = _named_target() or family or "native"
    return "native" if as_sources and chosen in LEVELS else chosen


def local_target(levels: Sequence[str] = (), bf16: bool = False) -> tuple[str, Sequence[str]]:
    """Return the default target and levels for code that runs here immediately: code for other
    processors would only take time to compile. Raises ValueError like ``default_target``.

    bfloat16 matmuls use the AMX level if the processor has it, because it requests the AMX state
    from the system; other instructions are slower than float32 on such processors. Whether there
    are int8 matmuls is known only after import (``with_amx_level``).
    """
    named, family = _named_target(), native_family()
    if bf16 and _has_amx() and not levels and not named:
        levels = (AMX_LEVEL,)
    return (family if levels and family else named or HERE), levels


def _has_amx() -> bool:
    """Return whether this processor has the AMX level."""
    return _AMX <= processor.flags() and native_family() == "x86-64"


def with_amx_level(machine: Target, name: str, levels: Sequence[str]) -> Target:
    """Return the target, requested by this name, for a network with int8 matmuls if no levels were
    requested. A family gains the AMX level; ``here`` becomes that level alone."""
    names = [level.name for level in machine.levels]
    if name == HERE and _has_amx():
        name, names = "x86-64", []
    else:
        level_names = [level.name for level in LEVELS.get(name, ())]
        if levels or not names or AMX_LEVEL in names or AMX_LEVEL not in level_names:
            return machine
    wider = get_target(name, (*names, AMX_LEVEL))
    return wider.with_fixed_order() if machine.fixed_order else wider


def _named_target() -> str:
    named = os.environ.get(DEFAULT_VARIABLE, "")
    if named and named not in _OWN_NAMES and named not in target_names():
        raise ValueError(
            f"{DEFAULT_VARIABLE} names the target {named}, which is not known; "
            f"{suggestion(named, target_names())}"
        )
    return named


# What other tools call a target, without signs and version, for suggestions.
OTHER_NAMES = {
    "arm64": "aarch64", "armv8": "aarch64", "raspberrypi": "aarch64-linux", "rpi": "aarch64-linux",
    "pi": "aarch64-linux", "jetson": "aarch64-linux", "graviton": "aarch64-linux",
    "apple": "aarch64-macos", "macos": "aarch64-macos", "darwin": "aarch64-macos",
    "arm": "armv7-linux", "armhf": "armv7-linux", "armv7": "armv7-linux",
    "amd64": "x86-64", "x64": "x86-64", "x8664": "x86-64", "linux": "x86-64",
    "windows": "x86_64-windows", "win": "x86_64-windows", "cpu": "native", "llvm": "native",
    "riscv64": "riscv64-linux", "rv64": "riscv64-linux", "riscv": "riscv32", "rv32": "riscv32",
    "wasm": "wasm32", "browser": "wasm32", "web": "wasm32", "js": "wasm32",
    **{f"m{n}": f"cortex-m{n}" for n in ("0plus", "3", "4", "4f", "7", "23", "33", "55", "85")},
}  # fmt: skip
# Further functions from an unknown name to what to give in its place, or None.
ADVISERS: list[Callable[[str], str | None]] = [gpu_advice]


def _advice_for(name: str) -> str:
    """Return what to give in place of a target that is not known."""
    short = re.sub(r"[^a-z0-9]", "", name.lower())
    words = (short, short.rstrip("0123456789"), re.split(r"[^a-z]", name.lower())[0])
    other = next((OTHER_NAMES[each] for each in words if each in OTHER_NAMES), None)
    further = [] if other else [adviser(name) for adviser in ADVISERS]
    return next(filter(None, further), None) or suggestion(other or name, target_names())


def native_family() -> str:
    """Return the target for all processors of this machine's family; empty if there is none, or if
    this processor lacks its lowest level."""
    machine, flags = processor.machine(), processor.flags()
    name = _NATIVE_FAMILIES.get(machine, "") if sys.platform == "linux" else ""
    if machine != "armv7l" and sys.maxsize < 1 << 32:
        return ""  # a 32-bit process on a 64-bit processor
    oldest = machine == "x86_64" and flags and not {"cx16", "popcnt", "sse4_2"} <= flags
    return "" if oldest else name


def get_target(name: str, levels: Sequence[str] = (), bf16: bool = False) -> Target:
    """Return the target of that name. For a family, ``levels`` selects ISA levels (default: all but
    opt-in ones; bfloat16 levels only with ``bf16``). Raises ValueError listing the names if it is
    unknown.

    ``native`` and ``here`` are this machine (``with_amx_level`` may replace ``here``); ``host`` is
    any machine of its architecture.
    """
    if name in LEVELS:
        return _family(name, LEVELS[name], levels, bf16)
    if levels:
        raise ValueError(
            f"{option('target', name)} has no levels; choose {' or '.join(LEVELS)}, or omit "
            f"{option('levels')}"
        )
    if name in CROSS:
        return CROSS[name]
    if name in VIRTUAL:
        return VIRTUAL[name]
    if name in ("native", "host", HERE):
        return _portable() if name == "host" else _native()
    if name in FIRMWARE:
        board = frozenset(BOARDS.get(name, ()))
        return Target(name, FIRMWARE[name], l2_bytes=64 << 10, hosted=False, board=board)
    if (added := _added_target(name)) is not None:
        return added
    raise ValueError(f"{option('target', name)} is not known; {_advice_for(name)}")


def _family(
    name: str, all_levels: Sequence[Target], requested: Sequence[str], bf16: bool
) -> Target:
    """Return one target with several ISA levels."""
    level_names = [level.name for level in all_levels]
    for each in requested:
        if each not in level_names:
            raise ValueError(
                f"{option('target', name)} has no level {each}; choose from "
                f"{', '.join(level_names)}"
            )
    usual = requested or [e.name for e in all_levels if not e.opt_in and (bf16 or not e.bf16)]
    chosen = [level for level in all_levels if level.name in usual]
    widest = chosen[-1]
    levels = (*(replace(level, widest=widest) for level in chosen[:-1]), widest)
    baseline = CROSS.get(name, Target(name))
    triple = "" if name == native_family() else baseline.triple  # this system's own compiler
    return replace(widest, name=name, flags=baseline.flags, levels=levels, triple=triple)


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
