"""Errors about custom operators: one sentence with operator, graph, node and field."""

from __future__ import annotations

import re
from functools import partial

import numpy as np
import pytest
from custom_case import BODY, kernel, onnx_model, times
from onnx import helper

import tvmrt
from tvmrt.custom import C, GraphBuilder, OpenCL, Tensor, UnsupportedNode, composed, gather
from tvmrt.error import CompileError, UnsupportedError

X = np.zeros(4, np.float32)
F32, OPTIONAL = Tensor("x", "float32"), Tensor("a", "float32", optional=True)
T = {"T": ("float32", "int8")}
MIXED = {"inputs": [Tensor("x", "T"), Tensor("z", "T")], "types": T}
LAYOUTS = [Tensor("x", "float32", ("NCHW", "NHWC")), Tensor("z", "float32", ("NC", "NCW", "NCHW"))]

DECLARATIONS = {
    "d::Op: scalar b: type 'string' is not known": {"scalars": {"b": "string"}},
    "d::Op: scalar b: -1 is not a whole number from 0": {"scalars": {"b": ("uint", -1)}},
    "d::Op: scalar 'a b': names are identifiers": {"scalars": {"a b": "int"}},
    "d::Op: scalar x: an operand has that name": {"scalars": {"x": "int"}},
    "d::Op: operand x: type T is neither": {"inputs": [Tensor("x", "T")]},
    "d::Op: type T: unknown element type float8": {"types": {"T": ("float8",)}},
    "d::Op: operand 'x': names are C identifiers": {"outputs": [F32]},
    "d::Op: layout 'NCHW8c' is not known": {"inputs": [Tensor("x", "float32", "NCHW8c")]},
    "d::Op: operands declare different numbers of layouts": {"inputs": LAYOUTS},
    "d::Op: an optional input cannot precede": {"inputs": [OPTIONAL, F32]},
    "d::Op: without shape, outputs have the shape": {"inputs": [OPTIONAL]},
    "d::Op: an output cannot be optional": {"outputs": [OPTIONAL]},
    "d::Op: inputs: ['x'] is not a list of tvmrt.custom.Tensor": {"inputs": ["x"]},
    "d::Op: outputs: empty": {"outputs": []},
    "d::Op: c is": {"c": BODY},
    "d::Op: shape is (4,); give a function": {"shape": (4,)},
    "d::Op has no body; give reference, c or opencl": {"c": None},
    "operator name 'my op' is not an identifier": {"name": "my op"},
    "operator Op: version 0 is below 1": {"version": 0},
    "operator Op: an operator of ONNX's own domain replaces": {"overrides": True},
}


@pytest.mark.parametrize("sentence", DECLARATIONS)
def test_declaration_that_contradicts_itself(sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        kernel(**DECLARATIONS[sentence])


def opencl(function="f", **changes) -> dict:
    """Return the field of a declaration with an OpenCL body, which has some changes."""
    fields = {"global_size": lambda *types: [4], **changes}
    return {"opencl": OpenCL("__kernel void f() {}", function, **fields)}


SCALARS = {"b": "int", "h": ("half", 0)}
NODES = {
    "inputs: expected 1, the node has 2": ({}, {"times": 2}),
    "inputs: expected 1, the node has 0": ({}, {"times": 0}),
    "input x has element type int8; the operator takes": ({}, {"dtype": "int8"}),
    "output y: no input determines its type": ({"outputs": [Tensor("y", "T")], "types": T}, {}),
    "outputs: the operator returns 1, the node has 2": ({}, {"outputs": 2}),
    "scalar b is missing; give it, or declare a default": ({"scalars": SCALARS}, {}),
    "scalar q is not declared; the operator takes none": ({}, {"q": 1}),
    "scalar b: 'three' is not one number; give one of": ({"scalars": SCALARS}, {"b": "three"}),
    "scalar b: [1, 2] is not one number; give one of": ({"scalars": SCALARS}, {"b": [1, 2]}),
    "scalar b: 1.5 is not a whole number from": ({"scalars": SCALARS}, {"b": 1.5}),
    "scalar h: 1000000.0 is too large for type": ({"scalars": SCALARS}, {"b": 1, "h": 1e6}),
    "shape: the function of d::Op raised ZeroDivision": ({"shape": lambda x: 1 // 0}, {}),
    "shape: 'wide' is neither a shape nor a list": ({"shape": lambda x: "wide"}, {}),
    "shape: (-1,) is neither a shape nor a list": ({"shape": lambda x: (-1,)}, {}),
    "shape: the function returns 2 shapes": ({"shape": lambda x: [(1,), (2,)]}, {}),
    "opencl.global_size: 4 in dimension 0 is not": (opencl(local_size=lambda *t: [3]), {}),
    "opencl.local_size: 2 sizes, opencl.global": (opencl(local_size=lambda *t: [2, 2]), {}),
    "opencl.global_size: sizes must be positive": (opencl(global_size=lambda *t: [0]), {}),
    "opencl.global_size: [1, 1, 1, 1] is not a": (opencl(global_size=lambda *t: [1] * 4), {}),
    "opencl.global_size: the function of d::Op": (opencl(global_size=lambda *t: t[7]), {}),
    "opencl.function: the source of d::Op has no g": (opencl("g"), {}),
    "c.function: the source of d::Op has no g": ({"c": C(BODY, "g")}, {}),
    "c.function: 'f g' is not a function name": ({"c": C(BODY, "f g")}, {}),
    "c.function: <function <lambda> at": ({"c": C(BODY, lambda x, y: "f")}, {}),
    "c.function: 3 is not a function name": ({"c": C(BODY, {"float32": 3})}, {}),
    "c.scratch: -1 is not a number of bytes": ({"c": C(BODY, "f", lambda *t: -1)}, {}),
    "attributes: the function of d::Op returns None": ({"attributes": lambda *a: None}, {}),
}
COMPOSED = {
    "inputs: expected 2, the node has 1": (lambda g, x, y: x, {}),
    "attribute q is not declared; the operator takes none": (lambda g, x: x, {"q": 1}),
    "attribute q is missing; give it, or declare a default": (lambda g, x, *, q: x, {}),
    "body: result 0 is 3, which is not a tensor of the graph": (lambda g, x: 3, {}),
    "body: the function of d::Op raised ZeroDivisionError": (lambda g, x: 1 // 0, {}),
    "body: the function of d::Op raised ValueError": (lambda g, x: g.Reshape(x, [3]), {}),
}


def use(operator, dtype="float32", times: int = 1, **attributes):
    """Return the result of a node n of the operator in a graph named net."""
    g = GraphBuilder("net")
    inputs = [g.input(f"x{i}", (4,), dtype) for i in range(times)]
    return g.add(operator, *inputs, name="n", **attributes)


@pytest.mark.parametrize("sentence", [*NODES, *COMPOSED])
def test_node_that_does_not_fit_its_declaration(sentence):
    if sentence in NODES:
        changes, given = NODES[sentence]
        operator = kernel(**changes)
    else:
        function, given = COMPOSED[sentence]
        operator = composed("Op", domain="d")(function)
    with pytest.raises(ValueError, match=r"^node n \(d::Op\): graph net: " + re.escape(sentence)):
        use(operator, **given)


def compile_one(**changes):
    node = helper.make_node("Op", ["x"], ["y"], "n", domain="d")
    model = onnx_model([node], {"x": X}, {"y": "f4"})
    return tvmrt.compile(model, operators=kernel(**changes))


def decline(attributes, inputs):
    raise UnsupportedNode("not on a Friday")


def compile_built(outputs=("y",), operators=(), **changes):
    g = GraphBuilder("net")
    y = g.add(kernel(**changes), g.input("x", (4,)), name="n")
    for name in outputs:
        g.output(name, y)
    return tvmrt.compile(g, operators=operators)


def with_input(*given):
    g = GraphBuilder("net")
    g.input("a", np.array([2, 3]), np.int64)
    g.input(*given)


def fold(reference):
    return GraphBuilder("net").add(kernel(reference=reference), X)


endless = composed("Op", domain="d")(lambda g, x: g.add(endless, x))
NHWC = [Tensor("x", "float32", "NHWC")]
MISUSES = {
    "reference: the results are of numpy's type object": partial(fold, lambda x: X.astype(object)),
    "reference: the results have the shapes [(4,), (4,)], by": partial(fold, lambda x: (x, x)),
    "d::Op uses itself: d::Op uses d::Op": partial(use, endless),
    "ai.onnx::Op overrides Op, which is not a": lambda: gather(kernel(domain="", overrides=True)),
    "3 is not an operator; create one with tvmrt.custom": lambda: gather([3]),
    "input b has the default 3.0; optional": lambda: composed("Op", "d")(lambda g, b=3.0: b),
    "parameter *xs is not supported": lambda: composed("Op", "d")(lambda g, *xs: xs[0]),
    "unknown operator d::Op, version 1; declare it": partial(compile_one, name="Other"),
    "n (c: d::Op has no C body for the CPU; declare": partial(compile_one, c=None, **opencl()),
    "n (c.function: d::Op declares no function for": partial(compile_one, c=C(BODY, {"int8": "f"})),
    "declared from version 3 of its domain on, but": partial(compile_one, version=3),
    "declines the node: not on a Friday": partial(compile_one, attributes=decline),
    "graph net: no declared layout matches: operand x": partial(compile_built, inputs=NHWC),
    "a GraphBuilder already has shapes and": partial(compile_built, operators=[kernel()]),
    "graph net has no outputs, so it computes nothing; add": partial(compile_built, outputs=()),
    "output y: the graph already has an output of this": partial(compile_built, outputs=("y", "y")),
    "input a: the graph already has an input of this name": partial(with_input, "a", (4,)),
    "input x: unknown element type float8": partial(with_input, "x", (4,), "float8"),
    "input x: unknown element type complex64": partial(with_input, "x", (4,), np.complex64),
    "input x: 5 is not a shape; give a tuple of sizes": partial(with_input, "x", 5),
    "input x: (2, -1) is not a shape; give a tuple of": partial(with_input, "x", (2, -1)),
    "input x: ('N', 5) is not a shape; give a tuple of": partial(with_input, "x", ("N", 5)),
}


@pytest.mark.parametrize("sentence", MISUSES)
def test_misuse_is_explained(sentence):
    with pytest.raises((ValueError, TypeError, UnsupportedError), match=re.escape(sentence)):
        MISUSES[sentence]()


def test_two_operators_of_one_name_in_a_list():
    with pytest.raises(ValueError, match="d::Op is declared twice; rename one"):
        gather([kernel(), kernel()])


def test_two_operators_of_one_name_in_a_graph():
    g = GraphBuilder("net")
    x = g.add(kernel(), g.input("x", (4,)))
    with pytest.raises(ValueError, match="graph net: two operators are named d::Op; give one"):
        g.add(kernel(), x)


def test_operands_of_one_type_name_have_one_type():
    g = GraphBuilder("net")
    with pytest.raises(ValueError, match="input z has element type int8; it must be float32 like"):
        g.add(kernel(**MIXED), g.input("x", (4,)), g.input("z", (4,), "int8"))


def test_reference_may_compute_in_place():
    x = np.ones(4, np.float32)
    made = GraphBuilder("net").add(kernel(reference=lambda x: np.multiply(x, 2, out=x)), x)
    np.testing.assert_array_equal(made.data, [2, 2, 2, 2])
    np.testing.assert_array_equal(x, [1, 1, 1, 1])


C_MISTAKES = {
    r"d::Op:3:\d+: error.*oops": "\n// one\nstatic int32_t f(void) { return oops; }\n",
    r"incompatible.*d::Op:2:\d+": times().source.replace("float *x", "int *x"),
    r"too few arguments.*d::Op:2:\d+": times().source.replace("*t)", "*t, int b)"),
    r"d::Op:4:\d+: error: .*implicit": times().source.replace("x[i]", "g(i)"),
}


@pytest.mark.parametrize("sentence", C_MISTAKES)
def test_c_body_that_the_compiler_refuses_is_named_with_the_users_line(tmp_path, sentence):
    library = compile_one(c=C(C_MISTAKES[sentence], "f"))
    with pytest.raises(CompileError, match=sentence):
        library.export_library(tmp_path / "net.so")


def test_c_function_may_come_from_a_file_of_the_users():
    use(kernel(c=C("#include <vendor_kernels.h>\n", "vendor_relu")))
    with pytest.raises(ValueError, match="has no vendor_relu"):
        use(kernel(c=C("#include <math.h>\n", "vendor_relu")))


def test_value_of_another_graph():
    g, other = GraphBuilder("net"), GraphBuilder("other")
    x, z = g.input("x", (4,)), other.input("z", (4,))
    with pytest.raises(ValueError, match=r"^node n: input 1: z is a value of another graph; "):
        g.Add(x, z, name="n")
    reads = composed("Op", domain="d")(lambda inside, y: inside.Add(x, y))
    with pytest.raises(ValueError, match=r"^node n .*body: .*input 0: x is a value of another"):
        g.add(reads, x, name="n")
