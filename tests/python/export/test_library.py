"""Shared libraries: what their parts are made of."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tvmrt
from tvmrt.export import library as export_library

DIGITS = Path(__file__).parents[3] / "examples/digits/digits_f32.onnx"
EXECUTORS = {
    "graph": lambda module: tvmrt.contrib.graph_executor.GraphModule(
        module["default"](tvmrt.cpu(0))
    ),
    "aot": lambda module: tvmrt.runtime.executor.AotModule(module["default"](tvmrt.cpu(0))),
}


@pytest.mark.slow
@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("limit", [0, 1 << 20], ids=["included", "as C"])
def test_a_tree_of_modules_of_any_size_is_found(executor, limit, tmp_path, monkeypatch):
    """Long trees are included by the assembler, short ones are a C array."""
    monkeypatch.setattr(export_library, "LARGEST_C_ARRAY", limit)
    library = tvmrt.compile(DIGITS, executor=executor)
    library.export_sources(tmp_path / "sources")
    suffixes = {p.suffix for p in (tmp_path / "sources").glob("*_devc.*")}
    assert suffixes == ({".bin", ".S"} if limit == 0 else {".c"})
    library.export_library(tmp_path / "net.so")
    network = EXECUTORS[executor](tvmrt.runtime.load_module(tmp_path / "net.so"))
    network.run(image=np.zeros((1, 1, 8, 8), np.float32))
    assert np.isfinite(network.get_output(0).numpy()).all()


@pytest.mark.slow
def test_further_flags_come_after_all_others(tmp_path, monkeypatch):
    """Those of the environment: without optimisation and with lines of the source."""
    found = {}
    for flags in ("", "-O0 -g"):
        monkeypatch.setenv("TVMRT_CFLAGS", flags)
        tvmrt.compile(DIGITS).export_library(tmp_path / "net.so")
        found[flags] = (tmp_path / "net.so").read_bytes()
    assert b".debug_info" not in found[""]
    assert b".debug_info" in found["-O0 -g"]
    monkeypatch.setenv("TVMRT_CFLAGS", "-include none.h")
    with pytest.raises(tvmrt.error.CompileError, match=r"none\.h"):
        tvmrt.compile(DIGITS).export_library(tmp_path / "net.so")
