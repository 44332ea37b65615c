"""A network as WebAssembly: a module and its loader, or a script with both."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tvmrt.compiler.sdk.codegen import module_name_of
from tvmrt.compiler.sdk.export import scratch_folder
from tvmrt.error import UnsupportedError
from tvmrt.option_syntax import option
from tvmrt.plugin import Exporter
from tvmrt.plugins.wasm import build, typescript

TARGET = "wasm32"


class _Format(Exporter):
    def defaults(self, name: str) -> dict[str, Any]:
        """Return the target and the C interface; the functions are named after the file."""
        return {
            "target": TARGET, "runtime": "crt", "executor": "aot", "unpacked_api": True,
            "interface_api": "c",
            "module_name": module_name_of(Path(name).stem),
        }  # fmt: skip


class Module(_Format):
    """Writes ``net.wasm``, its loader ``net.mjs``, and the loader's types twice: ``net.d.ts``, and
    ``net.d.mts``, which TypeScript reads for imports of ``net.mjs``."""

    def files(self, library: Any, name: str) -> dict[str, str | bytes]:
        """Return the files. Raises the errors of :func:`_module`."""
        stem = Path(name).stem
        module = _module(library, name)
        # bundlers copy the file that such an expression names, and replace the address
        address = f"new URL({json.dumps('./' + quote(name))}, import.meta.url)"
        types = typescript.declarations(network(library), _title(library))
        return {
            name: module,
            f"{stem}.mjs": f"{_loader(library)}\nconst FILE = {address};\n\n{_text('module.mjs')}",
            f"{stem}.d.ts": types,
            f"{stem}.d.mts": types,
        }


class Package(Module):
    """Writes a folder for npm: the files of :class:`Module` and ``package.json``."""

    def export(self, library: Any, path: Path) -> None:
        """Write the files into a folder. Raises the errors of :func:`_module`."""
        name = library.options.module_name
        files = self.files(library, f"{name}.wasm")
        files["package.json"] = json.dumps(_package(name, list(files)), indent=2) + "\n"
        for file, content in files.items():
            data = content if isinstance(content, bytes) else content.encode()
            (path / file).write_bytes(data)


def _package(name: str, files: list[str]) -> dict[str, Any]:
    """Return the description of a package, whose name has the characters that npm allows."""
    loader, types = f"./{name}.mjs", f"./{name}.d.mts"
    return {
        "name": name.lower().strip("_").replace("_", "-") or "network",
        "version": "1.0.0",
        "type": "module",
        "exports": {".": {"types": types, "default": loader}, f"./{name}.wasm": f"./{name}.wasm"},
        "types": types,
        "files": files,
        "sideEffects": False,
    }


class Script(_Format):
    """Writes ``net.js``: a script with the module in base64, which defines a global variable."""

    def files(self, library: Any, name: str) -> dict[str, str | bytes]:
        """Return the file. Raises the errors of :func:`_module`."""
        data = base64.b64encode(_module(library, name)).decode()
        variable = re.sub(r"\W", "_", Path(name).stem, flags=re.ASCII)
        variable = f"_{variable}" if variable[0].isdigit() else variable
        return {
            name: f"{_title(library)}(() => {{\n{_loader(library, '')}\n"
            f'const DATA = "{data}";\n'
            "const load = () => start(Uint8Array.from(atob(DATA), (c) => c.charCodeAt(0)));\n"
            'if (typeof module === "object" && module.exports) module.exports = { load };\n'
            # not assigned: name, for example, is a property of pages that keeps only texts
            f'else Object.defineProperty(globalThis, "{variable}", '
            "{ value: { load }, configurable: true, writable: true });\n"
            "})();\n"
        }


def network(library: Any) -> dict[str, Any]:
    """Return what the loader knows of a network: inputs, outputs and dynamic dimensions."""
    summary = library.summary

    def rows(tensors: Any) -> list[dict[str, Any]]:
        return [{"name": t.name, "dtype": t.dtype, "shape": list(t.shape)} for t in tensors]

    dims = [
        {"name": symbol.name, "min": int(symbol.low), "max": int(symbol.high)}
        for symbol, _ in build.dims(library)
    ]
    return {"inputs": rows(summary.inputs), "outputs": rows(summary.outputs), "dims": dims}


def _module(library: Any, name: str) -> bytes:
    """Return the WebAssembly module.

    Raises ValueError for another target or interface, UnsupportedError for a network that
    WebAssembly cannot hold, and CompileError without a C compiler.
    """
    _check(library, name)
    build.check_memory(library, name)
    with scratch_folder() as folder:
        return build.compile_module(library, folder)


def _check(library: Any, name: str) -> None:
    options, sources = library.options, library.sources
    if library.target.name != TARGET or options.interface_api != "c" or not options.unpacked_api:
        raise ValueError(
            f"{name}: WebAssembly needs {option('target', TARGET)} and "
            f"{option('interface_api', 'c')}"
        )
    lent = [pool.name for pool in library.program.pools if pool.is_external]
    if lent or options.traced or options.weights_in_blob:
        raise UnsupportedError(
            f"{name}: the loader passes only inputs and outputs; omit profile, record, pools that "
            f"the caller provides and {option('params', 'file')}, or write a folder of C files"
        )
    if library.program.data_dependent_dims:
        raise UnsupportedError(
            f"{name}: sizes of outputs depend on the data, which the loader cannot read; write a "
            "folder of C files"
        )
    if sources.objects or any(sources.flags.values()) or sources.vendors:
        raise UnsupportedError(
            f"{name}: devices or custom operators of the network need objects, compiler options or "
            "libraries, which are not for WebAssembly; omit them"
        )


def _title(library: Any) -> str:
    """Return the comment at the top of generated files."""
    first = next(iter(library.sources.files.values()))
    title: str = first.split("*/", 1)[0]
    return title + "*/\n"


def _loader(library: Any, title: str | None = None) -> str:
    """Return the part of the loader that both formats have."""
    start = _title(library) if title is None else title
    return f"{start}const NETWORK = {json.dumps(network(library))};\n{_text('loader.js')}"


def _text(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")
