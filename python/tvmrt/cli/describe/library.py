"""Describe compiled shared libraries: functions, dependencies, and the embedded module tree."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from tvmrt.cli.describe import Description, dims, graph_json, manifest, params
from tvmrt.cli.describe.binary_reader import BinaryReader
from tvmrt.cli.elf import UNDEFINED, ElfFile
from tvmrt.cli.table import Table
from tvmrt.compiler.codegen.manifest import SYMBOL as MANIFEST

BLOB = "__tvm_dev_mblob"
EXECUTORS = {
    "GraphExecutorFactory": "graph",
    "GraphRuntimeFactory": "graph",  # name before TVM 0.8
    "AotExecutorFactory": "aot",
}
DIMS = "_dims_text"  # symbol suffix of the description of dynamic dimensions
LEVELS = "__tvmrt_levels"  # symbol of the ISA levels, in a library with several ISA variants
NEEDS = "__tvmrt_needs"  # symbol of the required ISA level, in a library with one ISA variant
RUNTIME_PREFIXES = ("TVM", "tvmrt_")


@dataclass(frozen=True)
class Factory:
    """An executor factory: ``name`` is the factory function; ``graph`` is "" for AOT."""

    executor: str
    name: str
    graph: str
    tensors: dict[str, params.TensorHeader]


def _read_factory(stream: BinaryReader, kind: str) -> Factory:
    executor = EXECUTORS[kind]
    graph = stream.string() if executor == "graph" else ""
    count = stream.count(8)
    names = stream.strings()
    if len(names) != count:
        raise stream.fail("the number of tensors differs from the number of names")
    tensors = params.read_tensors(stream, names)
    return Factory(executor, stream.string(), graph, tensors)


def _read_constants(stream: BinaryReader) -> dict:
    names = stream.strings()
    stream.unpack("Q")
    tensors = params.read_tensors(stream, names)
    stream.strings()
    for _ in range(stream.count(8)):
        stream.strings()
    return tensors


def _add_factory(factory: Factory, what: str, description: Description) -> None:
    description.properties.update(executor=factory.executor, module_name=factory.name)
    if factory.graph:
        inner = graph_json.describe_text(factory.graph, f"the graph in {what}")
        del inner.properties["format"]
        description.properties.update(inner.properties)
        description.tables.update(inner.tables)
    if factory.tensors:
        description.tables["weights"] = params.tensor_table(factory.tensors)


def _describe_blob(blob: bytes, what: str, description: Description) -> None:
    """Add the embedded module tree to a description, up to the first unknown kind."""
    outer = BinaryReader(blob, what)
    stream = BinaryReader(outer.take(outer.count(1)), what)
    kinds = []
    for _ in range(stream.count(8)):
        kind = stream.string()
        kinds.append(kind)
        if kind in EXECUTORS:
            _add_factory(_read_factory(stream, kind), what, description)
        elif kind in ("const_loader", "metadata"):
            description.tables["constants"] = params.tensor_table(_read_constants(stream))
        elif kind == "_import_tree":
            stream.words()
            stream.words()
        elif kind not in ("_lib", "metadata_module"):
            kinds.append("...")
            break
    description.properties["modules"] = [k for k in kinds if k != "_import_tree"]


def _describe_dims(text: bytes, path: Path, description: Description) -> None:
    """Add the dynamic dimensions and the tensors that have them."""
    try:
        description.tables.update(dims.tables(json.loads(text.rstrip(b"\0"))))
    except (ValueError, TypeError, KeyError, AttributeError):
        raise ValueError(f"{path}: its dimensions cannot be read; compile it again") from None


def describe(path: Path) -> Description:
    """Describe a shared library without loading it."""
    elf = ElfFile(path)
    symbols = elf.symbols()
    defined = [symbol for symbol in symbols if symbol.section != UNDEFINED]
    wanted = sorted(symbol.name for symbol in symbols if symbol.section == UNDEFINED)
    properties = {
        "format": "shared library",
        "machine": elf.machine,
        "file_bytes": len(elf.data),
        **{f"{kind}_bytes": count for kind, count in elf.loaded_bytes().items()},
        "needs_libraries": elf.needed(),
        "needs_of_runtime": [n for n in wanted if n.startswith(RUNTIME_PREFIXES)],
    }
    description = Description(properties)
    for symbol in defined:
        if symbol.name == BLOB:
            _describe_blob(elf.bytes_of(symbol), f"the module tree in {path}", description)
        elif symbol.name == LEVELS:
            names = elf.bytes_of(symbol).rstrip(b"\0").decode("ascii", "replace")
            properties["levels"] = names.split(",")
        elif symbol.name == NEEDS:
            needs = elf.bytes_of(symbol).rstrip(b"\0").decode("ascii", "replace")
            properties["needs_processor"] = needs or f"any {elf.machine}"
        elif symbol.name == MANIFEST:
            description.manifest = manifest.of_library(elf, symbol)
        elif symbol.name.startswith("tvmgen_") and symbol.name.endswith(DIMS):
            _describe_dims(elf.bytes_of(symbol), path, description)
    rows = sorted((symbol.name, symbol.size) for symbol in defined)
    description.tables["symbols"] = Table(("symbol", "bytes"), rows, left=("symbol",))
    return description
