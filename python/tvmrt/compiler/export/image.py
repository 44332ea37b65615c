"""Networks compiled together: their shared memory, and the files of all of them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial

from tvmrt import plugin
from tvmrt.compiler.codegen.c.naming import check_module_name
from tvmrt.compiler.codegen.firmware_image import memory_files, share_operators
from tvmrt.compiler.ir.program import MemoryPool
from tvmrt.file_suffix import suffix_of
from tvmrt.option_syntax import choose

from . import formats
from .atomic import filling, replacing
from .library import CompiledLibrary
from .model_library_format import write_archive


def check_names(names: Sequence[str], image_name: str) -> None:
    """Raise ValueError if names of networks clash in symbols or files."""
    if not names:
        raise ValueError("no network to compile; give at least one")
    check_module_name("image", image_name)
    used_names = {image_name.lower(): "the image"}
    for name in names:
        if name.lower() in used_names:
            other = used_names[name.lower()]
            raise ValueError(
                f"networks {name} and {other} have the same C name (file names ignore case); "
                f"{choose('name them differently', 'choose another with --module-name')}"
            )
        used_names[name.lower()] = f"network {name}"


def live_groups(
    names: Sequence[str], concurrent: bool | Sequence[Sequence[str]]
) -> list[list[str]]:
    """Return groups of networks that may be live at the same time. Raise ValueError for unknown
    names, or names in two groups."""
    if isinstance(concurrent, bool):
        return [list(names)] if concurrent else []
    groups = [list(group) for group in concurrent]
    seen: set[str] = set()
    for name in (name for group in groups for name in group):
        if name not in names:
            raise ValueError(f"concurrent: unknown network {name}; choose from {', '.join(names)}")
        if name in seen:
            raise ValueError(f"concurrent: network {name} is in two groups; merge them")
        seen.add(name)
    return groups


class CompiledImage:
    """Result of ``tvmrt.compile_together``: libraries that share memory and weights.

    ``libraries``: the networks by name. ``pools``: memories for all of them. ``concurrent``: groups
    of networks that do not share memory. ``operators``: file name of all networks' operators, with
    one copy of each kernel.
    """

    def __init__(
        self,
        name: str,
        libraries: Sequence[CompiledLibrary],
        concurrent: Sequence[Sequence[str]] = (),
    ) -> None:
        self.name = name
        self.concurrent = [list(group) for group in concurrent]
        self.libraries = {library.module_name: library for library in libraries}
        self.pools = [_largest(row) for row in zip(*(lib.program.pools for lib in libraries))]
        self.files = memory_files(
            name,
            self.pools,
            [library.sources.prefix for library in libraries],
            self.concurrent,
            [library.sources.network_id for library in libraries],
        )
        self.operators: str | None = None
        networks = [library.sources for library in libraries]
        shared = share_operators(name, networks, libraries[0].target)
        if shared is not None:
            self.operators, self.files[shared[0]], replaced = shared
            for sources in networks:
                sources.files = {k: v for k, v in sources.files.items() if k not in replaced}

    @property
    def arena_bytes(self) -> int:
        """Memory of all pools together."""
        return sum(pool.used_bytes for pool in self.pools)

    @property
    def weights_bytes(self) -> int:
        """Weights in flash; weights of several networks are counted once."""
        return sum(
            buffer.nbytes
            for library in self.libraries.values()
            for buffer in library.sources.weight_buffers
            if buffer not in library.sources.shared
        )

    def export(self, path: str | os.PathLike[str]) -> None:
        """Write by suffix: ``.tar`` an archive, anything else a folder of C files. Raises the error
        of :func:`check_format`."""
        check_format(path)
        if suffix_of(path) == ".tar":
            self.export_model_library_format(path)
        else:
            self.export_sources(path)

    def export_sources(self, path: str | os.PathLike[str]) -> None:
        """Write the C files into a folder, which is created if necessary. C files of an earlier
        output of these names are replaced or removed; other files are kept."""
        prefixes = [library.sources.prefix for library in self.libraries.values()]
        with filling(path, partial(formats.is_source_of, prefixes)) as folder:
            for library in self.libraries.values():
                library.write_sources(folder)
            for name, text in self.files.items():
                (folder / name).write_text(text)

    def export_model_library_format(self, path: str | os.PathLike[str]) -> None:
        """Write the archive of the Model Library Format, with one module per network."""
        with replacing(path) as aside:
            write_archive(list(self.libraries.values()), aside, self)


def check_format(path: str | os.PathLike[str]) -> None:
    """Raise ValueError if the suffix of an output is of a format with a single network."""
    suffix = suffix_of(path)
    if suffix in (".so", ".dylib", ".dll"):
        raise ValueError(
            f"{path}: several networks are linked into a program, not loaded as a library; export "
            "to a folder or .tar"
        )
    if suffix == ".elf" or plugin.has("exporters", suffix):
        raise ValueError(f"{path}: a {suffix} file has one network; export to a folder or .tar")


def _largest(pools: Sequence[MemoryPool]) -> MemoryPool:
    """Return a pool for all networks: as large as the largest of them needs it."""
    first = pools[0]
    return MemoryPool(
        first.name,
        first.capacity,
        first.section,
        first.is_external,
        used_bytes=max(pool.used_bytes for pool in pools),
        lower_bound_bytes=max(pool.lower_bound_bytes for pool in pools),
    )
