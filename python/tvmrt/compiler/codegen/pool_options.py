"""Validation of memory pools and placements requested by the user."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase

from tvmrt.compiler.ir.program import ALIGN_BYTES, ARENA, Access, Buffer, MemoryPool, Program
from tvmrt.option_syntax import option

from . import pools as pools_file
from .c.naming import is_word
from .options import Options

FLASH = "flash"
_SECTION = re.compile(r"[A-Za-z0-9_.$-]+")


def make_pools(requested: Mapping[str, int | tuple[int, str]] | None) -> list[MemoryPool]:
    """Return the pools for options ``name: bytes`` (caller-provided) and ``name: (bytes, section)``
    (part of the image), in order. Raises ValueError for invalid ones."""
    if not requested:
        return [MemoryPool(pools_file.WORKSPACE)]
    if len({str(name).lower() for name in requested}) < len(requested):
        raise ValueError(f"memory pools ({', '.join(requested)}) differ only in case; rename one")
    return [_make_pool(name, value) for name, value in requested.items()]


def _make_pool(name: str, value: int | tuple[int, str]) -> MemoryPool:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", str(name)) or is_word(name) or name == FLASH:
        raise ValueError(
            f"pool name {name!r} is not a C identifier, or is reserved; choose another"
        )
    nbytes, section = value if isinstance(value, tuple) and len(value) == 2 else (value, None)
    is_count = hasattr(nbytes, "__index__") and not isinstance(nbytes, bool)
    if not (is_count and isinstance(section, (str, type(None)))):
        form = "a whole number of bytes, or (bytes, section)"
        raise TypeError(f"pool {name}: give {form}, not {value!r}")
    if nbytes < 0:
        raise ValueError(f"pool {name}: the size {nbytes} is negative")
    if section is not None and not _SECTION.fullmatch(section):
        raise ValueError(f"pool {name}: {section!r} is not a valid section name; choose another")
    return MemoryPool(name, nbytes, section, is_external=section is None)


def with_io_in_pools(program: Program) -> Program:
    """Return the program with inputs and outputs as buffers that the planner places."""
    io = [*program.inputs, *program.outputs]
    moved = {b: Buffer(b.name, b.dtype, b.size, ARENA) for b in io}

    def at(access: Access) -> Access:
        return replace(access, buffer=moved.get(access.buffer, access.buffer))

    steps = [
        replace(
            step,
            reads=[at(access) for access in step.reads],
            writes=[at(access) for access in step.writes],
            guard=step.guard and (at(step.guard[0]), step.guard[1]),
        )
        for step in program.steps
    ]
    inputs, outputs = [moved[b] for b in program.inputs], [moved[b] for b in program.outputs]
    return replace(program, inputs=inputs, outputs=outputs, steps=steps)


def align_bytes(options: Options) -> int:
    """Return the alignment of buffers in pools."""
    return pools_file.ALIGN_BYTES if options.firmware else ALIGN_BYTES


class Placement:
    """Ordered patterns of tensor and weight names, each with a pool, ``flash`` or, for weights,
    ``flash@SECTION``; the first match decides. Raises ValueError for an unknown pool."""

    def __init__(self, patterns: Mapping[str, str], pools: Iterable[MemoryPool]) -> None:
        self.patterns = dict(patterns)
        self._matched: set[str] = set()
        self._names: set[str] = set()
        choices = [*(pool.name for pool in pools), FLASH]
        for pattern, pool in self.patterns.items():
            if pool not in choices and not _flash_section(pool):
                text = option("place", {pattern: pool})
                raise ValueError(f"{text}: unknown pool; choose from "
                f"{', '.join(choices)} and flash@SECTION")  # fmt: skip

    def pool_of(self, name: str) -> str | None:
        """Return the place of a tensor with that name; None if no pattern matches."""
        self._names.add(name)
        for pattern, pool in self.patterns.items():
            if fnmatchcase(name, pattern):
                self._matched.add(pattern)
                return pool
        return None

    def tensor_pools(self, program: Program) -> dict[Buffer, str]:
        """Return the pools of the program's intermediate tensors."""
        pool_names = {b: self.pool_of(b.name) for b in program.arena_buffers()}
        return {buffer: pool for buffer, pool in pool_names.items() if _is_pool(pool)}

    def weight_pools(
        self, weights: Iterable[Buffer]
    ) -> tuple[dict[str, tuple[str, int]], dict[str, str]]:
        """Return the pool and bytes of weights that are copied to pools, and the sections of
        weights that lie elsewhere in flash, both by name."""
        found, sections = {}, {}
        for buffer in weights:
            pool = self.pool_of(buffer.name)
            section = _flash_section(pool)
            if section:
                sections[buffer.name] = section
            if _is_pool(pool):
                found[buffer.name] = (pool, buffer.nbytes)
        return found, sections

    def check_used(self) -> None:
        """Raise ValueError for a pattern that matched nothing."""
        for pattern in self.patterns:
            if pattern not in self._matched:
                names = ", ".join(sorted(self._names)[:20])
                raise ValueError(f"{option('place')} {pattern}: no tensor or weights match this "
                f"name; there are {names or 'none'}")  # fmt: skip


def _is_pool(place: str | None) -> bool:
    return place is not None and place != FLASH and not _flash_section(place)


def _flash_section(place: str | None) -> str | None:
    """Return the section of ``flash@SECTION``."""
    word, at, section = (place or "").partition("@")
    return section if word == FLASH and at and _SECTION.fullmatch(section) else None
