"""Compare string operators in whole networks with onnxruntime, many nodes per library."""

from __future__ import annotations

import shutil
import subprocess

import numpy as np
import onnx
import onnx_backend
import pytest
from onnx import TensorProto, helper
from string_case import FLOAT, INT64, STRING, compare, network, node, strings, tensor

from tvmrt import plugin
from tvmrt.compiler import pipeline
from tvmrt.contrib.graph_executor import GraphModule
from tvmrt.error import UnsupportedError
from tvmrt.libinfo import find_include_path
from tvmrt.plugins.onnx_text import HEADERS
from tvmrt.runtime import cpu, load_module
from tvmrt.runtime.executor import AotModule

WORDS = ["", "onnx", "ÄÖÜ größer", "two words", "日本 語", "a-b--c", "x" * 300, "MiXed Case 12"]


def test_strings_are_made_moved_and_compared():
    nodes = [
        node("StringConcat", ["x", "y"], "joined"),
        node("StringConcat", ["joined", "ends"], "twice"),
        node("StringConcat", ["x", "row"], "broadcast"),
        node("Equal", ["x", "y"], "same"),
        node("Equal", ["x", "onnx"], "is_onnx"),
        node("Where", ["same", "x", "joined"], "chosen"),
        node("Where", ["same", "ends", "onnx"], "named"),
        node("Concat", ["x", "joined", "ends"], "concat", axis=0),
        node("Gather", ["joined", "places"], "gathered", axis=0),
        node("Gather", ["ends", "places"], "of_constant", axis=0),
        node("StringConcat", ["gathered", "of_constant"], "with_constant"),
        node("Reshape", ["x", "square"], "reshaped"),
        node("Transpose", ["reshaped"], "turned", perm=[1, 0]),
        node("Identity", ["x"], "itself"),
        node("Expand", ["onnx", "square"], "many"),
        node("Concat", ["many", "reshaped", "many"], "stacked", axis=1),
        node("StringConcat", ["named", "named"], "with_names"),
        node("StringSplit", ["x"], ["words", "count"]),
        node("StringSplit", ["twice"], ["parts", "parts_count"], delimiter="-"),
        node("StringSplit", ["twice"], ["few", "few_count"], delimiter="-", maxsplit=1),
        node("StringSplit", ["x"], ["first", "first_count"], maxsplit=1),
    ]
    kinds = {"same": TensorProto.BOOL, "is_onnx": TensorProto.BOOL}
    outputs = [
        (o, kinds.get(o, INT64 if o.endswith("count") else STRING))
        for n in nodes
        for o in n.output
        if o not in ("of_constant", "named", "many")
    ]
    weights = [
        tensor("ends", *"abcdefgh"),
        tensor("row", "1", "2", shape=[2, 1]),
        tensor("onnx", "onnx"),
        helper.make_tensor("square", INT64, [2], [2, 4]),
    ]
    inputs = [("x", STRING, [8]), ("y", STRING, [8]), ("places", INT64, [3])]
    model = network(nodes, inputs, outputs, weights)
    x, y = strings(*WORDS), strings(*WORDS[::-1])
    y[1] = "onnx"
    places = np.array([7, 0, 2])
    runs = [{"x": a, "y": b, "places": places} for a, b in ((x, y), (y, x), (y, y))]
    compare(model, *runs)


CASES = {"lower": "LOWER", "upper": "UPPER", "neither": "NONE"}


@pytest.mark.slow
@pytest.mark.parametrize("sensitive", [0, 1])
def test_normalised_as_onnxruntime_does(sensitive):
    text = strings("Monday", "tuesday", "MONDAY", "Ärger", "ñandú", "ΔΕΛΤΑ", "Дом", "")
    nodes = [
        node("StringNormalizer", ["x"], name, case_change_action=action,
             is_case_sensitive=sensitive, stopwords=["monday", "ärger", "Дом"])
        for name, action in CASES.items()
    ]  # fmt: skip
    model = network(nodes, [("x", STRING, [8])], [(name, STRING) for name in CASES])
    compiled = onnx_backend.prepare(model)
    for given in (text, strings(*["monday"] * 8)):
        found = compiled.run({"x": given})._asdict()
        words = given.tolist()
        stops = {"monday", "ärger", "Дом"} if sensitive else {"monday", "ärger", "дом"}
        kept = [w for w in words if (w if sensitive else w.lower()) not in stops] or [""]
        wanted = {"lower": [w.lower() for w in kept], "upper": [w.upper() for w in kept]}
        for name, array in found.items():
            assert array.tolist() == wanted.get(name, kept)


def test_encoders_and_ngrams_take_strings():
    keys = ["a", "bc", "日本", ""]
    ml = "ai.onnx.ml"
    nodes = [
        node("LabelEncoder", ["x"], "ints", ml, keys_strings=keys, values_int64s=[5, 6, 7, 8]),
        node("LabelEncoder", ["x"], "floats", ml, keys_strings=keys,
             values_floats=[0.5, 1.5, 2.5, 3.5], default_float=-2.0),
        node("OneHotEncoder", ["x"], "hot", ml, cats_strings=keys),
        node("CategoryMapper", ["x"], "mapped", ml, cats_strings=keys,
             cats_int64s=[9, 8, 7, 6], default_int64=3),
        node("TfIdfVectorizer", ["x"], "tf", mode="TF", min_gram_length=1, max_gram_length=2,
             max_skip_count=1, ngram_counts=[0, 3], ngram_indexes=[0, 2, 1, 4, 3],
             pool_strings=["bc", "a", "日本", "a", "bc", "日本", "a"]),
        node("TfIdfVectorizer", ["x"], "tfidf", mode="TFIDF", min_gram_length=1,
             max_gram_length=1, max_skip_count=0, ngram_counts=[0], ngram_indexes=[2, 0, 1],
             pool_strings=["bc", "a", "日本"], weights=[0.5, 2.0, 3.0]),
    ]  # fmt: skip
    kinds = [INT64, FLOAT, FLOAT, INT64, FLOAT, FLOAT]
    outputs = [(n.output[0], kind) for n, kind in zip(nodes, kinds)]
    model = network(nodes, [("x", STRING, [2, 4])], outputs)
    x = strings("a", "bc", "日本", "a", "zzz", "", "日本", "a", shape=(2, 4))
    compare(model, {"x": x}, {"x": x[::-1].copy()})


def test_a_branch_gives_strings():
    made = [helper.make_tensor_value_info("made", STRING, [2])]
    some = [helper.make_tensor_value_info("some", STRING, [2])]
    then = helper.make_graph([node("StringConcat", ["x", "x"], "made")], "then", [], made)
    other = helper.make_graph([node("Identity", ["words"], "some")], "other", [], some)
    nodes = [
        node("If", ["c"], "y", then_branch=then, else_branch=other),
        node("StringConcat", ["y", "x"], "z"),
    ]
    inputs = [("x", STRING, [2]), ("c", TensorProto.BOOL, [])]
    model = network(nodes, inputs, [("y", STRING), ("z", STRING)], [tensor("words", "on", "off")])
    x = strings("é", "f")
    compare(model, *({"x": x, "c": np.array(c)} for c in (True, False)))


def joined(count=2) -> onnx.ModelProto:
    nodes = [node("StringConcat", ["x", "x"], "y"), node("Cast", ["x"], "z", to=FLOAT)]
    return network(nodes[:1], [("x", STRING, [count])], [("y", STRING)])


@pytest.mark.parametrize("executor", ["graph", "aot"])
def test_results_stay_until_the_next_run(executor, tmp_path):
    """Results stay valid while later steps of the run write to the same workspace."""
    nodes = [
        node("StringConcat", ["x", "x"], "y"),
        node("Exp", ["a"], "b"),
        node("MatMul", ["b", "b"], "c"),
        node("MatMul", ["c", "b"], "d"),
    ]
    inputs = [("x", STRING, [3]), ("a", FLOAT, [64, 64])]
    model = network(nodes, inputs, [("y", STRING), ("d", FLOAT)])
    library = pipeline.compile(model, executor=executor)
    library.export_library(str(tmp_path / "net.so"))
    module = load_module(str(tmp_path / "net.so"))
    make = GraphModule if executor == "graph" else AotModule
    first, second = (make(module["default"](cpu(0))) for _ in range(2))
    for net, text in ((first, "one"), (second, "two")):
        net.set_input("x", [text, "", f"{text}!"])
        net.set_input("a", np.ones((64, 64), np.float32))
        net.run()
    assert first.get_output(0).numpy().tolist() == ["oneone", "", "one!one!"]
    assert second.get_output(0).numpy().tolist() == ["twotwo", "", "two!two!"]
    first.set_input("x", np.array(["a", "b", "c"]))
    first.run()
    assert first.get_output(0).numpy().tolist() == ["aa", "bb", "cc"]
    assert second.get_output(0).numpy().tolist() == ["twotwo", "", "two!two!"]


def test_invalid_and_oversized_strings_are_errors():
    compiled = onnx_backend.prepare(joined())
    with pytest.raises(TypeError, match="input 'x': the elements of a ndarray are not strings"):
        compiled.run({"x": np.zeros(2)})
    with pytest.raises(TypeError, match="an element is a int, not a string"):
        compiled.run({"x": np.array(["a", 3], object)})
    with pytest.raises(ValueError, match=r"shape \(3,\) does not match the tensor's shape \(2,\)"):
        compiled.run({"x": strings("a", "b", "c")})
    with pytest.raises(ValueError, match="a string contains a NUL character"):
        compiled.run({"x": strings("a\0b", "c")})
    with pytest.raises(MemoryError, match=r"y.*creates more string data than the 1048576 bytes"):
        compiled.run({"x": strings("a" * 600_000, "c")})
    assert compiled.run({"x": strings("a", "b")}).y.tolist() == ["aa", "bb"]


def test_refused_by_name():
    with pytest.raises(UnsupportedError, match=r"y \(it handles strings, which are not supported"):
        pipeline.compile(joined(), target="cortex-m4")
    bad = network(
        [node("RegexFullMatch", ["x"], "y", pattern="a")],
        [("x", STRING, [2])], [("y", TensorProto.BOOL)],
    )  # fmt: skip
    with pytest.raises(UnsupportedError, match=r"RegexFullMatch: it handles strings; do that"):
        pipeline.compile(bad)


def test_without_the_plugin_strings_are_moved_but_not_read(monkeypatch):
    moved = network([node("Transpose", ["x"], "y")], [("x", STRING, [2, 3])], [("y", STRING)])
    end = [("y", TensorProto.BOOL)]
    same = network([node("Equal", ["x", "x"], "y")], [("x", STRING, [2])], end)
    monkeypatch.setenv("TVMRT_PLUGINS", "-onnx_text")
    monkeypatch.setattr(plugin, "_tables", [])
    library = pipeline.compile(moved)
    assert "op/string_tensors.h" not in "".join(library.sources.files.values())
    with pytest.raises(
        UnsupportedError, match=r"y .Equal.*text of strings is not available: the p"
    ):
        pipeline.compile(same)


@pytest.mark.parametrize(("compiler", "standard"), [("gcc", "c99"), ("g++", "c++11")])
def test_kernels_compile_alone(compiler, standard):
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    includes = [f"-I{folder}" for folder in find_include_path()]
    language = "c++" if compiler == "g++" else "c"
    command = [compiler, "-x", language, f"-std={standard}", "-Wall", "-Wextra", "-Werror"]
    headers = sorted(HEADERS.rglob("*.h"))
    for header in headers:
        text = f"#include <{header.relative_to(HEADERS)}>\n"
        options = ["-Wno-unused-function", *includes, "-fsyntax-only", "-"]
        subprocess.run([*command, *options], input=text, text=True, check=True)
    assert [header.name for header in headers] == ["ngrams.h", "string_tensors.h"]
