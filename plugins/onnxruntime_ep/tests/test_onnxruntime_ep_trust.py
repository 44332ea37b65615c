"""Compiled models: which libraries run, and the comparison of a library with its node."""

from __future__ import annotations

import copy
import hashlib
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

onnxruntime = pytest.importorskip("onnxruntime", minversion="1.24")
from ep_case import assert_same, network, session  # noqa: E402

from tvmrt.plugins import onnxruntime_ep  # noqa: E402

pytestmark = pytest.mark.slow
RNG = np.random.default_rng(2)
HIDDEN = {"command": "/bin/false"}  # compiled models need no compiler
ONE = {**HIDDEN, "allow_compiled": "1"}
TEXT = """
    net (float[n,16] x, float[16,4] w, float[16,4] v) => (float[n,4] y, int64[n] place) {
        a = MatMul(x, w)
        b = Tanh(a)
        c = MatMul(x, v)
        y = Add(b, c)
        place = ArgMax<axis = 1, keepdims = 0>(y)
    }"""


def floats(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def feeds(rows: int) -> dict[str, np.ndarray]:
    return {"x": floats(rows, 16), "w": floats(16, 4), "v": floats(16, 4)}


@pytest.fixture(scope="module")
def file(tmp_path_factory) -> Path:
    """A compiled model; its only node is an EPContext node."""
    path = tmp_path_factory.mktemp("compiled") / "net_ctx.onnx"
    entries = {"ep.context_enable": "1", "ep.context_file_path": str(path)}
    session(network(TEXT), entries=entries)
    return path


@pytest.fixture
def model(file) -> onnx.ModelProto:
    return onnx.load(file)


def digest(library: bytes) -> str:
    return "sha256:" + hashlib.sha256(library).hexdigest()


def attribute(model: onnx.ModelProto, name: str) -> onnx.AttributeProto:
    return next(each for each in model.graph.node[0].attribute if each.name == name)


def set_library(model: onnx.ModelProto, library: bytes) -> None:
    """Replace the library of a model, and its digest."""
    attribute(model, "ep_cache_context").s = library
    attribute(model, "sha256").s = digest(library).encode()


def refusal(model: onnx.ModelProto, values: dict[str, str]) -> str:
    with pytest.raises(Exception, match=r"ONNXRuntimeError|tvmrt") as caught:
        session(model, values)
    return str(caught.value)


# ---- the option allow_compiled ----


def test_a_compiled_model_runs_only_if_the_option_allows_it(file, model):
    own = onnxruntime_ep.digests(file)
    assert own == digest(attribute(model, "ep_cache_context").s)
    for allowed in ("1", own, f"sha256:{'0' * 64} , {own}"):
        ours = session(file, {**HIDDEN, "allow_compiled": allowed})
        assert_same(network(TEXT), ours, **feeds(3))
    for values in (HIDDEN, {**HIDDEN, "allow_compiled": "0"}):
        assert "set the provider option allow_compiled to 1" in refusal(model, values)
    other = {**HIDDEN, "allow_compiled": f"sha256:{'0' * 64}"}
    assert f"has the digest {own}, which the provider option allow_compiled does" in refusal(
        model, other
    )


@pytest.mark.parametrize(
    "value", ["", "2", "yes", "True", "01", "sha256:", f"sha256:{'0' * 63}", f"sha256:{'A' * 64}",
              f"sha256:{'0' * 64},", f",sha256:{'0' * 64}", f"sha256:{'0' * 65}"],
)  # fmt: skip
def test_other_values_of_the_option_are_errors_also_without_a_compiled_model(value):
    one = network("net (float[4] x) => (float[4] y) { y = Neg(x) }")
    assert "the provider option allow_compiled has the value '" in refusal(
        one, {**HIDDEN, "allow_compiled": value}
    )


def damage_library(model: onnx.ModelProto) -> None:
    library = bytearray(attribute(model, "ep_cache_context").s)
    library[5000] ^= 1
    attribute(model, "ep_cache_context").s = bytes(library)


def remove(name: str) -> Callable[[onnx.ModelProto], None]:
    return lambda model: model.graph.node[0].attribute.remove(attribute(model, name))


def set_number(name: str, value: int) -> Callable[[onnx.ModelProto], None]:
    def change(model: onnx.ModelProto) -> None:
        attribute(model, name).CopyFrom(helper.make_attribute(name, value))

    return change


def point_to_a_file(model: onnx.ModelProto) -> None:
    set_number("embed_mode", 0)(model)
    set_library(model, b"../../../../tmp/other.so")


def truncate(model: onnx.ModelProto) -> None:
    set_library(model, attribute(model, "ep_cache_context").s[:200])
    attribute(model, "ep_sdk_version").s = b"0.0.1"


def for_another_processor(model: onnx.ModelProto) -> None:
    library = bytearray(attribute(model, "ep_cache_context").s)
    library[18:20] = (2).to_bytes(2, "little")  # e_machine of ELF: SPARC
    set_library(model, bytes(library))


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (damage_library, "the library of an EPContext node is damaged: it has the digest"),
        (remove("sha256"), "its attribute sha256 is missing"),
        (set_number("sha256", 5), "its attribute sha256 is missing"),
        (remove("ep_cache_context"), "has no library in its attribute ep_cache_context"),
        (lambda model: set_library(model, b""), "has no library in its attribute ep_cache_context"),
        (point_to_a_file, "has embed_mode 0, and 1 is expected"),
        (set_number("main_context", 0), "has main_context 0, and 1 is expected"),
        (truncate, "it is truncated: .*; tvmrt 0.0.1 compiled it, and this is tvmrt "),
        (for_another_processor, "it is for another processor, this machine is "),
        (lambda model: set_library(model, b"#!/bin/sh"), "a compiled part cannot be loaded"),
    ],
)
def test_damage_and_paths_are_errors_of_the_session(model, change, text):
    change(model)
    with pytest.raises(Exception, match=f"(?s)tvmrt: .*{text}"):
        session(model, ONE)


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
@pytest.mark.parametrize("place", ["graph", "second", "branch", "function"])
def test_code_of_a_model_is_not_run_without_the_option(place, file, tmp_path):
    mark, source = tmp_path / "was_run", tmp_path / "a.c"
    source.write_text(
        "#include <stdio.h>\n__attribute__((constructor)) static void go(void) "
        f'{{ fclose(fopen("{mark}", "w")); }}\n'
    )
    subprocess.run(["gcc", "-shared", "-fPIC", source, "-o", tmp_path / "a.so"], check=True)
    hostile = onnx.load(file)
    set_library(hostile, (tmp_path / "a.so").read_bytes())
    allowed = {**HIDDEN, "allow_compiled": onnxruntime_ep.digests(file)}
    node = hostile.graph.node[0]
    if place == "second":  # the first node is permitted by its digest
        second = copy.deepcopy(node)
        second.output[:] = ["y2", "place2"]
        hostile = onnx.load(file)
        hostile.graph.node.append(second)
        hostile.graph.output.append(helper.make_tensor_value_info("y2", 1, ["n", 4]))
    elif place == "branch":
        outputs = [helper.make_tensor_value_info("y", 1, ["n", 4]),
                   helper.make_tensor_value_info("place", 7, ["n"])]  # fmt: skip
        body = helper.make_graph([node], "body", [], outputs)
        chosen = helper.make_node(
            "If", ["flag"], ["y", "place"], then_branch=body, else_branch=body
        )
        hostile.graph.input.append(helper.make_tensor_value_info("flag", TensorProto.BOOL, []))
        hostile.graph.node[0].CopyFrom(chosen)
    elif place == "function":
        imports = list(hostile.opset_import)
        body = helper.make_function("local", "F", node.input, node.output, [node], imports)
        hostile.functions.append(body)
        hostile.opset_import.append(helper.make_opsetid("local", 1))
        hostile.graph.node[0].CopyFrom(
            helper.make_node("F", node.input, node.output, domain="local")
        )
    for values in ({}, {"allow_compiled": "0"}, allowed):
        refusal(hostile, values)
        assert not mark.exists()


def test_a_temporary_folder_that_others_can_change_is_refused(file, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    session(file, ONE)
    tmp_path.chmod(stat.S_IRWXU | stat.S_IRWXO | stat.S_ISVTX)  # as /tmp
    session(file, ONE)
    assert not list(tmp_path.iterdir())
    tmp_path.chmod(stat.S_IRWXU | stat.S_IRWXO)
    assert "other users can replace files in it; set TMPDIR to" in refusal(onnx.load(file), ONE)
    assert not list(tmp_path.iterdir())


# ---- a library against its node ----


def swap_inputs(model: onnx.ModelProto) -> None:
    model.graph.node[0].input[1:] = ["v", "w"]


def swap_outputs(model: onnx.ModelProto) -> None:
    model.graph.node[0].output[:] = ["place", "y"]


def add_output(model: onnx.ModelProto) -> None:
    model.graph.node[0].output.append("more")
    model.graph.output.append(helper.make_tensor_value_info("more", 1, ["n"]))


def remove_output(model: onnx.ModelProto) -> None:
    del model.graph.node[0].output[1], model.graph.output[1]


def declare(value: str, element: int, *shape: int | str) -> Callable[[onnx.ModelProto], None]:
    def change(model: onnx.ModelProto) -> None:
        info = next(
            each for each in (*model.graph.input, *model.graph.output) if each.name == value
        )
        info.CopyFrom(helper.make_tensor_value_info(value, element, shape))

    return change


def make_constant(model: onnx.ModelProto) -> None:
    model.graph.initializer.append(onnx.numpy_helper.from_array(floats(16, 4), "w"))
    del model.graph.input[1]


def use_a_new_name(model: onnx.ModelProto) -> None:
    model.graph.node[0].input[0] = model.graph.input[0].name = "x:0"


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda model: model.graph.node[0].input.pop(), "has 3 inputs in its library and 2 in the"),
        (lambda model: model.graph.node[0].input.append("w"), "an input that is given twice or is"),
        (lambda model: model.graph.node[0].input.insert(0, "x"), "an input that is given twice or"),
        (make_constant, "an input that is given twice or is a constant"),
        (swap_inputs, r"input 1 of a .* is 'w' float32\[16,4\] in its .* and 'v' float32\[16,4\]"),
        (use_a_new_name, r"input 0 of a .* is 'x' float32\[1\.\.,16\] in its .* 'x:0' float32\["),
        (swap_outputs, r"output 0 of .* 'y' float32\[1\.\.,4\] in its .* and 'place' int64\[\?\]"),
        (add_output, "has 2 outputs in its library and 3 in the model"),
        (remove_output, "has 2 outputs in its library and 1 in the model"),
        (declare("x", TensorProto.DOUBLE, "n", 16), r"'x' float64\[\?,16\] in the model"),
        (declare("x", TensorProto.INT32, "n", 16), r"'x' int32\[\?,16\] in the model"),
        (declare("x", TensorProto.FLOAT, 0, 16), r"float32\[1\.\.,16\] in its .* float32\[0,16\]"),
        (declare("x", TensorProto.FLOAT, "n", 17), r"'x' float32\[\?,17\] in the model"),
        (declare("w", TensorProto.FLOAT, 16), r"'w' float32\[16,4\] in its .* 'w' float32\[16\]"),
        (declare("w", TensorProto.FLOAT16, 16, 4), r"'w' float16\[16,4\] in the model"),
        (declare("y", TensorProto.INT32, "n", 4), r"'y' int32\[\?,4\] in the model"),
        (declare("y", TensorProto.FLOAT, "n", 4, 1), r"'y' float32\[\?,4,1\] in the model"),
        (declare("y", TensorProto.FLOAT, "n", 5), r"'y' float32\[\?,5\] in the model"),
        (declare("place", TensorProto.INT32, "n"), r"'place' int32\[\?\] in the model"),
    ],
)
def test_a_node_that_differs_from_its_library_is_an_error_of_the_session(model, change, text):
    change(model)
    with pytest.raises(Exception, match=f"(?s)tvmrt: .*{text}.*compile the model again"):
        session(model, ONE)


def test_extents_within_the_bounds_of_a_library_may_be_fixed_or_unknown_in_the_model(model):
    declare("x", TensorProto.FLOAT, 3, 16)(model)
    model.graph.output[0].type.tensor_type.ClearField("shape")
    assert_same(network(TEXT), session(model, ONE), **feeds(3))


# ---- what writes a compiled model ----


def test_the_command_writes_a_compiled_model_and_prints_its_option(tmp_path):
    source, path = tmp_path / "net.onnx", tmp_path / "out_ctx.onnx"
    onnx.save(network(TEXT), source)
    command = [sys.executable, "-m", "tvmrt", "onnxruntime-ep", source, "-o", path]
    for _ in range(2):  # an older file is replaced
        done = subprocess.run(
            [*command, "--dims", "n=1..5"], capture_output=True, text=True, check=True
        )
    name, value = done.stdout.strip().split("=")
    assert name == "allow_compiled" and value == onnxruntime_ep.digests(path)
    assert sorted(os.listdir(tmp_path)) == ["net.onnx", "out_ctx.onnx"]
    assert_same(network(TEXT), session(path, {**HIDDEN, name: value}), **feeds(5))
    done = subprocess.run(
        [*command, "--dims", "m=1..5"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "--dims has the value 'm=1..5': the network has no dimension m" in done.stderr
    with pytest.raises(ValueError, match="has no EPContext node of tvmrt"):
        onnxruntime_ep.digests(source)
