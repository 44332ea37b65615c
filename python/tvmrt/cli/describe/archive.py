"""Describe Model Library Format archives: their metadata and files. The module ``package`` handles
packages of tvmc."""

from __future__ import annotations

import json
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from tvmrt.cli.archive import METADATA, read_member, unpack_code
from tvmrt.cli.describe import Description, dims, graph_json, manifest, package, params
from tvmrt.cli.table import Table
from tvmrt.runtime.archive_errors import archive_error_text
from tvmrt.runtime.package import is_package

QUANTIZED = ("module", "of", "name", "dtype", "scale", "zero point")


def _has_member(archive: tarfile.TarFile, name: str) -> bool:
    return any(member.name in (name, f"./{name}") for member in archive.getmembers())


def _memory_rows(module: str, metadata: dict[str, Any]) -> list[tuple]:
    functions = metadata.get("memory", {}).get("functions", {})
    rows = []
    for main in functions.get("main", []):
        rows.append(
            (
                module,
                "main",
                main.get("workspace_size_bytes", 0),
                main.get("constants_size_bytes", 0),
                main.get("io_size_bytes", 0),
            )
        )
    for function in functions.get("operator_functions", []):
        workspace = sum(w.get("workspace_size_bytes", 0) for w in function.get("workspace", []))
        constants = function.get("constants_size_bytes", 0)
        rows.append((module, function.get("function_name", "?"), workspace, constants, 0))
    return rows


def _quantized_rows(module: str, metadata: dict[str, Any]) -> list[tuple]:
    """Return the tensors whose integers stand for (q - zero point) * scale."""
    mains = metadata.get("memory", {}).get("functions", {}).get("main", [])
    return [
        (module, of, name, tensor["dtype"], tensor["scale"], tensor["zero_point"])
        for main in mains
        for of in ("inputs", "outputs")
        for name, tensor in main.get(of, {}).items()
        if "scale" in tensor
    ]


def _manifests(modules: dict[str, Any]) -> dict[str, Any]:
    """Return the manifest, or one per name for several networks; empty if none is recorded."""
    found = {
        name: manifest.checked(m["manifest"]) for name, m in modules.items() if "manifest" in m
    }
    return next(iter(found.values())) if len(found) == 1 else found


def _add_parts(archive: tarfile.TarFile, description: Description) -> None:
    """Add the weights and graphs in the archive."""
    for member in archive.getmembers():
        if member.name.endswith(".params"):
            data = read_member(archive, member.name)
            inner = params.describe_bytes(data, f"{member.name} in the archive")
            if inner.tables["weights"].rows:
                description.tables[f"weights {Path(member.name).stem}"] = inner.tables["weights"]
        elif "executor-config/graph/" in member.name and member.isfile():
            text = read_member(archive, member.name).decode("utf-8", "replace")
            inner = graph_json.describe_text(text, f"{member.name} in the archive")
            description.properties.update(
                {k: v for k, v in inner.properties.items() if k != "format"}
            )
            description.tables.update({k: inner.tables[k] for k in ("inputs", "outputs")})


def _add_report(archive: tarfile.TarFile, metadata, modules: dict[str, Any], description) -> None:
    """Add pools, operators, code and stack of firmware networks compiled by tvmrt.

    Their C files are compiled for the recorded target with its compiler; they are not run.
    """
    from tvmrt.cli import memory_report
    from tvmrt.compiler.codegen.target import get_target
    from tvmrt.compiler.export.vendors import vendor_includes, vendors_of

    ours = {n: m for n, m in modules.items() if "pools" in m.get("memory", {})}
    if not ours or not _has_member(archive, "Makefile"):
        return
    description.texts.update(memory_report.memory_pairs({**metadata, "modules": ours}))
    description.data["memory"] = {name: _memory(m["memory"]) for name, m in ours.items()}
    name = str(next(iter(ours.values()))["target"][0]).rpartition("-device=")[2]
    with tempfile.TemporaryDirectory(prefix="tvmrt-") as folder:
        try:
            target = get_target(name)
        except ValueError as problem:
            result = memory_report.Measured(None, str(problem))
        else:
            sources, includes = unpack_code(archive, Path(folder))
            includes += vendor_includes(vendors_of(ours.values()))
            result = memory_report.measure_footprint(sources, includes, target)
    if result.footprint is None:
        description.texts["code and stack"] = f"not measured: {result.reason}"
    else:
        description.texts["compiler"] = result.footprint.compiler
        description.texts.update(memory_report.unmeasured_pairs(result.footprint))
        for module_name, module in ours.items():
            text = memory_report.stack_text(result.stack(module), result.footprint.outside)
            description.texts[f"stack of {module_name}"] = text
    description.data["footprint"] = memory_report.as_dict(ours, result)
    description.tables.update(memory_report.tables(ours, result))


def _memory(memory: dict[str, Any]) -> dict[str, Any]:
    """Return the RAM and weights in a network's metadata, without the shares of functions."""
    (main,) = memory["functions"]["main"]
    sizes = {
        "workspace_bytes": main["workspace_size_bytes"],
        "weights_bytes": main["constants_size_bytes"],
    }
    return {**{name: part for name, part in memory.items() if name != "functions"}, **sizes}


def describe(path: Path) -> Description:
    """Describe an archive in Model Library Format, or a package of tvmc."""
    if is_package(path):
        return package.describe(path)
    try:
        with tarfile.open(path) as archive:
            metadata = json.loads(read_member(archive, METADATA))
            modules = metadata.get("modules", {metadata.get("model_name", "default"): metadata})
            description = Description(
                {
                    "format": f"Model Library Format {metadata.get('version', '?')}",
                    "modules": list(modules),
                    "executors": [e for m in modules.values() for e in m.get("executors", [])],
                    "targets": [str(t) for m in modules.values() for t in m["target"]],
                }
            )
            description.manifest = _manifests(modules)
            rows = [row for name, m in modules.items() for row in _memory_rows(name, m)]
            columns = ("module", "function", "workspace", "constants", "inputs and outputs")
            description.tables["memory in bytes"] = Table(columns, rows, columns[:2])
            quantized = [row for name, m in modules.items() for row in _quantized_rows(name, m)]
            if quantized:
                title = "quantised inputs and outputs"
                description.tables[title] = Table(QUANTIZED, quantized, QUANTIZED[:4])
            for name, module in modules.items():
                if "dims" in module:
                    title_suffix = f" of {name}" if len(modules) > 1 else ""
                    description.tables.update(dims.tables(module["dims"], title_suffix))
            _add_report(archive, metadata, modules, description)
            _add_parts(archive, description)
            files = [(m.name, m.size) for m in archive.getmembers() if m.isfile()]
            description.tables["files"] = Table(("file", "bytes"), files, ("file",))
            return description
    except (
        tarfile.TarError, ValueError, EOFError, LookupError, TypeError, AttributeError,
        RecursionError,  # tarfile recurses for each extended header before a member
    ) as error:  # fmt: skip
        text = archive_error_text(error).partition(";")[0]
        raise ValueError(
            f"{path} is not a Model Library Format archive ({text}); "
            "'tvmrt compile MODEL.onnx -o OUT.tar' writes one"
        ) from None
