"""Sources of operators: shared libraries in C, Python files, installed wheels."""

from __future__ import annotations

import os
import pickle
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from custom_case import EXAMPLES, compiled, example, onnx_model
from onnx import helper, save

from tvmrt.cli import onnx_reference
from tvmrt.cli.describe import describe
from tvmrt.cli.operator_bodies import check_operator
from tvmrt.cli.session import Session
from tvmrt.compiler.ir.custom import call_of
from tvmrt.custom import GraphBuilder, composed, gather, load_operators

ROOT = EXAMPLES.parents[1]
SOURCE = EXAMPLES / "c_library" / "operators.c"


def build(source: Path, output: Path, *flags: str) -> Path:
    """Build a shared library of operators."""
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler named cc")
    command = ["cc", "-shared", "-fPIC", "-std=c99", "-Wall", "-Wextra", "-Werror", *flags]
    done = subprocess.run(
        [*command, str(source), "-o", str(output)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return output


@pytest.fixture(scope="module")
def library(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("library")
    return build(SOURCE, folder / "liboperators.so", f"-I{ROOT / 'include'}")


def gated_model(x, w, b):
    node = helper.make_node(
        "Gated", ["x", "w", "b"], ["y", "z"], "gate", domain="example.library", gain=3.0
    )
    return onnx_model([node], {"x": x}, {"y": "f4", "z": "f4"}, {"w": w, "b": b})


def gated(x, w, b) -> list[np.ndarray]:
    fed = x.astype(np.float64) @ w.T + b
    y = 3 * np.tanh(fed) / (1 + np.exp(-fed))
    return [y, np.sign(y) * np.maximum(np.abs(y) - 0.5, 0)]


def operands() -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    return [rng.standard_normal(s).astype(np.float32) for s in ((2, 3), (4, 3), (4,))]


def test_library_from_source_has_kernels_and_compositions(library, tmp_path):
    x, w, b = operands()
    found = compiled(gated_model(x, w, b), {"x": x}, tmp_path, operators=[library])
    for got, expected in zip(found, gated(x, w, b)):
        np.testing.assert_allclose(got, expected, 1e-5, 1e-6)


def test_library_is_built_from_the_installed_package_alone(tmp_path):
    """Use the flags of ``tvmrt config``, and name the operators on the command line."""
    tvmrt_command = [sys.executable, "-m", "tvmrt"]
    config = subprocess.run(
        [*tvmrt_command, "config", "--cflags"], capture_output=True, text=True, check=True
    )
    built = build(SOURCE, tmp_path / "liboperators.so", *config.stdout.split())
    x, w, b = operands()
    save(gated_model(x, w, b), tmp_path / "net.onnx")
    arguments = ["compile", "net.onnx", "--operators", built.name, "-o", "net.so"]
    done = subprocess.run(
        [*tvmrt_command, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = Session(tmp_path / "net.so").run({"x": x})
    np.testing.assert_allclose(found["y"], gated(x, w, b)[0], 1e-5, 1e-6)


def test_kernel_from_a_library_takes_its_declaration(library):
    shrink, composed = load_operators(library)
    assert (shrink.name, shrink.version) == ("example.library::SoftShrink", 1)
    assert shrink.doc.startswith("Numbers move by bound")
    assert shrink.kernel_id < 0
    assert [(s.name, s.type.name, s.default) for s in shrink.scalars] == [("bound", "float", 0.5)]
    assert shrink.any_layout == (0, 1)
    assert composed.inputs == ["x", "w", "b"]
    assert composed.optional == ["b"]


def test_sizes_and_options_for_opencl_come_from_the_library(library):
    shrink = load_operators(library)[0]
    g = GraphBuilder()
    g.add(shrink, g.input("x", (5, 10)), bound=0.25)
    (node,) = g.graph().nodes
    attrs = shrink.opencl_attributes(call_of(node))
    assert (attrs["global_size"], attrs["local_size"]) == ([64], [32])
    assert attrs["build_options"] == "-DSIZE=50"
    assert attrs["function"] == "shrink"


def test_bodies_of_a_library_are_checked_against_each_other(library):
    """The library has no reference: other bodies are compared with the first one that runs."""
    rows = check_operator(load_operators(library)[0], cases=2)
    assert {row.judge for row in rows if not row.skipped} <= {"c"}
    assert {row.body for row in rows} & {"c NWC", "c NHWC", "opencl"}
    for row in rows:
        assert row.problem == ""
        if not row.skipped:
            np.testing.assert_allclose(row.found, row.right, 1e-6)


def test_c_composition_error_names_operator_node_and_graph(library):
    g = GraphBuilder("net", load_operators(library))
    with pytest.raises(
        ValueError,
        match=r"node gate \(example.library::Gated\): graph net: body: .* x must be a matrix",
    ):
        g.add("example.library::Gated", g.input("x", (3,)), operands()[1], name="gate")


def test_invalid_inner_node_fails_the_composition(library):
    x, w, _ = operands()
    g = GraphBuilder("net", load_operators(library))
    with pytest.raises(ValueError, match=r"graph net: body: .*Gemm"):
        g.add("example.library::Gated", g.input("x", x.shape), w[:, :2])


HEAD = """
#include <tvm/runtime/custom_op.h>
const char *f(const tvmrt_op_call *call) { (void)call; return "f"; }
const tvmrt_op_operand ends[] = {{"x", "float32", 0, 0}, {"y", "float32", 0, 0}};
"""
GET = "const tvmrt_operators *tvmrt_get_operators(void)"


def listing(abi: int = 1, kernels: str = "0, 0", composed: str = "0, 0") -> str:
    """Return the function that gives a library's declarations."""
    fields = f"{{{abi}, {kernels}, {composed}}}"
    return f"{GET} {{ static const tvmrt_operators all = {fields}; return &all; }}"


def kernel_text(**changes: str) -> str:
    """Return C text of a library with one kernel, valid apart from the changes."""
    fields = {
        "struct_bytes": "sizeof(tvmrt_op_kernel)", "name": '"Op"', "domain": '"d"', "version": "1",
        "inputs": "ends", "num_inputs": "1", "outputs": "ends + 1", "num_outputs": "1",
        "c_source": '"text"', "c_function": "f",
    }  # fmt: skip
    fields.update(changes)
    inside = ", ".join(f".{key} = {value}" for key, value in fields.items())
    return f"static const tvmrt_op_kernel kernel = {{{inside}}};\n{listing(kernels='&kernel, 1')}"


def composed_text(inputs: str) -> str:
    """Return C text of a library with one composition that has these inputs."""
    fields = f'sizeof(tvmrt_op_composed), "Op", "d", 1, 0, 0, "{inputs}", 1, 0, 0, compose'
    head = "const char *compose(tvmrt_graph *g, const tvmrt_value *i, const double *a, "
    return (
        f"{head} tvmrt_value *o) {{ (void)g; (void)i; (void)a; (void)o; return 0; }}\n"
        f"static const tvmrt_op_composed made = {{{fields}}};\n{listing(composed='&made, 1')}"
    )


GRAPH_MISTAKES = [
    ("no operator", "g->add(g, 0, i, 1, 0, 0, o, 1);", "add: op is NULL; give its name"),
    ("no key", 'g->add(g, "Relu", i, 1, &a, 1, o, 1);', "Relu: the key of an attribute is NULL"),
    ("no inputs", 'g->add(g, "Relu", 0, 1, 0, 0, o, 1);', "null pointer"),
    (
        "two outputs",
        'g->add(g, "Relu", i, 1, 0, 0, o, 2);',
        "(Relu): 2 outputs, expected 1: Y",
    ),
    ("no data", 'o[0] = g->constant(g, "float32", 0, 0, 0);', "constant: data of shape [] is NULL"),
    ("no element type", "o[0] = g->constant(g, 0, s, s, 1);", "constant: dtype is NULL"),
    ("huge", 'o[0] = g->constant(g, "int8", s, s, 2);', "is too large"),
    ("no value", "o[0] = 77;", "77 is not a value of the graph"),
]


@pytest.mark.parametrize(
    ("statement", "sentence"), [m[1:] for m in GRAPH_MISTAKES], ids=[m[0] for m in GRAPH_MISTAKES]
)
def test_composition_that_misuses_the_graph(tmp_path, statement, sentence):
    locals_ = "const int64_t s[2] = {1LL << 40, 1LL << 40}; const tvmrt_op_attr a = {0}; (void)s;"
    text = composed_text("x").replace("(void)a;", "").replace("*a,", "*numbers,")
    text = text.replace("{ (void)g;", f"{{ {locals_} (void)a; (void)numbers; {statement} (void)g;")
    (tmp_path / "misuse.c").write_text(HEAD + text)
    built = build(tmp_path / "misuse.c", tmp_path / "misuse.so", f"-I{ROOT / 'include'}")
    (operator,) = load_operators(built)
    g = GraphBuilder("net")
    with pytest.raises(ValueError, match=f"graph net: body: .*{re.escape(sentence)}"):
        g.add(operator, g.input("x", (3,)))


B = '"b", "int", 0'
LIBRARIES = [
    ("other library", "int x;", "it has no function tvmrt_get_operators"),
    ("none", f"{GET} {{ return 0; }}", "built for operator ABI none, this"),
    (
        "other version",
        listing(99),
        "built for operator ABI 99, this tvmrt supports 1; build the library with",
    ),
    ("empty", listing(), "declares no operator"),
    (
        "no list",
        listing(kernels="0, 3"),
        "kernels: the count is 3, but the pointer is NULL",
    ),
    ("struct", kernel_text(struct_bytes="8"), "operator Op: struct_bytes is not sizeof"),
    ("name", kernel_text(name="0"), "operator name '' is not an identifier"),
    (
        "scalars",
        f"static const tvmrt_op_scalar two[2] = {{{{{B}}}, {{{B}}}}};\n"
        + kernel_text(scalars="two", num_scalars="2"),
        "scalars: b is declared twice; rename one",
    ),
    ("inputs of a composition", composed_text("x x"), "d::Op: inputs are x x; name each by an"),
    ("optional first", composed_text("b? x"), "d::Op: an optional input cannot precede"),
    ("types", kernel_text(types='"T=int8 T=bool"'), "types: T is declared twice; rename one"),
    ("inputs", kernel_text(inputs="0"), "Op: inputs: the count is 1, but the pointer is"),
    ("function", kernel_text(c_function="0"), "operator Op: c_function is missing"),
    ("no body", kernel_text(c_source="0"), "operator d::Op has no body; give reference, c or"),
    (
        "sizes",
        kernel_text(opencl_source='"text"', opencl_function="f"),
        "operator Op: opencl_sizes is missing",
    ),
]


@pytest.mark.parametrize(
    ("text", "sentence"), [row[1:] for row in LIBRARIES], ids=[row[0] for row in LIBRARIES]
)
def test_library_without_usable_operators(tmp_path, text, sentence):
    head = "" if text == "int x;" else HEAD
    (tmp_path / "other.c").write_text(head + text)
    built = build(tmp_path / "other.c", tmp_path / "other.so", f"-I{ROOT / 'include'}")
    with pytest.raises(ValueError, match=f"other.so.*{re.escape(sentence)}"):
        load_operators(built)


def test_file_that_is_not_a_library(tmp_path):
    (tmp_path / "text.so").write_text("not a library")
    with pytest.raises(OSError, match=r"text\.so cannot be loaded"):
        load_operators(tmp_path / "text.so")


def test_installed_wheel_registers_its_operators(tmp_path):
    """Only the network names the operator; the wheel's entry point provides it."""
    setuptools = pytest.importorskip("setuptools", reason="setuptools builds the wheel")
    if int(setuptools.__version__.split(".")[0]) < 71:
        pytest.importorskip("wheel", reason="an old setuptools needs wheel to build one")
    source = tmp_path / "wheel"
    shutil.copytree(EXAMPLES / "wheel", source)
    installing = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index"]
    done = subprocess.run(
        [*installing, "--no-build-isolation", "--target", str(tmp_path / "site"), str(source)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    x = np.linspace(-3, 3, 7, dtype=np.float32)
    node = helper.make_node("Squash", ["x"], ["y"], domain="example.wheel")
    save(onnx_model([node], {"x": x}, {"y": "f4"}), tmp_path / "net.onnx")
    paths = [str(tmp_path / "site"), *sys.path]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    command = [sys.executable, "-m", "tvmrt", "compile", "net.onnx", "-o", "net.so"]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (y,) = Session(tmp_path / "net.so").run({"x": x}).values()
    np.testing.assert_allclose(y, x / (1 + np.abs(x)), 1e-6)


def test_python_file_exports_its_top_level_operators():
    found = load_operators(EXAMPLES / "rnn_cell.py")
    assert [o.name for o in found] == ["example.recurrent::RNNCell", "example.recurrent::Rnn"]


def test_python_file_that_raises_is_named(tmp_path):
    (tmp_path / "broken_ops.py").write_text("1 / 0")
    with pytest.raises(ImportError, match=r"broken_ops\.py cannot be loaded \(ZeroDivisionError"):
        load_operators(tmp_path / "broken_ops.py")


def test_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"none\.py: the operator file does not exist"):
        load_operators(tmp_path / "none.py")


class EntryPoint:
    """Entry point as an installed wheel declares it."""

    name, value = "point", "module:name"

    def __init__(self, target):
        self.target = target

    def load(self):
        if isinstance(self.target, Exception):
            raise self.target
        return self.target


@pytest.fixture
def installed(monkeypatch):
    """Return a function that makes entry points of objects."""

    def install(*targets):
        points = [EntryPoint(target) for target in targets]
        monkeypatch.setattr("tvmrt.compiler.custom.catalogue.entry_points", lambda group: points)
        return gather([])

    return install


def test_installed_override_is_opt_in(installed):
    catalogue = installed(example("direct_conv").direct_conv, example("rnn_cell").rnn)
    assert catalogue.find("", "Conv", 17) is None
    assert catalogue.find("example.recurrent", "Rnn", 1) is example("rnn_cell").rnn
    assert catalogue.find("", "Conv", 17) is None


def test_entry_point_may_be_a_list_or_a_function_that_returns_one(installed):
    operators = load_operators(EXAMPLES / "rnn_cell.py")
    for target in (operators, lambda: operators):
        assert installed(target).find("example.recurrent", "RNNCell", 1) is operators[0]


def test_inspect_lists_operators_of_installed_wheels(installed, tmp_path):
    x = np.zeros((2, 3), np.float32)
    node = helper.make_node("Twice", ["x"], ["y"], "twice", domain="example.vendor")
    twice = composed("Twice", domain="example.vendor")(lambda g, x: g.Add(x, x))
    save(onnx_model([node], {"x": x}, {"y": "f4"}), tmp_path / "net.onnx")
    verdicts = []
    for targets in ([], [twice], [ZeroDivisionError("oops")]):
        installed(*targets)
        verdicts.append(describe(tmp_path / "net.onnx").properties)
    unknown, known, broken = verdicts
    assert known["can_be_imported"] and "why_not" not in known
    assert "unknown operator" in unknown["why_not"]
    assert not broken["can_be_imported"] and "ZeroDivisionError: oops" in broken["why_not"]


def test_kernel_without_reference_cannot_be_verified(library):
    x, w, b = (np.zeros(shape, np.float32) for shape in [(2, 3), (4, 3), (4,)])
    with pytest.raises(ValueError, match=r"has no reference.*against their Python references$"):
        onnx_reference.expected_outputs(gated_model(x, w, b), {"x": x}, gather([library]))


def test_entry_point_that_fails_is_named_where_it_is_needed(installed):
    catalogue = installed(ZeroDivisionError("oops"))
    assert catalogue.find("", "Conv", 17) is None
    sentence = r"entry point point \(module:name\) .* cannot be loaded \(ZeroDivisionError: oops\)"
    with pytest.raises(ImportError, match=sentence):
        catalogue.find("example.wheel", "Squash", 1)


@pytest.mark.parametrize("kind", ["python", "library"])
def test_operators_of_files_are_pickled_by_their_file(library, tmp_path, kind):
    """Another process finds them by path, whatever its module search path."""
    path = library if kind == "library" else EXAMPLES / "rnn_cell.py"
    operators = load_operators(path)
    (tmp_path / "operators.pickle").write_bytes(pickle.dumps(operators))
    program = "import pickle\nprint(*pickle.load(open('operators.pickle', 'rb')))\n"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [operator.name for operator in operators]
