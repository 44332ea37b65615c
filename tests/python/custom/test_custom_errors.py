"""Errors about custom operators: one sentence with operator, graph, node and field."""

from __future__ import annotations

import re

import numpy as np
import pytest
from custom_case import BODY, kernel, onnx_model
from onnx import helper

import tvmrt
from tvmrt.custom import C, GraphBuilder, OpenCL, Tensor, UnsupportedNode, composed
from tvmrt.error import CompileError, UnsupportedError

X = np.zeros(4, np.float32)
T = {"T": ("float32", "int8")}
OPTIONAL = Tensor("a", "float32", optional=True)


def use(operator, dtype="float32", times: int = 1, **attributes):
    """Return the result of a node n of the operator in a graph named net."""
    g = GraphBuilder("net")
    inputs = [g.input(f"x{i}", (4,), dtype) for i in range(times)]
    return g.add(operator, *inputs, name="n", **attributes)


def at_node(text: str) -> str:
    """Return the pattern of a message about the node that ``use`` adds."""
    return r"^node n \(d::Op\): graph net: " + re.escape(text)


def opencl(function="f", **changes) -> dict:
    """Return the field of a declaration with an OpenCL body, which has some changes."""
    fields = {"global_size": lambda *types: [4], **changes}
    return {"opencl": OpenCL("__kernel void f() {}", function, **fields)}


def tensors(*layouts: tuple[str, ...]) -> dict:
    """Return the fields of a declaration whose input and output have these layouts."""
    x, y = (Tensor(name, "float32", names) for name, names in zip("xy", layouts))
    return {"inputs": [x], "outputs": [y]}


DECLARATIONS = {
    "scalar type": ({"scalars": {"b": "string"}}, "d::Op: scalar b: type 'string' is not known"),
    "default": ({"scalars": {"b": ("uint", -1)}}, "d::Op: scalar b: -1 lies outside 0 to"),
    "scalar pair": ({"scalars": {"b": ("int",)}}, "scalar b: ('int',) is neither a type nor a"),
    "scalar name": ({"scalars": {"a b": "int"}}, "scalar 'a b': names are identifiers"),
    "scalar as operand": ({"scalars": {"x": "int"}}, "scalar x: an operand has that name"),
    "operand type": ({"inputs": [Tensor("x", "T")]}, "d::Op: operand x: type T is neither"),
    "type list": ({"types": {"T": ("float8",)}}, "d::Op: type T: unknown element type float8"),
    "two names": ({"outputs": [Tensor("x", "float32")]}, "d::Op: operand 'x': names are"),
    "layout": (tensors(("NHCX",), ()), "d::Op: layout 'NHCX' is not known; spell the axes as"),
    "blocks": (tensors(("NCHW8c",), ()), "d::Op: layout 'NCHW8c' is not known"),
    "layouts": (tensors(("NCHW", "NHWC"), ("NC", "NCW", "NCHW")), "different numbers of layouts"),
    "optional first": ({"inputs": [OPTIONAL, Tensor("b", "T")], "types": T}, "optional input can"),
    "all optional": ({"inputs": [OPTIONAL]}, "all inputs are optional; give shape"),
    "optional output": ({"outputs": [OPTIONAL]}, "d::Op: an output cannot be optional"),
    "no tensors": ({"inputs": ["x"]}, "inputs: ['x'] is not a list of tvmrt.custom.Tensor"),
    "no outputs": ({"outputs": []}, "d::Op: outputs: empty"),
    "body as text": ({"c": BODY}, "d::Op: c is"),
    "shape as numbers": ({"shape": (4,)}, "d::Op: shape is (4,); give a function"),
    "no body": ({"c": None}, "d::Op has no body; give reference, c or opencl"),
    "name": ({"name": "my op"}, "operator name 'my op' is not an identifier"),
    "version": ({"version": 0}, "operator Op: version 0 is below 1"),
    "override": ({"overrides": True}, "an operator of ONNX's own domain replaces a built-in one"),
    "standard": ({"domain": ""}, "an operator of ONNX's own domain replaces a built-in one"),
}


@pytest.mark.parametrize("case", DECLARATIONS)
def test_declaration_that_contradicts_itself(case):
    changes, sentence = DECLARATIONS[case]
    with pytest.raises(ValueError, match=re.escape(sentence)):
        kernel(**changes)


SCALARS = {"scalars": {"b": "int", "u": ("uint", 0), "h": ("half", 0)}}
MIXED = {"inputs": [Tensor("x", "T"), Tensor("z", "T")], "types": T}
NODES = {
    "too many inputs": ({}, {"times": 2}, "inputs: expected 1, the node has 2"),
    "too few inputs": ({}, {"times": 0}, "inputs: expected 1, the node has 0"),
    "element type": ({}, {"dtype": "int8"}, "input x has element type int8; the operator takes"),
    "output type": ({"outputs": [Tensor("y", "T")], "types": T}, {}, "output y: no input deter"),
    "outputs": ({}, {"outputs": 2}, "outputs: the operator returns 1, the node has 2"),
    "no scalar": (SCALARS, {}, "scalar b is missing; give it, or declare a default"),
    "unknown scalar": ({}, {"q": 1}, "scalar q is not declared; the operator takes none"),
    "text": (SCALARS, {"b": "three"}, "scalar b: 'three' is text; give a number of type int"),
    "list": (SCALARS, {"b": [1, 2]}, "scalar b: [1, 2] is a list; give one number"),
    "fraction": (SCALARS, {"b": 1.5}, "scalar b: 1.5 is not a whole number"),
    "int range": (SCALARS, {"b": 1 << 31}, "scalar b: 2147483648 lies outside"),
    "uint range": (SCALARS, {"b": 1, "u": -1}, "scalar u: -1 lies outside 0 to"),
    "half range": (SCALARS, {"b": 1, "h": 1e6}, "scalar h: 1000000.0 is too large for type half"),
    "shape raises": ({"shape": lambda x: 1 // 0}, {}, "shape: the function of d::Op raised Zero"),
    "shape is text": ({"shape": lambda x: "wide"}, {}, "shape: 'wide' is neither a shape nor a"),
    "negative": ({"shape": lambda x: (-1,)}, {}, "shape: (-1,) is neither a shape nor a list"),
    "two shapes": ({"shape": lambda x: [(1,), (2,)]}, {}, "shape: the function returns 2 shapes"),
    "divisor": (opencl(local_size=lambda *t: [3]), {}, "opencl.global_size: 4 in dimension 0 is"),
    "dimensions": (opencl(local_size=lambda *t: [2, 2]), {}, "opencl.local_size: 2 sizes, opencl"),
    "no size": (opencl(global_size=lambda *t: [0]), {}, "opencl.global_size: sizes must be posit"),
    "4 sizes": (opencl(global_size=lambda *t: [1] * 4), {}, "opencl.global_size: [1, 1, 1, 1] is"),
    "size raises": (opencl(global_size=lambda *t: t[7]), {}, "opencl.global_size: the function of"),
    "no kernel": (opencl("g"), {}, "opencl.function: the source of d::Op has no g"),
    "no function": ({"c": C(BODY, "g")}, {}, "c.function: the source of d::Op has no g"),
    "no name": ({"c": C(BODY, lambda *t: "f g")}, {}, "c.function: 'f g' is not a function name"),
    "attributes": (
        {"attributes": lambda *a: None},
        {},
        "attributes: the function of d::Op returns",
    ),
    "scratch": ({"c": C(BODY, "f", lambda *t: -1)}, {}, "c.scratch: -1 is not a number of bytes"),
}


@pytest.mark.parametrize("case", NODES)
def test_node_that_does_not_fit_its_declaration(case):
    changes, given, sentence = NODES[case]
    with pytest.raises(ValueError, match=at_node(sentence)):
        use(kernel(**changes), **given)


def test_operands_of_one_type_name_have_one_type():
    g = GraphBuilder("net")
    with pytest.raises(ValueError, match="input z has element type int8; it must be float32 like"):
        g.add(kernel(**MIXED), g.input("x", (4,)), g.input("z", (4,), "int8"))


REFERENCES = {
    "nothing": (lambda x: np.full(4, None), "reference: output y is of numpy's type object"),
    "another shape": (lambda x: x[:3], "shape: the function returns [4] for output y, the refere"),
    "two results": (lambda x: (x, x), "reference: 2 results, the operator has 1 outputs"),
}


@pytest.mark.parametrize("case", REFERENCES)
def test_reference_that_contradicts_its_declaration(case):
    reference, sentence = REFERENCES[case]
    with pytest.raises(ValueError, match=at_node(sentence)):
        GraphBuilder("net").add(kernel(reference=reference), X, name="n")


def test_reference_may_compute_in_place():
    x = np.ones(4, np.float32)
    made = GraphBuilder("net").add(kernel(reference=lambda x: np.multiply(x, 2, out=x)), x)
    np.testing.assert_array_equal(made.data, [2, 2, 2, 2])
    np.testing.assert_array_equal(x, [1, 1, 1, 1])


def test_layout_that_no_operand_can_have():
    g = GraphBuilder("net")
    g.output("y", g.add(kernel(**tensors(("NHWC",), ("NHWC",))), g.input("x", (4,)), name="n"))
    sentence = "no declared layout matches: operand x: layout NHWC is for rank 4, the tensor has 1"
    with pytest.raises(ValueError, match=at_node(sentence)):
        tvmrt.compile(g)


def test_two_operators_of_one_name_in_a_list():
    with pytest.raises(ValueError, match=r"d::Op is declared twice: in .*; rename one"):
        GraphBuilder("net", [kernel(), kernel()])


def test_two_operators_of_one_name_in_a_graph():
    g = GraphBuilder("net")
    x = g.input("x", (4,))
    g.add(kernel(), x)
    with pytest.raises(ValueError, match="graph net: two operators are named d::Op; give one"):
        g.add(kernel(), x, name="n")


def test_operators_that_a_graph_cannot_use():
    with pytest.raises(ValueError, match=r"ai\.onnx::Op overrides Op, which is not a"):
        GraphBuilder("net", [kernel(domain="", overrides=True)])
    with pytest.raises(TypeError, match=r"3 is not an operator; create one with tvmrt\.custom"):
        GraphBuilder("net", [3])


def compile_one(*operators):
    node = helper.make_node("Op", ["x"], ["y"], "n", domain="d")
    return tvmrt.compile(onnx_model([node], {"x": X}, {"y": "f4"}), operators=operators)


def decline(attributes, inputs):
    raise UnsupportedNode("not on a Friday")


REFUSED = {
    "undeclared": ([], "unknown operator d::Op, version 1; declare it"),
    "no C body": ([kernel(c=None, **opencl())], r"n \(c: d::Op has no C body for the CPU; declare"),
    "type": ([kernel(c=C(BODY, {"int8": "f"}))], r"n \(c.function: d::Op declares no function for"),
    "version": ([kernel(version=3)], "declared from version 3 of its domain on, but the network"),
    "declined": ([kernel(attributes=decline)], "declines the node: not on a Friday"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_network_that_its_operators_cannot_compute(case):
    operators, sentence = REFUSED[case]
    with pytest.raises((ValueError, UnsupportedError), match=sentence):
        compile_one(*operators)


C_MISTAKES = {
    "the text": (
        "\n// one\nstatic int32_t f(void) { return oops; }\n",
        r"d::Op:3:\d+: error.*oops",
    ),
    "another type": (BODY.replace("float *x", "int *x"), r"incompatible.*d::Op:2:\d+"),
    "another scalar": (BODY.replace("*t)", "*t, int b)"), r"too few arguments.*d::Op:2:\d+"),
    "nobody's function": (BODY.replace("x[i]", "g(i)"), r"d::Op:4:\d+: error: .*implicit"),
}


@pytest.mark.parametrize("case", C_MISTAKES)
def test_c_body_that_the_compiler_refuses_is_named_with_the_users_line(tmp_path, case):
    body, sentence = C_MISTAKES[case]
    body = body.replace("FACTOR", "1")
    with pytest.raises(CompileError, match=sentence):
        compile_one(kernel(c=C(body, "f"))).export_library(tmp_path / "net.so")


def test_c_function_may_come_from_a_file_of_the_users():
    use(kernel(c=C("#include <vendor_kernels.h>\n", "vendor_relu")))
    with pytest.raises(ValueError, match="has no vendor_relu"):
        use(kernel(c=C("#include <math.h>\n", "vendor_relu")))


COMPOSED = {
    "inputs": (lambda g, x, y: x, {}, "inputs: expected 2, the node has 1"),
    "attribute": (lambda g, x: x, {"q": 1}, "attribute q is not declared; the operator takes none"),
    "required": (lambda g, x, *, q: x, {}, "attribute q is missing; give it, or declare a default"),
    "result": (lambda g, x: 3, {}, "body: result 0 is 3, which is not a tensor of the graph"),
    "raises": (lambda g, x: 1 // 0, {}, "body: the function of d::Op raised ZeroDivisionError"),
    "inner node": (lambda g, x: g.Reshape(x, [3]), {}, "body: the function of d::Op raised"),
    "itself": (lambda g, x: g.add(endless, x), {}, "body: the function of d::Op raised ValueError"),
}
endless = composed("Op", domain="d")(lambda g, x: g.add(endless, x))


@pytest.mark.parametrize("case", COMPOSED)
def test_composition_that_does_not_fit(case):
    function, given, sentence = COMPOSED[case]
    with pytest.raises(ValueError, match=at_node(sentence)) as problem:
        use(composed("Op", domain="d")(function), **given)
    assert case != "itself" or "d::Op uses itself" in str(problem.value)


def test_parameters_that_a_composition_cannot_have():
    with pytest.raises(ValueError, match=r"operator d::Op: input b has the default 3\.0; optional"):
        composed("Op", domain="d")(lambda g, x, b=3.0: g.Mul(x, b))
    with pytest.raises(ValueError, match=r"operator d::Op: parameter \*xs is not supported"):
        composed("Op", domain="d")(lambda g, *xs: xs[0])


def test_value_of_another_graph():
    g, other = GraphBuilder("net"), GraphBuilder("other")
    x, z = g.input("x", (4,)), other.input("z", (4,))
    sentence = "z is a value of another graph; pass it as an input"
    with pytest.raises(ValueError, match=f"^node n: input 1: {sentence}"):
        g.Add(x, z, name="n")
    with pytest.raises(ValueError, match=f"^output y: {sentence}"):
        g.output("y", z)
    reads = composed("Op", domain="d")(lambda inside, y: inside.Add(x, y))
    with pytest.raises(ValueError, match=r"^node n .*body: .*input 0: x is a value of another"):
        g.add(reads, x, name="n")
