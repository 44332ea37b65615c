"""The Model Library Format, version 7: an uncompressed tar of sources, parameters and metadata.

Layout and keys are those that project generators for TVM 0.9 to 0.18 read. Weights are a C array
of bytes instead of an assembled object as in a shared library, so that any C compiler builds the
archive.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from tvmrt.compiler.codegen.entries.device_hooks import hooked_devices
from tvmrt.compiler.codegen.entries.model_metadata import model_metadata
from tvmrt.compiler.codegen.entries.symbolic_dims import describe_dims
from tvmrt.compiler.codegen.pools import io_in_pools
from tvmrt.compiler.ir import ModuleBlob
from tvmrt.compiler.ir.custom import kernel_record
from tvmrt.compiler.ir.region import region_of
from tvmrt.libinfo import __version__

from . import blob
from .firmware_build import APPLICATION_HEADERS, SIZED_GRAPH, makefile, runtime_sources
from .firmware_cmake import cmake_lists
from .firmware_graph import arena_bytes, storage_bytes
from .firmware_templates import templates
from .headers import runtime_headers
from .summary import summary_of_pool
from .vendors import vendor_rows

VERSION = 7
CPU = 1  # DLDeviceType
DATE = 946684800  # 2000-01-01; tar warns about much older dates


def write_archive(libraries: Sequence, path: Path, image=None) -> None:
    """Write the archive of CompiledLibrary objects, with one module each.

    ``image`` is the CompiledImage of networks that were compiled together. Equal networks give
    equal bytes, independent of place and time.
    """
    with tarfile.open(path, "w") as tar:
        firmware = any(library.options.firmware for library in libraries)
        objects = [row for library in libraries for row in sorted(library.sources.objects.items())]
        folders = ["codegen", "codegen/host", "codegen/host/src"]
        folders += ["codegen/host/lib"] if objects else []
        folders += ["codegen/host/include", "runtime", "runtime/include"] if firmware else []
        for folder in [*folders, "parameters", "src"]:
            _add(tar, folder, None)
        files = {} if image is None else dict(image.files)
        for library in libraries:
            files.update(source_files(library))
        for file_name, text in sorted(files.items()):
            place = "include" if file_name.endswith(".h") else "src"
            _add(tar, f"codegen/host/{place}/{file_name}", text.encode())
        for file_name, data in objects:
            _add(tar, f"codegen/host/lib/{file_name}", data)
        for library in libraries:
            _add_network(tar, library)
        if firmware:
            _add(tar, "templates", None)
            for template, text in templates().items():
                _add(tar, f"templates/{template}", text.encode())
            # C functions are called directly, other networks by an executor
            executors = {
                lib.options.executor for lib in libraries if lib.options.interface_api != "c"
            }
            if "graph" in executors and any(lib.program.has_dynamic_dims() for lib in libraries):
                executors.add(SIZED_GRAPH)
            sources = runtime_sources(executors, any(map(has_foreign_code, libraries)))
            for source, text in sources.items():
                _add(tar, f"runtime/{source}", text.encode())
            texts = [*files.values(), *sources.values(), *templates().values(), APPLICATION_HEADERS]
            first = libraries[0].target
            headers = runtime_headers(texts, first)
            for header, text in sorted(headers.items()):
                _add(tar, f"runtime/include/{header}", text.encode())
            flags = {k: v for library in libraries for k, v in library.sources.flags.items()}
            name = libraries[0].module_name if image is None else image.name
            content = _digest([*texts, *(text for _, text in sorted(headers.items()))], objects)
            vendors = {k: v for library in libraries for k, v in library.sources.vendors.items()}
            name = name or "network"
            text = makefile(name, first, flags, content, vendors, headers)
            _add(tar, "Makefile", text.encode())
            _add(tar, "CMakeLists.txt", cmake_lists(name, first, flags, vendors).encode())
        text = json.dumps(metadata(libraries, image), indent=2, sort_keys=True)
        _add(tar, "metadata.json", text.encode())


def has_foreign_code(library) -> bool:
    """Return whether it has foreign C code: bodies of custom operators, code of devices."""
    roots = [step.group.root for step in library.program.steps]
    return any(kernel_record(root) is not None or region_of(root) is not None for root in roots)


def _digest(texts: Sequence[str], objects: Sequence[tuple[str, bytes]]) -> str:
    """Return a hash of everything that is compiled."""
    digest = hashlib.sha256()
    for data in [*map(str.encode, texts), *(data for _, data in objects)]:
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()[:16]


def _add_network(tar: tarfile.TarFile, library) -> None:
    """Add the parts other than C: parameters, steps as text, graph, modules of devices."""
    name = library.module_name
    _add(tar, f"parameters/{name}.params", blob.params(library.get_params()))
    if library.options.weights_in_blob:
        _add(tar, f"parameters/{name}.bin", library.weights_blob())
    _add(tar, f"src/{name}.txt", library.print_program().encode())
    if library.has_graph_json:
        _add(tar, f"executor-config/graph/{name}.graph", library.get_graph_json().encode())
    for file_name, module in device_modules(library):
        _add(tar, file_name, module.payload)


def device_modules(library) -> list[tuple[str, ModuleBlob]]:
    """Return the modules that the network imports, with their paths in the archive."""
    return [
        (f"devices/{library.module_name}/{module.type_key}_{i}.bin", module)
        for i, module in enumerate(library.sources.modules)
    ]


def source_files(library) -> dict[str, str]:
    """Return all C files by name, with the weights as C text."""
    files = dict(library.sources.files)
    prefix = library.sources.prefix
    if library.options.params == "embed" and library.sources.weights:
        files[f"{prefix}_weights.c"] = byte_array(
            f"{prefix}_weights", bytes(library.sources.weights)
        )
    if library.sources.device_constants:
        files[f"{prefix}_held.h"] = _module_constants(library.held_places())
    if library.sources.modules:  # the archive is linked to a library with its devices' modules
        files[f"{prefix}_devc.c"] = blob.blob_source(
            library.blob(), shared=not library.sources.device_constants
        )
    return files


def _module_constants(offsets: Mapping[str, int]) -> str:
    """Return C text with constants as expressions, because C has no symbols inside arrays."""
    lines = [
        "/* Weights that are stored with those of devices' regions. */",
        "extern const unsigned char __tvm_dev_mblob[];",
        *(f"#define {name} (__tvm_dev_mblob + {place})" for name, place in offsets.items()),
    ]
    return "\n".join([*lines, ""])


def byte_array(symbol: str, data: bytes) -> str:
    """Return C text of an aligned constant array of bytes."""
    lines = [
        "/* All weights. */",
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


def metadata(libraries: Sequence, image=None) -> dict:
    """Return the content of metadata.json; ``image`` adds the shared parts of networks."""
    content = {"version": VERSION, "modules": {lib.module_name: _module(lib) for lib in libraries}}
    if image is not None:
        content["image"] = {
            "name": image.name,
            "concurrent": image.concurrent,
            "workspace_size_bytes": image.arena_bytes,
            "constants_size_bytes": image.weights_bytes,
            "pools": [asdict(summary_of_pool(pool)) for pool in image.pools],
        }
    return content


def _module(library) -> dict:
    summary = library.summary
    module = {
        "model_name": library.module_name,
        "export_datetime": time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(_date())),
        "target": [f"c -keys=cpu -device={library.target.name}"],
        "executors": [library.options.executor],
        "style": "full-model",
        "memory": {
            "functions": {
                "main": [_main_function(summary)],
                "operator_functions": [_operator_function(o) for o in summary.operators],
            },
            "pools": [asdict(pool) for pool in summary.pools],
            "lower_bound_bytes": summary.lower_bound_bytes,
        },
        "model_metadata": model_metadata(library.program, library.sources, library.options),
        "tvmrt_version": __version__,
        "manifest": library.manifest,
    }
    if summary.row_plans:
        module["memory"]["row_plans"] = [asdict(plan) for plan in summary.row_plans]
    if library.program.has_dynamic_dims():
        module["dims"] = describe_dims(library.program)
    if library.has_graph_json:
        module["memory"]["sids"] = _storages(library)
    if library.has_graph_json and library.options.firmware:
        nbytes = arena_bytes(library.get_graph_json(), library.get_params())
        module["memory"]["graph_executor_bytes"] = nbytes
    if library.options.firmware:
        module["interface"] = _interface(library)
        module["external_dependencies"] = [
            {
                "short_name": "tvm_standalone_crt",
                "url": "./runtime",
                "url_type": "mlf_path",
                "version_spec": __version__,
            },
            *vendor_rows(dict.fromkeys(library.sources.vendors.values())),
        ]
    if library.options.weights_in_blob:
        module["weights"] = {
            "file": f"parameters/{library.module_name}.bin",
            "layout": f"{library.sources.layout:016x}",
            "size_bytes": len(library.weights_blob()),
        }
    if library.sources.modules:
        module["device_modules"] = [path for path, _ in device_modules(library)]
    return module


def _interface(library) -> dict:
    """Return how a program calls the network: dimensions have their maximum."""
    program, options = library.program, library.options
    return {
        "api": options.interface_api,
        "checksum": library.sources.network_id,
        "workspace_io": io_in_pools(program),
        "dims": [symbol.high for symbol in program.dims()],
        "counts": [symbol.name for symbol in program.data_dependent_dims],
        "device_hooks": hooked_devices(program),
        "cycle_counter": options.profile,
    }


def _main_function(summary) -> dict:
    single = len(summary.outputs) == 1
    outputs = {
        "output" if single else f"output{i}": _tensor(t) for i, t in enumerate(summary.outputs)
    }
    return {
        "device": CPU,
        "workspace_size_bytes": summary.arena_bytes,
        "constants_size_bytes": summary.weights_bytes,
        "io_size_bytes": sum(t.nbytes for t in [*summary.inputs, *summary.outputs]),
        "inputs": {t.name: _tensor(t) for t in summary.inputs},
        "outputs": outputs,
    }


def _tensor(tensor) -> dict:
    """Return the classic keys; quantised tensors have scale and zero_point, too."""
    row = {"size": tensor.nbytes, "dtype": tensor.dtype}
    if tensor.scale is not None:
        row.update(scale=tensor.scale, zero_point=tensor.zero_point)
    return row


def _operator_function(operator) -> dict:
    """Return the classic keys, and further properties of the function."""
    return {
        "function_name": operator.symbol,
        "workspace": [{"device": CPU, "workspace_size_bytes": operator.scratch_bytes}],
        "constants_size_bytes": operator.weights_bytes,
        "live_size_bytes": operator.live_bytes,
        "nodes": operator.onnx_nodes,
    }


def _storages(library) -> list[dict]:
    """Return the size of every storage of the graph JSON, with the names of bound inputs."""
    graph = json.loads(library.get_graph_json())
    sids, entries = graph["attrs"]["storage_id"][1], graph["node_row_ptr"]
    names = {sids[entries[i]]: graph["nodes"][i]["name"] for i in graph["arg_nodes"]}
    rows = []
    for sid, size in sorted(storage_bytes(graph).items()):
        bound = {"input_binding": names[sid]} if sid in names else {}
        rows.append({"storage_id": sid, "size_bytes": size, **bound})
    return rows


def _add(tar: tarfile.TarFile, name: str, data: bytes | None) -> None:
    """Add a file, or a folder if there is no ``data``."""
    info = tarfile.TarInfo(f"./{name}")
    info.mode = 0o644
    if data is None:
        info.type, info.mode = tarfile.DIRTYPE, 0o755
    info.size = len(data or b"")
    info.uid = info.gid = 0
    info.uname = info.gname = "root"
    info.mtime = _date()
    tar.addfile(info, io.BytesIO(data or b""))


def _date() -> int:
    """Return the date of an archive in seconds since 1970: SOURCE_DATE_EPOCH, otherwise a constant,
    so that equal networks give equal archives."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    return int(epoch) if epoch.isdecimal() else DATE
