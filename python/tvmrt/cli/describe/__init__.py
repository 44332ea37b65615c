"""Descriptions of files: one module per format, each with ``describe(path) -> Description``.

No code in a file is executed, and sizes in it are checked before use. A damaged file raises a
ValueError that names the position.
"""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tvmrt import conversion, plugin
from tvmrt.cli.table import Table
from tvmrt.file_suffix import suffix_of

if TYPE_CHECKING:
    from tvmrt.compiler.ir import Graph

FORMATS = {
    ".onnx": "tvmrt.cli.describe.onnx_model",
    ".so": "tvmrt.cli.describe.library",
    ".tar": "tvmrt.cli.describe.archive",
    ".params": "tvmrt.cli.describe.params",
    ".json": "tvmrt.cli.describe.graph_json",
}

OTHER_LIBRARIES = (".dll", ".dylib")  # the error names the system that they are for


@dataclass
class Description:
    """Facts by name, and tables by title, with shapes as tuples. ``manifest`` is the manifest of a
    compiled network, or maps the names of several networks to theirs. ``texts`` are lines for
    people; ``data`` is the underlying data."""

    properties: dict[str, Any]
    tables: dict[str, Table] = field(default_factory=dict)
    manifest: dict[str, Any] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    data: dict[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return the description as JSON data; each table is a list of objects under its title."""
        tables = {
            title: [dict(zip(table.columns, row)) for row in table.rows]
            for title, table in self.tables.items()
        }
        manifest = {"manifest": self.manifest} if self.manifest else {}
        return {**self.properties, **self.data, **manifest, **tables}


def import_verdict(load: Callable[[], Graph]) -> tuple[dict[str, Any], Graph | None]:
    """Return whether a network can be imported, with the error if not; and its graph."""
    from tvmrt.cli.app import one_line
    from tvmrt.error import TVMError

    try:
        graph = load()
    except (TVMError, ValueError, TypeError, KeyError, OSError, ImportError) as error:
        return {"can_be_imported": False, "why_not": one_line(error)}, None
    return {"can_be_imported": True}, graph


def describe(path: Path) -> Description:
    """Describe a file by the format of its suffix."""
    suffix = suffix_of(path)
    if (link := plugin.linker_of(path)) is not None:
        with tempfile.TemporaryDirectory(prefix="tvmrt-") as folder:
            link(path, folder)
            library = describe(Path(folder, "network.so"))
        library.properties["format"] += f", made of the {suffix} file on this machine"
        library.properties["file_bytes"] = path.stat().st_size
        return library
    module = FORMATS[".so"] if suffix in OTHER_LIBRARIES else FORMATS.get(suffix)
    if module is not None:
        return importlib.import_module(module).describe(path)
    importer = plugin.importer_of_file(path)
    if importer is None:
        known = dict.fromkeys([*plugin.network_suffixes(), *FORMATS])
        raise ValueError(
            conversion.advice_for_file(path)
            or f"{path}: unknown file format '{path.suffix or path.name}'; the name must end in "
            f"one of {', '.join(known)}"
        )
    return importer.describe(path)
