"""A Model Library Format archive: what its metadata promise and which files it holds."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

from tvmrt.cli.describe import Description, Table, graph_json, params

METADATA = "metadata.json"


def _read_member(archive: tarfile.TarFile, name: str) -> bytes:
    for candidate in (name, f"./{name}"):
        try:
            stream = archive.extractfile(candidate)
        except KeyError:
            continue
        if stream is not None:
            return stream.read()
    raise ValueError(f"there is no file {name} in it")


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
        rows.append((module, function.get("function_name", "?"), workspace, 0, 0))
    return rows


def _add_parts(archive: tarfile.TarFile, description: Description) -> None:
    """Add the weights and graphs that the archive holds."""
    for member in archive.getmembers():
        if member.name.endswith(".params"):
            data = _read_member(archive, member.name)
            inner = params.describe_bytes(data, f"{member.name} in the archive")
            description.tables[f"weights {Path(member.name).stem}"] = inner.tables["weights"]
        elif "executor-config/graph/" in member.name and member.isfile():
            text = _read_member(archive, member.name).decode("utf-8", "replace")
            inner = graph_json.describe_text(text, f"{member.name} in the archive")
            description.facts.update({k: v for k, v in inner.facts.items() if k != "format"})
            description.tables.update({k: inner.tables[k] for k in ("inputs", "outputs")})


def describe(path: Path) -> Description:
    """Describe an archive."""
    try:
        with tarfile.open(path) as archive:
            metadata = json.loads(_read_member(archive, METADATA))
            modules = metadata.get("modules", {metadata.get("model_name", "default"): metadata})
            description = Description(
                {
                    "format": f"Model Library Format {metadata.get('version', '?')}",
                    "modules": ", ".join(modules),
                    "executors": ", ".join(
                        e for m in modules.values() for e in m.get("executors", [])
                    ),
                    "targets": ", ".join(str(t) for m in modules.values() for t in m["target"]),
                }
            )
            rows = [row for name, m in modules.items() for row in _memory_rows(name, m)]
            columns = ("module", "function", "workspace", "constants", "inputs and outputs")
            description.tables["memory in bytes"] = Table(columns, rows, columns[:2])
            _add_parts(archive, description)
            files = [(m.name, m.size) for m in archive.getmembers() if m.isfile()]
            description.tables["files"] = Table(("file", "bytes"), files, ("file",))
            return description
    except (tarfile.TarError, ValueError, EOFError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"{path} is not a Model Library Format archive ({error}); "
            "'tvmrt compile MODEL.onnx -o OUT.tar' writes one"
        ) from None
