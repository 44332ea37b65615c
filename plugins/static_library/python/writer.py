"""A firmware network as a static library, ``mod.a``, and its header ``tvmgen_<name>.h``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tvmrt.compiler.sdk.codegen import firmware_header_name
from tvmrt.compiler.sdk.export import ERRORS, has_foreign_code, runtime_sources, scratch_folder
from tvmrt.error import UnsupportedError
from tvmrt.option_syntax import compile_call, option
from tvmrt.plugin import Exporter
from tvmrt.plugins.static_library.build import Builder

_EXAMPLE_TARGET = "cortex-r5f"


class StaticLibrary(Exporter):
    """Writes ``mod.a`` and ``tvmgen_<name>.h``."""

    def defaults(self, name: str) -> dict[str, Any]:
        """Return the options of TVM's C interface."""
        return {"runtime": "crt", "executor": "aot", "unpacked_api": True, "interface_api": "c"}

    def files(self, library: Any, name: str) -> dict[str, str | bytes]:
        """Return the library and the header.

        Raises ValueError for another interface, UnsupportedError for a network that needs code from
        elsewhere, and CompileError if a compiler is missing or fails.
        """
        _check(library, name)
        header = firmware_header_name(library.sources.prefix)
        with scratch_folder() as folder:
            archive = _build(library, folder, name)
        text = _with_tvm_types(library.sources.files[header], library.sources.prefix)
        return {name: archive, header: text}


def _check(library: Any, name: str) -> None:
    options, sources = library.options, library.sources
    if not options.firmware or options.interface_api != "c":
        call = compile_call(name, target=_EXAMPLE_TARGET, interface_api="c")
        raise ValueError(
            f"{name}: a .a file has the C interface of the AOT executor, and this network has "
            f"another; compile it with {option('executor', 'aot')} and "
            f"{option('interface_api', 'c')}, for example {call}, or write a folder or a .tar"
        )
    if options.traced:
        raise UnsupportedError(f"{name}: profile and record need a folder or a .tar, not a .a file")
    if sources.vendors:
        titles = ", ".join(sorted({vendor.title for vendor in sources.vendors.values()}))
        raise UnsupportedError(
            f"{name}: the network calls {titles}, which is not part of tvmrt; write a folder or a "
            ".tar, whose Makefile builds it, too"
        )


def _build(library: Any, folder: Path, name: str) -> bytes:
    """Compile all C files in a folder, and return the archive of the objects."""
    sources = library.sources
    foreign = has_foreign_code(library)
    library.write_sources(folder)
    files = {path.name: path.name for path in folder.glob("*.c")}
    # only foreign C code calls functions of the backend
    for path, text in (runtime_sources([ERRORS], True) if foreign else {}).items():
        own = folder / "runtime" / path
        own.parent.mkdir(parents=True, exist_ok=True)
        own.write_text(text, encoding="utf-8")
        if own.suffix == ".c":
            files[f"runtime_{own.name}"] = str(own.relative_to(folder))
    builder = Builder(library.target, library.compiler, name)
    objects = builder.compile(folder, files, sources.flags)
    for member, data in sorted(sources.objects.items()):
        (folder / member).write_bytes(data)
        objects.append(member)
    return builder.archive(folder, objects)


def _with_tvm_types(header: str, prefix: str) -> str:
    """Return the header with the members of the inputs as TVM declares them: ``void *``."""
    struct = re.compile(rf"(?<=struct {prefix}_inputs {{\n)[^}}]*")
    return struct.sub(lambda found: found.group().replace("const void *", "void *"), header)
