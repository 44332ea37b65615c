"""The files of a firmware network: header, symbols, errors."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time

import numpy as np
import pytest
from archives import unpack
from firmware_program import DIGITS, STRICT, build
from onnx import TensorProto, helper
from onnx_graph import model

import tvmrt
from tvmrt.error import UnsupportedError
from tvmrt.libinfo import find_include_path

C = {"interface_api": "c", "unpacked_api": True}
FLOAT = np.zeros((1, 3), np.float32)


def add_network(first: str = "in/a:0", second: str = "b", output: str = "sum"):
    """Return a sum of two inputs and its sign, so that there are several tensors."""
    nodes = [
        helper.make_node("Add", [first, second], [output], "add"),
        helper.make_node("Neg", [output], ["negated"], "neg"),
    ]
    return model(nodes, {first: FLOAT, second: FLOAT}, [output, "negated"])


def files_of(network, folder, **options):
    library = tvmrt.compile(network, target="cortex-m4", **options)
    library.export(folder)
    return {path.name: path.read_text() for path in folder.iterdir()}


HEADER = """\
#ifdef TVMGEN_NET_H_
#if TVMGEN_NET_CHECKSUM != 0xNUMBER
#error "two networks are called tvmgen_net: compile one of them with another --module-name"
#endif
#endif
#ifndef TVMGEN_NET_H_
#define TVMGEN_NET_H_

#define TVMGEN_NET_CHECKSUM 0xNUMBER

#include <stddef.h>
#include <stdint.h>

#if !(defined(__GNUC__) && defined(__ELF__))
#define TVMGEN_NET_SYMBOL(name)
#define TVMGEN_NET_ALIAS(name)
#elif !defined(TVMGEN_NET_OWN_SOURCE)
#define TVMGEN_NET_SYMBOL(name) __asm__(name "_needs_the_library_of_this_header_NUMBER")
#else
#define TVMGEN_NET_SYMBOL(name)
#define TVMGEN_NET_ALIAS(name) \\
  extern __typeof__(name) name##_alias __asm__(#name "_needs_the_library_of_this_header_NUMBER") \\
      __attribute__((alias(#name), nothrow));
#endif
#ifdef TVMGEN_NET_OWN_SOURCE
#define TVMGEN_NET_GUARD(name) \\
  TVMGEN_NET_ALIAS(name) \\
  extern const uint8_t name##_is_linked_twice_compile_one_with_another_module_name; \\
  const uint8_t name##_is_linked_twice_compile_one_with_another_module_name = 0
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define TVMGEN_NET_IN_A_0_SIZE 12
#define TVMGEN_NET_B_SIZE 12
#define TVMGEN_NET_OUTPUT0_SIZE 12
#define TVMGEN_NET_OUTPUT1_SIZE 12

struct tvmgen_net_inputs {
  const void *in_a_0;
  const void *b;
};

struct tvmgen_net_outputs {
  void *output0;
  void *output1;
};

int32_t tvmgen_net_run(
    struct tvmgen_net_inputs *inputs,
    struct tvmgen_net_outputs *outputs)
    TVMGEN_NET_SYMBOL("tvmgen_net_run");

#define TVMGEN_NET_WORKSPACE_SIZE 0
"""


def without_comments(text: str) -> str:
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    lines = [line.rstrip() for line in text.splitlines()]
    return re.sub(r"\n{2,}", "\n", "\n".join(lines)).strip()


def test_header_has_tvm_parts_in_order(tmp_path):
    text = files_of(add_network(), tmp_path / "out", module_name="net", **C)["tvmgen_net.h"]
    found, expected = without_comments(text), without_comments(HEADER)
    found = re.sub(r"WORKSPACE_SIZE \d+", "WORKSPACE_SIZE 0", found)
    number = re.search("CHECKSUM 0x([0-9a-f]{8})", found)[1]
    found = found.replace(number, "NUMBER")
    assert found.startswith(expected)


def test_caller_provided_pool_is_a_struct_with_its_size(tmp_path):
    path = DIGITS / "digits_f32.onnx"
    options = {**C, "module_name": "net", "pools": {"sram": 1 << 16}}
    files = files_of(path, tmp_path / "out", **options)
    header = without_comments(files["tvmgen_net.h"])
    size = int(re.search(r"TVMGEN_NET_SRAM_WORKSPACE_POOL_SIZE (\d+)", header)[1])
    assert size == tvmrt.compile(path, target="cortex-m4", **C).summary.arena_bytes
    assert "struct tvmgen_net_workspace_pools {\n  void *sram;\n};" in header
    assert "global_workspace[" not in files["tvmgen_net_lib0.c"]
    exact = {**options, "pools": {"sram": size}}
    tvmrt.compile(path, target="cortex-m4", **exact)
    plans = tvmrt.compile(path, target="cortex-m4", ram=1 << 30, **C).summary.row_plans
    less = {**options, "pools": {"sram": plans[-1].ram_bytes - 1}}
    with pytest.raises(ValueError, match=r"pool sram of \d+ bytes is 1 bytes too small"):
        tvmrt.compile(path, target="cortex-m4", **less)


def test_a_mixed_case_module_name_agrees_between_header_and_source(tmp_path):
    files = files_of(add_network(), tmp_path / "out", module_name="KwsNet", **C)
    header = files["tvmgen_kwsnet.h"]
    assert "struct tvmgen_kwsnet_inputs {" in header
    assert "int32_t tvmgen_KwsNet_run(" in header
    assert "int32_t tvmgen_KwsNet_run(" in files["tvmgen_KwsNet_lib0.c"]


@pytest.mark.parametrize("name", ["run", "__tvm_main__", "get_c_metadata", "w_x", "global"])
@pytest.mark.parametrize("options", [C, {}], ids=["c", "packed"])
def test_layers_may_have_the_names_of_entries(tmp_path, name, options):
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"], name),
        helper.make_node("Relu", ["h"], ["y"], f"{name}_2"),
        helper.make_node("Softmax", ["y"], ["z"], "workspace"),
    ]
    weights = {"w": np.eye(3, dtype=np.float32) * 2}
    files_of(model(nodes, {"x": FLOAT}, ["z"], weights), tmp_path / "out", **options)
    (tmp_path / "main.c").write_text("int main(void) { return 0; }\n")
    sources = [tmp_path / "main.c", *sorted((tmp_path / "out").glob("*.c"))]
    build(tmp_path, sources, [tmp_path / "out"])


@pytest.mark.parametrize(
    "names, members",
    [
        pytest.param(("a.b", "a/b"), ("a_b", "a_b_2"), id="inputs"),
        pytest.param(("x", "X"), ("x", "X_2"), id="case"),
        pytest.param(("output0", "b"), ("output0_2", "b"), id="output"),
        pytest.param(("workspace", "b"), ("workspace_2", "b"), id="workspace"),
        pytest.param(("graph_arena", "a_2"), ("graph_arena_2", "a_2"), id="arena"),
    ],
)
def test_colliding_names_are_made_unique(tmp_path, names, members):
    header = files_of(add_network(*names), tmp_path, module_name="net", **C)["tvmgen_net.h"]
    for member in members:
        assert f"  const void *{member};" in header
        assert f"#define TVMGEN_NET_{member.upper()}_SIZE" in header
    for language in ("c", "c++"):
        command = ["cc", "-x", language, "-Wall", "-Werror", "-fsyntax-only"]
        subprocess.run([*command, tmp_path / "tvmgen_net.h"], check=True)


WORDS = [
    "class",
    "int",
    "2nd",
    "a b",
    "größe",
    "end */ x",
    "unix",
    pytest.param("x" * 300, id="long"),
]


@pytest.mark.parametrize("name", ["errno", "NULL", "static_assert", "stdin", "assert"])
def test_members_do_not_clash_with_included_headers(tmp_path, name):
    files_of(add_network(name), tmp_path, module_name="net", **C)
    headers = ("assert.h", "complex.h", "errno.h", "math.h", "stdalign.h", "stdio.h", "stdlib.h")
    text = "".join(f"#include <{h}>\n" for h in headers) + '#include "tvmgen_net.h"\n'
    (tmp_path / "user.c").write_text(text)
    subprocess.run(["cc", "-std=gnu11", "-fsyntax-only", tmp_path / "user.c"], check=True)


@pytest.mark.parametrize("name", WORDS)
def test_header_accepts_any_name_in_c_and_cpp(tmp_path, name):
    files_of(add_network(name), tmp_path / "out", module_name="net", **C)
    for compiler, language in (("cc", "c"), ("c++", "c++")):
        if shutil.which(compiler) is None:
            continue
        command = [compiler, "-x", language, "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]
        subprocess.run([*command, tmp_path / "out" / "tvmgen_net.h"], check=True)


@pytest.mark.parametrize(
    "options, error, match",
    [
        pytest.param(
            {
                "runtime": "crt", "executor": "aot", "interface_api": "c", "unpacked_api": False,
            },
            ValueError, 'interface_api="c" passes raw pointers', id="c-packed",
        ),
        pytest.param(
            {"runtime": "host", "executor": "aot", **C},
            ValueError, "packed functions only", id="host-c",
        ),
        pytest.param(
            {"runtime": "host", "executor": "aot", "unpacked_api": True},
            ValueError, "packed functions only", id="host-unpacked",
        ),
        pytest.param(
            {"runtime": "crt", "executor": "graph", **C},
            ValueError, 'choose executor="aot" for interface_api="c"', id="graph",
        ),
        pytest.param(
            {"runtime": "crt", "executor": "graph", "pools": {"a": 1 << 20}},
            UnsupportedError, 'choose executor="aot" for pools', id="graph-pool",
        ),
        pytest.param(
            {"runtime": "crt", "executor": "aot", "params": "file", "unpacked_api": False},
            UnsupportedError, 'choose params="flash"', id="file",
        ),
        pytest.param(
            {"target": "host", "pools": {"a": 1 << 20}},
            ValueError, 'pools needs runtime="crt"', id="hosted-pool",
        ),
        pytest.param(
            {"target": "cortex-m4", "pools": {"a": "12k"}, **C},
            TypeError, "pools: give for each name .*, not {'a': '12k'}", id="pool-text",
        ),
        pytest.param(
            {"target": "cortex-m4", "pools": {"a": (4096, 5)}, **C},
            TypeError, r"pools: give for each name .*, not {'a': \(4096, 5\)}", id="pool-section",
        ),
        pytest.param(
            {"target": "cortex-m4", "pools": {"a": 1, "A": 1}, **C},
            ValueError, "differ only in case", id="pool-case",
        ),
        pytest.param(
            {"target": "cortex-m4", "pools": {"a": (1, "a b")}, **C},
            ValueError, "'a b' is not a valid section name", id="section",
        ),
        pytest.param(
            {"target": "cortex-m4", "workspace_io": True},
            ValueError, 'workspace_io needs runtime="crt" and interface_api="c"', id="packed-io",
        ),
        pytest.param(
            {"target": "cortex-m4", "place": {"*": "sram"}, **C},
            ValueError, "unknown pool; choose from workspace, flash and", id="place-pool",
        ),
        pytest.param(
            {"target": "cortex-m4", "place": {"nothing": "flash"}, **C},
            ValueError, "no tensor or weights match this name", id="place-name",
        ),
        pytest.param(
            {"target": "cortex-m4", "pools": {"a-b": 1}, **C},
            ValueError, "pool name 'a-b' is not a C identifier", id="pool-name",
        ),
    ],
)  # fmt: skip
def test_impossible_options_are_refused_with_the_reason(options, error, match):
    with pytest.raises(error, match=match):
        tvmrt.compile(add_network(), **options)


def test_shared_libraries_are_refused(tmp_path):
    library = tvmrt.compile(add_network(), executor="aot", runtime="crt")
    with pytest.raises(ValueError, match=r"net\.so: .* is not a shared library; write a \.tar"):
        library.export(tmp_path / "net.so")


def test_empty_tensors_have_no_size_check(tmp_path):
    node = helper.make_node("Relu", ["x"], ["y"])
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [0, 3]) for n in "xy")
    files_of(helper.make_model(helper.make_graph([node], "none", [x], [y])), tmp_path, **C)
    flags = [f"-I{path}" for path in find_include_path()]
    source = tmp_path / "tvmgen_default_checked.c"
    subprocess.run(["cc", "-Wextra", "-Werror", "-fsyntax-only", *flags, source], check=True)


@pytest.mark.slow
def test_archive_unpacked_over_an_older_one_is_rebuilt(tmp_path):
    def library(network, **options):
        tvmrt.compile(network, target="host", runtime="crt", executor="aot", module_name="net",
                      **options).export(tmp_path / "net.tar")  # fmt: skip
        unpack(tmp_path / "net.tar", tmp_path / "net")
        subprocess.run(["make", "-s", "CC=cc", "AR=ar"], cwd=tmp_path / "net", check=True)
        listed = subprocess.run(["nm", "libnet.a"], cwd=tmp_path / "net", capture_output=True,
                                text=True, check=True)  # fmt: skip
        return set(re.findall(r"library_of_this_header_\w+", listed.stdout))

    first, second = library(DIGITS / "digits_f32.onnx"), library(DIGITS / "digits_int8.onnx")
    assert len(first) == len(second) == 1
    assert first != second


BYTES = {
    "board": ("net.tar", ["--target", "cortex-m4"]),
    "board's graph": ("net.tar", ["--target", "cortex-m4", "--executor", "graph"]),
    "folder": ("net", ["--target", "cortex-m4", "--interface-api", "c", "--unpacked-api"]),
    "params apart": ("net.tar", ["--target", "host", "--runtime", "crt"]),
}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "options"), BYTES.values(), ids=BYTES)
def test_archives_are_reproducible(tmp_path, name, options):
    contents = []
    for seed, zone in (("1", "UTC"), ("2", "Asia/Tokyo")):
        folder = tmp_path / f"folder{seed}"
        folder.mkdir()
        environment = dict(os.environ, PYTHONHASHSEED=seed, TZ=zone)
        environment.pop("SOURCE_DATE_EPOCH", None)
        command = [sys.executable, "-m", "tvmrt", "compile", DIGITS / "digits_int8.onnx"]
        subprocess.run([*command, "-o", name, *options], cwd=folder, env=environment, check=True)
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        contents.append({path.relative_to(folder): path.read_bytes() for path in files})
        time.sleep(1 - time.time() % 1)  # another second
    assert contents[0].keys() == contents[1].keys()
    assert [path for path in contents[0] if contents[0][path] != contents[1][path]] == []


def test_an_archive_has_the_date_that_it_is_given(tmp_path, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    tvmrt.compile(DIGITS / "digits_int8.onnx", target="cortex-m4").export(tmp_path / "a.tar")
    with tarfile.open(tmp_path / "a.tar") as tar:
        assert {member.mtime for member in tar} == {1700000000}


def test_a_board_needs_no_other_option(tmp_path):
    tvmrt.compile(DIGITS / "digits_int8.onnx", target="cortex-m4").export(tmp_path / "net.tar")
    with tarfile.open(tmp_path / "net.tar") as tar:
        names = tar.getnames()
        metadata = json.load(tar.extractfile("./metadata.json"))
    assert "./Makefile" in names
    assert "./codegen/host/include/tvmgen_default.h" in names
    assert any(name.startswith("./runtime/include/tvm/runtime/kernels/") for name in names)
    module = metadata["modules"]["default"]
    assert module["executors"] == ["aot"]
    assert module["memory"]["functions"]["main"][0]["constants_size_bytes"] > 0


ALLOWED = {"memcpy", "memset", "memmove", "memcmp", "expf", "floorf", "sqrtf", "rintf", "lrintf"}


def test_main_passes_each_of_its_tensors_once_to_an_operator(tmp_path):
    files = files_of(add_network(), tmp_path, module_name="net", unpacked_api=False)
    passed = re.findall(r"operands\[\] = \{([\d, ]+)\}", files["tvmgen_net_lib0.c"])
    assert passed
    for numbers in (text.split(", ") for text in passed):
        assert len(set(numbers)) == len(numbers)


@pytest.mark.everyday(3)
@pytest.mark.parametrize("options", [C, {"unpacked_api": True}, {}], ids=["c", "mixed", "packed"])
@pytest.mark.parametrize("name", ["f32", "int8"])
def test_the_objects_need_nothing_but_memory_and_math_functions(tmp_path, name, options):
    files_of(DIGITS / f"digits_{name}.onnx", tmp_path / "out", module_name="net", **options)
    sources = sorted((tmp_path / "out").glob("*.c"))
    flags = [f"-I{path}" for path in find_include_path()]
    subprocess.run(["cc", *STRICT, *flags, "-c", *sources], cwd=tmp_path, check=True)
    subprocess.run(["ld", "-r", *tmp_path.glob("*.o"), "-o", "net.all"], cwd=tmp_path, check=True)
    done = subprocess.run(
        ["nm", "-u", "net.all"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert set(re.findall(r"U (\S+)", done.stdout)) - {"_GLOBAL_OFFSET_TABLE_"} <= ALLOWED
    sections = subprocess.run(
        ["objdump", "-h", "net.all"], cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout
    assert ".rodata.tvm" in sections and ".bss.noinit.tvm" in sections
