"""A writer of .steps files: the operators of a compiled network, one a line."""

from typing import Any

from tvmrt.plugin import Exporter


class ToyExporter(Exporter):
    def export(self, library: Any, path: Any) -> None:
        path.write_text("".join(f"{each.op}\n" for each in library.summary.operators))
