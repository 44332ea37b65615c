"""Contents of shared libraries."""

from __future__ import annotations

import platform
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tvmrt
from tvmrt.compiler.export import library as export_library

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
def test_module_trees_of_any_size_are_found(executor, limit, tmp_path, monkeypatch):
    """The assembler includes long trees; short ones are a C array."""
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
    """Flags of the environment: no optimisation, and debug information."""
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


HUGE_PAGE = 2 << 20
HAS_PLACES = platform.libc_ver()[0] == "glibc" and platform.libc_ver() >= ("glibc", "2.35")


def table_network(rows: int) -> tuple[onnx.ModelProto, np.ndarray]:
    """Return a network with a lookup table of rows of 1,024 elements, and the table."""
    table = np.random.default_rng(1).random((rows, 1024), np.float32)
    graph = helper.make_graph(
        [helper.make_node("Gather", ["table", "row"], ["y"])],
        "table",
        [helper.make_tensor_value_info("row", TensorProto.INT64, [1])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 1024])],
        [numpy_helper.from_array(table, "table")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), table


def mapped(path: Path) -> list[tuple[int, int, int]]:
    """Return (address, bytes, offset) of the read-only mappings of a file in this process."""
    found = []
    for line in Path("/proc/self/maps").read_text().splitlines():
        places, rights, at, *_, name = line.split()
        if name == str(path) and rights.startswith("r--"):
            begin, end = (int(n, 16) for n in places.split("-"))
            found.append((begin, end - begin, int(at, 16)))
    return found


@pytest.mark.slow
@pytest.mark.skipif(not HAS_PLACES, reason="the loader does not place what asks for a place")
def test_large_weights_are_aligned_for_huge_pages(tmp_path):
    """Large weights are aligned to 2 MiB in memory and in the file, which grows little. Without
    large weights the library does not grow."""
    for rows in (3000, 300):
        network, table = table_network(rows)
        path = tmp_path / f"table{rows}.so"
        tvmrt.compile(network).export_library(path)
        module = EXECUTORS["aot"](tvmrt.runtime.load_module(path))
        module.run(row=np.array([rows - 1]))
        np.testing.assert_array_equal(module.get_output(0).numpy()[0], table[-1])
        whole = [(at, place) for at, n, place in mapped(path) if n >= table.nbytes]
        assert len(whole) == 1
        address, place = whole[0]
        assert place % HUGE_PAGE == 0 if rows == 3000 else place < HUGE_PAGE
        assert address % HUGE_PAGE == place % HUGE_PAGE or rows == 300
        padding = path.stat().st_size - table.nbytes
        assert padding < (HUGE_PAGE if rows == 3000 else 0) + (64 << 10)


def test_folder_has_no_sources_of_an_earlier_output(tmp_path):
    """Compiling to a folder again makes a library of all its C files; networks of other names, and
    files of the user, stay."""
    levels = ["v2", "v3"] if platform.machine() == "x86_64" else None
    several = {"target": "x86-64", "levels": levels} if levels else {"target": "host"}
    library = tvmrt.compile(DIGITS, **several)
    library.export_sources(tmp_path)
    other = tvmrt.compile(DIGITS, module_name="default_v2", target="native")
    other.export_sources(tmp_path)
    notes = ["tvmgen_default_notes.c", "lib1.c", "tvmgen_default_lib1.txt"]
    for name in notes:
        (tmp_path / name).write_text("/* mine */\n")
    kept = {path.name for path in tmp_path.iterdir() if path.name.startswith("tvmgen_default_v2_")}
    again = tvmrt.compile(DIGITS, target="native")
    again.export_sources(tmp_path)
    fresh = tmp_path / "fresh"
    again.export_sources(fresh)
    other.export_sources(fresh)
    found = {path.name for path in tmp_path.iterdir() if path.suffix in (".c", ".S")}
    assert {path.name for path in fresh.iterdir() if path.suffix in (".c", ".S")} == found - {
        *notes
    }
    assert {*notes, *kept} <= {path.name for path in tmp_path.iterdir()}


@pytest.mark.parametrize("name", ["a.xyz", "net.o", "net.tar.gz", "net.dot", "a.onnx"])
def test_suffixes_of_other_files_do_not_become_folders(name, tmp_path):
    with pytest.raises(ValueError, match=f"{name}: unknown output format .*folder name without"):
        tvmrt.compile(DIGITS, target="native").export(tmp_path / name)
    assert not (tmp_path / name).exists()


@pytest.mark.parametrize("name", ["net_v1.2", "sources", "there.xyz"])
def test_numbers_are_no_suffixes_and_folders_that_exist_are_written(name, tmp_path):
    if name.startswith("there"):
        (tmp_path / name).mkdir()
    tvmrt.compile(DIGITS, target="native").export(tmp_path / name)
    assert list((tmp_path / name).glob("*.c"))
