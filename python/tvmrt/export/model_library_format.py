"""The Model Library Format, version 7: an uncompressed tar of sources, parameters and metadata.

Layout and keys are those that project generators written for TVM 0.9 to 0.18 read. Weights that
a shared library takes from an assembled object are here a C array of bytes, so that any C
compiler builds the archive.
"""

from __future__ import annotations

import io
import json
import tarfile
import time
from math import prod
from pathlib import Path

from tvmrt.ir import DTYPES
from tvmrt.libinfo import __version__

from . import blob
from .firmware_build import makefile, runtime_headers

VERSION = 7
CPU = 1  # DLDeviceType


def write_archive(library, path: Path) -> None:
    """Write the archive of a CompiledLibrary. Equal networks give equal files but for the date."""
    name = library.module_name
    with tarfile.open(path, "w") as tar:
        folders = ["codegen", "codegen/host", "codegen/host/src", "parameters", "src"]
        if library.options.firmware:
            folders += ["codegen/host/include", "runtime", "runtime/include"]
        for folder in folders:
            _add_folder(tar, folder)
        for file_name, text in sorted(source_files(library).items()):
            place = "include" if file_name.endswith(".h") else "src"
            _add(tar, f"codegen/host/{place}/{file_name}", text.encode())
        _add(tar, f"parameters/{name}.params", blob.params(library.get_params()))
        _add(tar, f"src/{name}.txt", library.print_program().encode())
        if library.has_graph_json:
            graph = library.get_graph_json().encode()
            _add(tar, f"executor-config/graph/{name}.graph", graph)
        if library.options.firmware:
            files = source_files(library).values()
            for header, text in sorted(runtime_headers(files).items()):
                _add(tar, f"runtime/include/{header}", text.encode())
            _add(tar, "Makefile", makefile(library).encode())
        text = json.dumps(metadata(library), indent=2, sort_keys=True)
        _add(tar, "metadata.json", text.encode())


def source_files(library) -> dict[str, str]:
    """All C files by name, the weights as C text."""
    files = dict(library.sources.files)
    prefix = library.sources.prefix
    if library.options.params == "embed" and library.sources.weights:
        files[f"{prefix}_weights.c"] = byte_array(f"{prefix}_weights", library.sources.weights)
    return files


def byte_array(symbol: str, data: bytes) -> str:
    """C text of an aligned constant array of bytes."""
    lines = [
        "/* All weights, one after the other. */",
        "#if defined(__GNUC__)",
        '#define TVMGEN_ALIGNED __attribute__((aligned(64), visibility("hidden")))',
        "#else",
        "#define TVMGEN_ALIGNED",
        "#endif",
        f"extern const unsigned char {symbol}[{len(data)}];",
        f"const unsigned char {symbol}[{len(data)}] TVMGEN_ALIGNED = {{",
    ]
    for i in range(0, len(data), 24):
        lines.append("  " + ",".join(map(str, data[i : i + 24])) + ",")
    return "\n".join([*lines, "};", ""])


def metadata(library) -> dict:
    """The content of metadata.json."""
    summary = library.summary
    io_bytes = sum(t.nbytes for t in [*summary.inputs, *summary.outputs])
    single = len(summary.outputs) == 1
    outputs = {
        "output" if single else f"output{i}": {"size": t.nbytes, "dtype": t.dtype}
        for i, t in enumerate(summary.outputs)
    }
    main = {
        "device": CPU,
        "workspace_size_bytes": summary.arena_bytes,
        "constants_size_bytes": summary.weights_bytes,
        "io_size_bytes": io_bytes,
        "inputs": {t.name: {"size": t.nbytes, "dtype": t.dtype} for t in summary.inputs},
        "outputs": outputs,
    }
    module = {
        "model_name": library.module_name,
        "export_datetime": time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime()),
        "target": [f"c -keys=cpu -device={library.target.name}"],
        "executors": [library.options.executor],
        "style": "full-model",
        "memory": {
            "functions": {
                "main": [main],
                "operator_functions": [
                    {
                        "function_name": function.symbol,
                        "workspace": [
                            {
                                "device": CPU,
                                "workspace_size_bytes": function.step.scratch_bytes,
                            }
                        ],
                    }
                    for function in library.sources.functions
                ],
            }
        },
        "tvmrt_version": __version__,
    }
    if library.has_graph_json:
        module["memory"]["sids"] = _storages(library)
    return {"version": VERSION, "modules": {library.module_name: module}}


def _storages(library) -> list[dict]:
    """Size of every storage of the graph JSON; inputs and outputs name what is bound to them."""
    graph = json.loads(library.get_graph_json())
    sizes: dict[int, int] = {}
    names: dict[int, str] = {}
    attrs = graph["attrs"]
    columns = zip(attrs["storage_id"][1], attrs["dltype"][1], attrs["shape"][1])
    for sid, dtype, shape in columns:
        sizes[sid] = max(sizes.get(sid, 0), DTYPES[dtype].itemsize * prod(shape))
    for node in graph["arg_nodes"]:
        entry = graph["node_row_ptr"][node]
        names[attrs["storage_id"][1][entry]] = graph["nodes"][node]["name"]
    rows = [{"storage_id": sid, "size_bytes": size} for sid, size in sorted(sizes.items())]
    for row in rows:
        if row["storage_id"] in names:
            row["input_binding"] = names[row["storage_id"]]
    return rows


def _add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    info = tarfile.TarInfo(f"./{name}")
    info.size = len(data)
    info.mode = 0o644
    _own(info)
    tar.addfile(info, io.BytesIO(data))


def _add_folder(tar: tarfile.TarFile, name: str) -> None:
    info = tarfile.TarInfo(f"./{name}")
    info.type = tarfile.DIRTYPE
    info.mode = 0o755
    _own(info)
    tar.addfile(info)


def _own(info: tarfile.TarInfo) -> None:
    info.uid = info.gid = 0
    info.uname = info.gname = "root"
