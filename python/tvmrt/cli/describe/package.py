"""Describe packages of ``tvmc compile``: their library, graph and parameters."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tvmrt.cli.describe import Description, graph_json, library, params
from tvmrt.cli.table import Table
from tvmrt.runtime.package import NETWORK, read_package


def describe(path: Path) -> Description:
    """Describe a package without running any of its code."""
    package = read_package(path)
    properties = {"format": "package of tvmc", "executor": "graph", "module_name": NETWORK}
    description = Description(properties)
    graph = graph_json.describe_text(package.graph, f"mod.json in {path}")
    properties.update({k: v for k, v in graph.properties.items() if k != "format"})
    description.tables.update(graph.tables)
    weights = params.describe_bytes(package.params, f"mod.params in {path}")
    description.tables["weights"] = weights.tables["weights"]
    if package.library_name.endswith(".so"):
        with tempfile.TemporaryDirectory(prefix="tvmrt-") as folder:
            file = Path(folder, package.library_name)
            file.write_bytes(package.library)
            try:
                inner = library.describe(file)
            except ValueError as error:
                where = f"{package.library_name} in {path}"
                raise ValueError(str(error).replace(str(file), where)) from None
        for name in ("machine", "needs_libraries", "needs_of_runtime"):
            properties[name] = inner.properties[name]
        description.tables["symbols"] = inner.tables["symbols"]
    sizes = [
        (package.library_name, len(package.library)),
        ("mod.json", len(package.graph.encode())),
        ("mod.params", len(package.params)),
    ]
    description.tables["files"] = Table(("file", "bytes"), sizes, ("file",))
    return description
