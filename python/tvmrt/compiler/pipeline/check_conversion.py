"""Comparison of a converted network with its original. Needs the runtime and a C compiler."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tvmrt.compiler.export.library import CompiledLibrary
from tvmrt.conversion.agreement import check
from tvmrt.conversion.original import Original


def check_conversion(library: CompiledLibrary, original: Original) -> None:
    """Raise ValueError if a network that was compiled for this machine computes other results than
    its original."""
    from tvmrt.contrib.graph_executor import GraphModule
    from tvmrt.runtime import cpu, load_module

    with tempfile.TemporaryDirectory(prefix="tvmrt-") as folder:
        path = Path(folder) / "network.so"
        library.export_library(path)
        module = load_module(str(path))
        check(GraphModule(module[library.module_name](cpu(0))), original)
