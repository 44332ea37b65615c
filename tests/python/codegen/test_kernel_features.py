"""Kernel features: lowerings and preprocessor conditions use one table."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from onnx import helper
from onnx_graph import model as make_model

import tvmrt
from tvmrt.compiler.codegen.kernel_features import FEATURES, PARAMETERS, Feature, print_macros
from tvmrt.compiler.codegen.operators import depth_first_chain
from tvmrt.compiler.codegen.target import FIRMWARE, get_target
from tvmrt.compiler.codegen.window import matmul
from tvmrt.libinfo import find_include_path

CODEGEN = Path(tvmrt.__file__).parent / "compiler" / "codegen"
KERNELS = Path(find_include_path()[0]) / "tvm/runtime/kernels"
TABLE = CODEGEN / "kernel_features.py"
LACKING = {feature.macro_if_absent for feature in FEATURES if feature.macro_if_absent}
OF_USERS = {"TVMRT_KERNEL_SECTION"}  # a user's build may define them
CONDITION = re.compile(r"^[ \t]*#[ \t]*(?:el)?if(?:n?def)?\b(.*(?:\\\n.*)*)", re.MULTILINE)
DEFINITION = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(TVMRT_\w+)", re.MULTILINE)


def macros_in_conditions() -> dict[str, set[str]]:
    """Return the project's macros in conditions of the kernels, with the headers that use them."""
    found: dict[str, set[str]] = {}
    for header in KERNELS.rglob("*.h"):
        for condition in CONDITION.findall(header.read_text()):
            for name in re.findall(r"\bTVMRT_\w+", condition):
                if not name.endswith("_H_"):
                    found.setdefault(name, set()).add(header.name)
    return found


def test_every_feature_macro_of_kernels_is_in_the_table():
    """Other macros are derived in the kernels from the compiler's macros."""
    derived = {
        name for header in KERNELS.rglob("*.h") for name in DEFINITION.findall(header.read_text())
    }
    unknown = macros_in_conditions().keys() - derived - LACKING - PARAMETERS.keys() - OF_USERS
    assert not unknown, f"say in kernel_features.py what build has {sorted(unknown)}"
    assert LACKING <= macros_in_conditions().keys()
    assert PARAMETERS.keys() <= macros_in_conditions().keys()
    assert not LACKING & derived, "no header may decide what a build lacks"


def _is_choice(tree: ast.AST) -> set[int]:
    """Return the attributes that are arguments of a choice among board kernels."""
    calls = (n for n in ast.walk(tree) if isinstance(n, ast.Call))
    chosen = (c for c in calls if isinstance(c.func, ast.Attribute) and c.func.attr == "choose")
    return {id(argument) for call in chosen for argument in call.args}


def test_no_file_derives_a_feature_from_the_target():
    """Only the table checks the target's board; other files only pass it on."""
    wrong = []
    for file in sorted(CODEGEN.rglob("*.py")):
        if file in (TABLE, CODEGEN / "target.py"):
            continue
        tree = ast.parse(file.read_text(encoding="utf-8"))
        choices = _is_choice(tree)
        for node in ast.walk(tree):
            asks = isinstance(node, ast.Attribute) and node.attr == "board"
            if asks and "target" in ast.unparse(node) and id(node) not in choices:
                wrong.append(f"{file.relative_to(CODEGEN)}:{node.lineno} asks for the board")
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                names = LACKING & set(re.findall(r"\w+", node.value))
                wrong += [f"{file.relative_to(CODEGEN)}:{node.lineno} has {n}" for n in names]
    assert not wrong, "ask a feature of kernel_features.py instead:\n" + "\n".join(wrong)


def syntax(compiler: str, text: str, *flags: str) -> str:
    """Return the compiler's messages for a text; empty if it compiles."""
    paths = [f"-I{path}" for path in find_include_path()]
    command = [compiler, "-std=c99", "-fsyntax-only", "-w", *flags, *paths, "-x", "c", "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    return done.stderr if done.returncode else ""


OPTIONAL = [(f, member) for f in FEATURES for member in f.members]


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("feature, member", OPTIONAL, ids=[member for _, member in OPTIONAL])
def test_build_without_a_feature_refuses_its_members(feature: Feature, member, compiler):
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    struct, name = member.split(".")
    text = (
        f"#include <tvm/runtime/kernels/conv_f32.h>\nstatic const {struct} s = {{.{name} = 3}};\n"
    )
    text += f"long f(void);\nlong f(void) {{ return (long)s.{name}; }}\n"
    assert syntax(compiler, text) == ""
    error = syntax(compiler, text, f"-D{feature.macro_if_absent}")
    assert struct in error and name in error
    # the kernels themselves do not use it
    assert syntax(compiler, text.partition("static")[0], f"-D{feature.macro_if_absent}") == ""


def picture() -> tuple:
    """Return a convolution of an image, whose channels a host reads as NCHW."""
    x = np.zeros((1, 3, 16, 16), np.float32)
    conv = helper.make_node("Conv", ["x", "w"], ["y"])
    return make_model([conv], {"x": x}, ["y"], {"w": np.ones((8, 3, 3, 3), np.float32)})


def operators(target: str, **options) -> str:
    library = tvmrt.compile(picture(), target=target, module_name="net", **options)
    return library.sources.files["tvmgen_net_lib1.c"]


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_host_code_needs_the_padded_input_feature():
    text = operators("host", runtime="crt")
    assert ".channel_stride = 256" in text
    body = re.sub(r'#include "tvmgen_net_ops.h"', "#define TVMGEN_LOCAL", text)
    assert syntax("cc", body) == ""
    assert "channel_stride" in syntax("cc", body, "-DTVMRT_NO_NCHW_INPUT")


@pytest.mark.parametrize("target", sorted(FIRMWARE))
def test_boards_define_their_missing_features(target):
    text = operators(target)
    defined = set(DEFINITION.findall(text)) & LACKING
    expected = print_macros(get_target(target), [])
    assert defined == {name for name, _ in expected}
    assert {"TVMRT_FREESTANDING", "TVMRT_NO_NCHW_INPUT"} <= defined
    assert ".channel_stride" not in text


@pytest.mark.parametrize("target", ["host", "native"])
def test_hosts_without_an_operating_system(target):
    defined = set(DEFINITION.findall(operators(target, runtime="crt"))) & LACKING
    assert defined == {"TVMRT_FREESTANDING"}
    assert not set(DEFINITION.findall(operators(target))) & LACKING


def test_defaults_of_parameters_are_those_of_the_compiler():
    defaults = {
        "TVMRT_MATMUL_BF16_BYTES": ("matmul_bf16.h", matmul.BF16_BYTES),
        "TVMRT_DEPTH_FIRST_LAYERS": ("depth_first_f32.h", depth_first_chain.MAX_CHAIN_LAYERS),
    }
    for name, (header, value) in defaults.items():
        text = (KERNELS / header).read_text()
        (given,) = re.findall(rf"#ifndef {name}\n#define {name} (\S+)\n#endif", text)
        assert int(given) == value
