"""A compiled network and its artefacts."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tvmrt import plugin
from tvmrt.compiler.codegen.options import Options, Sources
from tvmrt.compiler.codegen.target import Target
from tvmrt.compiler.ir.bundle import Bundle
from tvmrt.compiler.ir.program import Program
from tvmrt.compiler.partition.partition import Partition
from tvmrt.error import warn
from tvmrt.file_suffix import suffix_of
from tvmrt.option_syntax import option, options

from . import blob, formats, import_stubs
from .atomic import filling, replacing, scratch_folder
from .blob import Tree
from .dump import print_program
from .summary import Summary, summarise
from .toolchain import OWN_SUFFIX, build_library

SUFFIXES = (".so", ".dylib", ".dll")  # of shared libraries
LARGEST_C_ARRAY = 1 << 16  # bytes; longer arrays compile slowly


class CompiledLibrary:
    """Result of ``tvmrt.compile``."""

    def __init__(
        self,
        program: Program,
        sources: Sources,
        options: Options,
        target: Target,
        json: str | None,
        seconds: dict[str, float],
        cc: str | None,
        partition: Partition | None = None,
    ) -> None:
        self.program = program
        self.sources = sources
        self.options = options
        self.target = target
        self._json = json
        self._seconds = seconds
        self._cc = cc
        self.partition = partition
        # compiles the same network for another target; None in an image of several networks
        self.for_target: Callable[[Target], CompiledLibrary] | None = None

    def __repr__(self) -> str:
        summary = self.summary
        tensors = f"{summary.arena_bytes:,} B for tensors"
        if summary.planned_in_runs:
            tensors = "memory planned in each run"
        return (
            f"<compiled network {self.module_name}: {len(summary.operators)} operators for "
            f"{self.target.name}, {tensors}, "
            f"{summary.weights_bytes:,} B of weights>"
        )

    @property
    def module_name(self) -> str:
        return self.options.module_name

    @property
    def compiler(self) -> str | None:
        """Command of the C compiler that was requested; None for a default."""
        return self._cc

    def get_graph_json(self) -> str:
        """Return the graph JSON. Raise ValueError for a network for the AOT executor."""
        if self._json is None:
            raise ValueError("a network compiled for the AOT executor has no graph JSON")
        return self._json

    @property
    def bundles(self) -> dict[str, Bundle]:
        """Tensors of the network's inputs and outputs that are not tensors, by name."""
        return dict(self.program.bundles)

    @property
    def has_graph_json(self) -> bool:
        return self._json is not None

    @property
    def manifest(self) -> dict[str, Any]:
        """Metadata in every artefact: version of tvmrt, options, target and levels, hashes, sizes
        in bytes, licences; nothing about the machine that compiles."""
        return dict(self.sources.manifest)

    def print_program(self) -> str:
        """Return the steps and their memory addresses as text."""
        return print_program(self.program)

    def get_params(self) -> dict[str, np.ndarray]:
        """Return weights that are inputs of the library; empty unless params are in a file."""
        if self.options.params != "file" or self.options.weights_in_blob:
            return {}
        return {b.name: b.data for b in self.sources.weight_buffers if b.data is not None}

    def weights_blob(self) -> bytes:
        """Return the bytes for ``tvmgen_<name>_set_weights()``; see tvm/runtime/weight_blob.h.

        Raises ValueError if the program contains its weights.
        """
        if not self.options.weights_in_blob:
            raise ValueError(
                "the program contains its weights; compile it with "
                f"{option('runtime', 'crt')}, {option('executor', 'aot')} and "
                f"{option('params', 'file')}"
            )
        from tvmrt.compiler.codegen.firmware import weight_file

        return weight_file.blob_of(self.sources)

    def export_weights(self, path: str | os.PathLike[str]) -> int:
        """Write ``weights_blob()`` to a file; return its size in bytes."""
        data = self.weights_blob()
        with replacing(path) as aside:
            aside.write_bytes(data)
        return len(data)

    @property
    def summary(self) -> Summary:
        """Memory and work of the network."""
        nodes, regions = [], []
        if self.partition is not None:
            nodes, regions = self.partition.node_rows(), self.partition.region_rows()
        weights = self._weights_bytes()
        if self.partition is not None:
            weights += self.partition.module_weights_bytes
        summary = summarise(self.program, self.sources.functions, weights)
        return replace(summary, seconds=dict(self._seconds), nodes=nodes, regions=regions)

    def _weights_bytes(self) -> int:
        """Return the bytes of weights in the artefact including gaps: one block, or arrays."""
        if not self.options.firmware:
            return len(self.sources.weights)
        return self.sources.flash_bytes

    def export(self, path: str | os.PathLike[str]) -> None:
        """Write by suffix: ``.so`` a library, ``.tar`` an archive, ``.elf`` an image for a board, a
        suffix of a plug-in's exporter its format, anything else a folder. Raises ValueError for a
        suffix of other files, such as ``.zip``."""
        suffix = suffix_of(path)
        if suffix in (*SUFFIXES, ".tar", ".elf") or formats.exporter(suffix):
            self._check_folder_files(path)
        if suffix in SUFFIXES:
            self.export_library(path)
        elif suffix == ".tar":
            self.export_model_library_format(path)
        elif suffix == ".elf":
            if self.options.weights_in_blob:
                text = "an image for a board contains its weights; choose {params=flash}"
                raise ValueError(options(text))
            from .board_image import write_image

            write_image(self, Path(path))
        elif suffix and (exporter := formats.exporter(suffix)) is not None:
            self._export_by(exporter, Path(path))
        else:
            formats.check_folder_name(Path(path))
            self.export_sources(path)

    def _check_folder_files(self, path: str | os.PathLike[str]) -> None:
        """Raise ValueError if options add files that only a folder of C sources has."""
        for name in self.options.folder_files:
            raise ValueError(
                f"{path}: {option(name)} adds files to a folder of C sources; choose the name of a "
                "folder for the output, without a suffix and without a format"
            )

    def _export_by(self, exporter: plugin.Exporter, path: Path) -> None:
        """Write the file, or the files, of a plug-in's format. Raises FileExistsError if a file
        that ``path`` does not name would replace one that tvmrt did not generate."""
        contents = exporter.files(self, path.name)
        for name, content in (contents or {}).items():
            if name != path.name:
                formats.check_further_file(path.with_name(name), content)
        self._check_weights_next_to(path)
        with ExitStack() as stack:
            for name, content in (contents or {}).items():
                aside = stack.enter_context(replacing(path.with_name(name)))
                aside.write_bytes(content.encode() if isinstance(content, str) else content)
            if contents is None:
                exporter.export(self, stack.enter_context(replacing(path)))
        self._export_weights_next_to(path)

    def _check_weights_next_to(self, path: Path) -> None:
        """Raise FileExistsError if the blob would replace a file that is none."""
        if self.options.weights_in_blob:
            data = self.weights_blob()
            formats.check_further_file(path.with_suffix(".bin"), data, data[:4])

    def _export_weights_next_to(self, path: Path) -> None:
        """Write the blob of weights, if they are not in the program. Warn if another program of
        this name loses its weights."""
        if not self.options.weights_in_blob:
            return
        weights = path.with_suffix(".bin")
        others = [path.with_suffix(each) for each in (".tar", *formats.output_suffixes())]
        other = next((each for each in others if each != path and each.is_file()), None)
        if other is not None and weights.is_file():
            from tvmrt.compiler.codegen.firmware import weight_file

            old, new = weights.read_bytes(), self.weights_blob()
            if not weight_file.have_equal_layouts(old, new):
                text = (
                    f"{weights} has weights for {path} now; {other}, whose weights it may have "
                    "had, refuses them: compile one of both to another name"
                )
                warn(text)
        self.export_weights(weights)

    def export_library(self, path: str | os.PathLike[str]) -> None:
        """Compile and link to a shared library in the classic layout; not for firmware.

        Raises CompileError when the C compiler is missing or fails, OSError when the file cannot be
        written; an existing file at ``path`` is then unchanged. FileExistsError: the weights would
        replace a file next to ``path`` that has none.
        """
        if self.options.firmware:
            forms = [f"a {each}" for each in formats.suffixes_for(self.target.name)]
            forms += ["a .tar", "a folder of sources"]
            verb = "write" if suffix_of(path) in SUFFIXES else "export() writes"
            raise ValueError(
                f"{path}: a network for the crt runtime is linked into a program and is not a "
                f"shared library; {verb} {' or '.join(forms)}"
            )
        if not self.target.hosted:
            raise ValueError(
                f"target {self.target.name} has no shared libraries; export to a folder or .tar"
            )
        suffix = self.target.library_suffix
        actual, usual = suffix_of(path), suffix if self.target.triple else OWN_SUFFIX
        if actual != suffix and (suffix != ".so" or (actual in SUFFIXES and actual != usual)):
            raise ValueError(
                f"{path}: a library for {self.target.name} is a {suffix} file; "
                f"write it to {Path(path).with_suffix(suffix)}"
            )
        params = Path(path).with_suffix(".params")
        data = blob.params(self.get_params()) if self.options.params == "file" else b""
        formats.check_further_file(params, data, data[:8])
        begin = time.perf_counter()
        with replacing(path) as aside, scratch_folder() as folder:
            sources = self.write_sources(folder)
            if suffix != ".so":
                calls = folder / f"{self.sources.prefix}_calls.c"
                calls.write_text(import_stubs.source())
                sources.append(calls)
            more = self.sources.flags, self.sources.link_flags
            build_library(sources, aside.resolve(), self.target, self._cc, *more)
        self._seconds["compile"] = time.perf_counter() - begin
        if data:
            with replacing(params) as aside:
                aside.write_bytes(data)

    def export_sources(self, path: str | os.PathLike[str]) -> None:
        """Write the C files into a folder, which is created if necessary. C files of an earlier
        output of this name are replaced or removed; other files are kept."""
        with filling(path, partial(formats.is_source_of, [self.sources.prefix])) as folder:
            self.write_sources(folder)

    def export_model_library_format(self, path: str | os.PathLike[str]) -> None:
        """Write the archive of the Model Library Format.

        Raises FileExistsError if its weights would replace a file next to it that has none.
        """
        from .model_library_format import write_archive

        self._check_weights_next_to(Path(path))
        with replacing(path) as aside:
            write_archive([self], aside)
        self._export_weights_next_to(Path(path))

    def export_package(self, path: str | os.PathLike[str], kind: str) -> None:
        """Write a folder in a format of a plug-in; ``tvmrt compile --help`` lists them at
        ``--format``.

        Raises ValueError for an unknown format, and the errors of the plug-in's exporter.
        """
        self._check_folder_files(path)
        exporter = None if kind.startswith(".") else formats.exporter(kind)
        if exporter is None:
            choices = ", ".join(formats.formats())
            raise ValueError(
                f"format {kind} is not known; "
                + (f"choose {choices}" if choices else "no plug-in adds formats")
            )
        with filling(path) as folder:
            exporter.export(self, folder)
            self._write_weights(folder)

    def _write_weights(self, folder: Path) -> None:
        if self.options.weights_in_blob:
            (folder / f"{self.sources.prefix}_weights.bin").write_bytes(self.weights_blob())

    def blob(self) -> bytes:
        """Return the bytes of ``__tvm_dev_mblob``."""
        return self._tree().data

    def _tree(self) -> Tree:
        imports = self.sources.modules
        if self._json is not None:
            return blob.graph_library(self._json, self.module_name, imports)
        return blob.aot_library(self.module_name, imports)

    def held_places(self) -> dict[str, int]:
        """Return the offsets in ``blob()`` of the constants in devices' modules, by symbol."""
        ends = dict(zip(self.sources.modules, self._tree().ends))
        device_symbols = self.sources.device_constant_symbols()
        return {symbol: ends[one.module] - one.place for symbol, one in device_symbols.items()}

    def write_sources(self, folder: Path) -> list[Path]:
        """Write all sources of the library into a folder; return the paths to compile."""
        written = []
        for make in self.options.folder_files.values():
            for name, text in make(self).items():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_text(text)
        for name, text in self.sources.files.items():
            (folder / name).write_text(text)
            if name.endswith(".c"):
                written.append(folder / name)
        prefix = self.sources.prefix
        manifest = json.dumps(self.manifest, indent=2) + "\n"
        (folder / f"{prefix}_manifest.json").write_text(manifest)
        if self.options.firmware:
            self._write_weights(folder)
            return written
        data = self.blob()
        if len(data) > LARGEST_C_ARRAY or self.sources.device_constants:
            stem, offsets = f"{prefix}_devc", self.held_places()
            written.append(_include(folder, "__tvm_dev_mblob", stem, [data], True, offsets))
        else:
            devc = folder / f"{prefix}_devc.c"
            devc.write_text(blob.blob_source(data))
            written.append(devc)
        if self.options.params == "embed" and self.sources.weights:
            name = f"{prefix}_weights"
            written.append(_include(folder, name, name, self.sources.weights.chunks()))
        return written


def _include(
    folder: Path,
    symbol: str,
    stem: str,
    data: Iterable[bytes | memoryview],
    exported: bool = False,
    inner: Mapping[str, int] | None = None,
) -> Path:
    """Write bytes to a file, and assembly that includes it; return the path of the assembly."""
    included = folder / f"{stem}.bin"
    with included.open("wb") as file:
        file.writelines(data)
    size = included.stat().st_size
    assembler = folder / f"{stem}.S"
    assembler.write_text(blob.include_bytes_assembly(symbol, included.name, size, exported, inner))
    return assembler
