"""Reports of compile and inspect about the memory of firmware networks."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tvmrt.cli import main
from tvmrt.cli.call_graph import CallGraph
from tvmrt.cli.describe import describe
from tvmrt.cli.footprint import measure
from tvmrt.compiler.codegen.target import get_target
from tvmrt.error import CompileError

COMPILER = "arm-none-eabi-gcc"
BOARD = ("--target", "cortex-m4", "--interface-api", "c", "--unpacked-api")
POOLS = ("--pool", "dtcm=800@.bss.dtcm", "--pool", "sram=65536", "--place", "conv1_*=dtcm")

needs_compiler = pytest.mark.skipif(
    shutil.which(COMPILER) is None, reason=f"{COMPILER} is not installed"
)


@pytest.fixture(scope="module")
def archive(tmp_path_factory, digits) -> Path:
    path = tmp_path_factory.mktemp("archive") / "net.tar"
    model = digits / "digits_int8.onnx"
    command = [sys.executable, "-m", "tvmrt", "compile", model, "-o", path, *BOARD, *POOLS]
    subprocess.run(command, check=True, capture_output=True)
    return path


def metadata_of(path: Path) -> dict:
    with tarfile.open(path) as tar:
        return json.load(tar.extractfile("./metadata.json"))


@needs_compiler
def test_file_that_cannot_be_measured_is_named_without_its_folder(tmp_path):
    """As code that includes a header of a vendor, which is not installed."""
    (tmp_path / "vendor.c").write_text("#include <vendor_npu.h>\nint vendor;\n")
    (tmp_path / "net.c").write_text("int net(void) { return 1; }\n")
    found = measure([tmp_path / "net.c", tmp_path / "vendor.c"], [], get_target("cortex-m4"))
    (reason,) = found.left_out.values()
    assert "vendor.c:1:10: fatal error: vendor_npu.h: No such file" in reason
    assert str(tmp_path) not in reason
    with pytest.raises(CompileError) as raised:
        measure([tmp_path / "vendor.c"], [], get_target("cortex-m4"))
    assert str(tmp_path) not in str(raised.value)


@needs_compiler
def test_temporary_files_are_removed(digits, tmp_path, monkeypatch, capsys):
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))  # of the compiler
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    model = str(digits / "digits_int8.onnx")
    assert main(["compile", model, "-o", str(tmp_path / "net.tar"), *BOARD]) == 0
    assert "stack" in capsys.readouterr().out
    assert list(folder.iterdir()) == []


@needs_compiler
def test_inspect_prints_every_part_of_memory(archive):
    described = describe(archive).as_dict()
    module = metadata_of(archive)["modules"]["default"]
    pools = {row["pool"]: row for row in described["RAM of default, in bytes"]}
    assert set(pools) == {"dtcm", "sram"}
    assert pools["dtcm"]["has"] == 800
    assert pools["dtcm"]["whose"] == ".bss.dtcm"
    assert pools["dtcm"]["weights in it"] > 0
    assert pools["sram"]["whose"] == "the caller's"
    for row in pools.values():
        assert row["gap"] == row["used"] - row["at least"] >= 0
    bound = module["memory"]["lower_bound_bytes"]
    assert described["memory"]["default"]["lower_bound_bytes"] == bound
    assert f"lower bound for a single pool {bound:,} B" in describe(archive).texts["RAM"]
    flash = {row["flash"]: row["bytes"] for row in described["flash, in bytes"]}
    assert flash["weights of default"] > 3000
    assert flash["code of operators"] > 0
    operators = described["operators of default, in bytes"]
    names = [row["function"] for row in operators]
    assert "tvmgen_default_conv1" in names
    for row in operators:
        assert row["live"] >= row["scratch"]
        assert row["stack"] >= row["frame"] >= 0
        assert row["code"] > 0
    assert max(row["live"] for row in operators) <= bound
    assert described["footprint"]["compiler"].startswith(COMPILER)
    functions = {row["name"]: row for row in described["footprint"]["functions"]}
    assert {"tvmgen_default_run", "tvmgen_default_step", "tvmgen_default_conv1"} <= set(functions)
    run = functions["tvmgen_default_run"]
    assert run["stack_bytes"] >= max(row["stack"] for row in operators)
    assert all(row["stack_bytes"] >= row["frame_bytes"] for row in functions.values())
    stack = described["footprint"]["stack"]["default"]
    assert stack["bytes"] == run["stack_bytes"]
    assert stack["path"][:2] == ["tvmgen_default_run", "tvmgen_default___main__"]


@needs_compiler
def test_files_that_need_vendor_headers_are_named(archive, tmp_path):
    with tarfile.open(archive) as tar:
        files = {m.name: tar.extractfile(m).read() for m in tar.getmembers() if m.isfile()}
    files["./codegen/host/src/vendor.c"] = b"#include <no_such_vendor.h>\n"
    with tarfile.open(tmp_path / "net.tar", "w") as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    described = describe(tmp_path / "net.tar").as_dict()
    assert "no_such_vendor.h" in described["footprint"]["left_out"]["vendor.c"]
    assert {row["code"] for row in described["operators of default, in bytes"]} != {"-"}


def test_inspect_reports_a_missing_compiler(archive, monkeypatch):
    monkeypatch.setenv("PATH", os.path.dirname(sys.executable))
    if shutil.which(COMPILER):
        pytest.skip("the compiler is in the folder of Python")
    described = describe(archive).as_dict()
    assert described["footprint"]["measured"] is False
    message = described["footprint"]["reason"]
    assert message.startswith(f"C compiler {COMPILER} for cortex-m4 is not installed")
    assert described["RAM of default, in bytes"]
    assert {row["code"] for row in described["operators of default, in bytes"]} == {"-"}


@needs_compiler
def test_compile_prints_ram_flash_and_stack(tvmrt, digits, tmp_path):
    report = tvmrt("compile", digits / "digits_int8.onnx", "-o", tmp_path / "net.tar", *BOARD)
    rows = dict(line.split(maxsplit=1) for line in report.stdout.splitlines())
    assert "lower bound of any placement" in rows["RAM"]
    assert "in flash" in rows["weights"]
    assert COMPILER in rows["code"]
    plans = [line.split() for line in report.stdout.splitlines() if line.startswith("plan ")]
    assert plans[0][1] == "default"
    assert plans[0][-2:] == ["no", "option"]
    assert all(words[-2] == "--ram" for words in plans[1:])
    assert " without the C library" in rows["flash"]
    assert "tvmgen_default_run" in rows["stack"]


@pytest.mark.slow
def test_several_networks_become_one_archive(tvmrt, digits, tmp_path):
    paths = [digits / "digits_f32.onnx", digits / "digits_int8.onnx"]
    report = tvmrt(
        "compile", *paths, "-o", tmp_path / "both.tar", *BOARD, "--module-name", "a,b", "--json"
    )
    found = json.loads(report.stdout)
    sizes = [found["networks"][name]["arena_bytes"] for name in ("a", "b")]
    assert found["image"]["workspace_size_bytes"] == max(sizes)
    assert found["footprint"]["run_constant_bytes"] > 100  # of operators that both share
    assert list(metadata_of(tmp_path / "both.tar")["modules"]) == ["a", "b"]
    apart = ("--concurrent", "all", "--json")
    report = tvmrt("compile", *paths, "-o", tmp_path / "both.tar", *BOARD, *apart)
    found = json.loads(report.stdout)
    assert list(found["networks"]) == ["digits_f32", "digits_int8"]
    assert found["image"]["workspace_size_bytes"] == sum(sizes)


BAD = [
    pytest.param(["--module-name", "a"], "there are 2 networks and 1 names (a)", id="names"),
    pytest.param(["--module-name", "a,a"], "networks need different names", id="equal"),
    pytest.param(["--pool", "sram=5000", "--concurrent", "all"], "bytes too small", id="small"),
    pytest.param(["--concurrent", "digits_f32,x"], "unknown network x", id="concurrent"),
    pytest.param(["--pool", "sram=1@"], "name the section after @", id="section"),
    pytest.param(["--pool", "a=1", "--pool", "a=2"], "there is a pool a already", id="twice"),
    pytest.param(["--place", "conv1*"], "does not have the form PATTERN=POOL", id="place"),
    pytest.param(["--shape", "image=1,1,8,8"], "name one: NETWORK:INPUT", id="shape"),
]


@pytest.mark.everyday(3)
@pytest.mark.parametrize("more, text", BAD)
def test_bad_options_are_refused_in_one_sentence(complaint, digits, tmp_path, more, text):
    paths = [digits / "digits_f32.onnx", digits / "digits_int8.onnx"]
    message = complaint("compile", *paths, "-o", tmp_path / "both.tar", *BOARD, *more)
    assert text in message
    assert not (tmp_path / "both.tar").exists()


def test_archive_of_another_target_is_described(archive, tmp_path):
    with tarfile.open(archive) as tar:
        files = {m.name: tar.extractfile(m).read() for m in tar.getmembers() if m.isfile()}
    metadata = json.loads(files["./metadata.json"])
    metadata["modules"]["default"]["target"] = ["c -device=../../etc"]
    files["./metadata.json"] = json.dumps(metadata).encode()
    files["./codegen/host/src/../../../../../outside.c"] = b"int outside;\n"
    with tarfile.open(tmp_path / "net.tar", "w") as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    described = describe(tmp_path / "net.tar").as_dict()
    assert 'target="../../etc" is not known' in described["footprint"]["reason"]
    assert not (tmp_path.parent / "outside.c").exists()


CI = """\
graph: { title: "a.c"
node: { title: "a.c:leaf" label: "leaf\\na.c:1:1\\n24 bytes (static)" }
node: { title: "a.c:taken" label: "taken\\na.c:2:1\\n100 bytes (static)" }
node: { title: "run" label: "run\\na.c:3:1\\n8 bytes (static)" }
node: { title: "memcpy" label: "memcpy\\n<built-in>" shape : ellipse }
node: { title: "/tmp/a.c:lost" label: "lost\\n/tmp/a.c:7:1" shape : ellipse }
node: { title: "merges" label: "merges\\na.c:8:1\\n4 bytes (static)" }
node: { title: "loop" label: "loop\\na.c:4:1\\n16 bytes (static)" }
node: { title: "wild" label: "wild\\na.c:5:1\\n16 bytes (dynamic)" }
node: { title: "bounded" label: "bounded\\na.c:6:1\\n40 bytes (dynamic,bounded)" }
edge: { sourcename: "run" targetname: "a.c:leaf" label: "a.c:3:9" }
edge: { sourcename: "run" targetname: "memcpy" }
edge: { sourcename: "run" targetname: "__indirect_call" label: "a.c:3:12" }
edge: { sourcename: "run" targetname: "/tmp/a.c:lost" }
edge: { sourcename: "merges" targetname: "a.c:merged" }
edge: { sourcename: "loop" targetname: "loop" label: "a.c:4:9" }
}
"""
RELOCATIONS = """\
RELOCATION RECORDS FOR [.text.run]:
OFFSET   TYPE              VALUE
00000004 R_ARM_THM_CALL    leaf
00000010 R_ARM_ABS32       taken

RELOCATION RECORDS FOR [.debug_info]:
OFFSET   TYPE              VALUE
00000000 R_ARM_ABS32       loop
"""


@pytest.mark.parametrize(
    ("name", "nbytes", "path"),
    [
        pytest.param("leaf", 24, ("leaf",), id="leaf"),
        pytest.param("run", 108, ("run", "taken"), id="by-pointer"),
        pytest.param("loop", None, ("loop", "loop"), id="recursion"),
        pytest.param("wild", None, ("wild",), id="unbounded"),
        pytest.param("merges", 28, ("merges", "leaf"), id="merged-by-the-compiler"),
        pytest.param("bounded", 40, ("bounded",), id="bounded"),
    ],
)
def test_the_stack_follows_calls_and_pointers(name, nbytes, path):
    graph = CallGraph()
    graph.add("a", CI, RELOCATIONS, {"merged": "leaf"})
    depth = graph.depth(name)
    assert (depth.nbytes, depth.path) == (nbytes, path)
    graph.depth("run")
    assert graph.outside == {"memcpy", "lost"}


@needs_compiler
def test_the_stack_of_merged_functions_is_counted(tmp_path):
    """The compiler keeps one of two equal functions; both have its stack, and no file's path."""
    body = "(volatile int* x) { volatile int a[40]; a[*x] = 1; return *x + a[3]; }\n"
    kept = "__attribute__((noinline)) static int"
    call = "int caller(volatile int* x) { return one(x) + two(x); }\n"
    (tmp_path / "a.c").write_text(f"{kept} one{body}{kept} two{body}{call}")
    found = measure([tmp_path / "a.c"], [], get_target("cortex-m4"))
    assert found.outside == []
    assert found.functions["caller"].stack.nbytes > 160
