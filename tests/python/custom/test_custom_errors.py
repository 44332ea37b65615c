"""Errors about custom operators: one sentence with operator, graph, node and field."""

from __future__ import annotations

import re

import numpy as np
import pytest
from custom_case import example, onnx_model
from onnx import helper

import tvmrt
from tvmrt.custom import C, GraphBuilder, Kernel, OpenCL, Tensor, composed
from tvmrt.error import UnsupportedError

BODY = """
static int32_t f(const float *x, const tvmrt_shape *s, float *y, const tvmrt_shape *t) {
  (void)t;
  for (int64_t i = 0; i < s->size; ++i) y[i] = x[i];
  return 0;
}
"""


def kernel(**changes) -> Kernel:
    """Return a valid declaration with some changes."""
    fields = {
        "name": "Op",
        "domain": "d",
        "inputs": [Tensor("x", "float32")],
        "outputs": [Tensor("y", "float32")],
        "c": C(BODY, "f"),
    }
    return Kernel(**{**fields, **changes})


def use(operator, shape=(4,), dtype="float32", times: int = 1, **attributes):
    """Return a graph named net with a node n of the operator."""
    g = GraphBuilder("net")
    inputs = [g.input(f"x{i}", shape, dtype) for i in range(times)]
    return g.add(operator, *inputs, name="n", **attributes)


def at_node(text: str) -> str:
    """Return the pattern of a message about a node that ends with the text."""
    return r"^node n \(d::Op\): graph net: " + text


def opencl(**changes) -> OpenCL:
    fields = {"source": "__kernel void f() {}", "function": "f", "global_size": lambda *t: [4]}
    return OpenCL(**{**fields, **changes})


DECLARATIONS = [
    ("scalar type", {"scalars": {"b": "string"}}, "d::Op: scalar b: type 'string' is not known"),
    ("default", {"scalars": {"b": ("uint", -1)}}, "d::Op: scalar b: -1 lies outside 0 to"),
    ("operand type", {"inputs": [Tensor("x", "T")]}, "d::Op: operand x: type T is neither"),
    ("type list", {"types": {"T": ("float8",)}}, "d::Op: type T: unknown element type float8"),
    ("two names", {"outputs": [Tensor("x", "float32")]}, "d::Op: operand 'x': names are"),
    ("layout", {"inputs": [Tensor("x", "float32", "NHCX")]}, "d::Op: layout 'NHCX' is not known"),
    (
        "layout counts",
        {
            "inputs": [Tensor("x", "float32", ("NCHW", "NHWC"))],
            "outputs": [Tensor("y", "float32", ("NCHW", "NHWC", "NCHW4c"))],
        },
        "d::Op: operands declare different numbers of layouts",
    ),
    (
        "optional first",
        {"inputs": [Tensor("a", "float32", optional=True), Tensor("b", "float32")]},
        "d::Op: an optional input cannot precede",
    ),
    (
        "optional output",
        {"outputs": [Tensor("y", "float32", optional=True)]},
        "d::Op: an output cannot be optional",
    ),
    ("no tensors", {"inputs": ["x"]}, "d::Op: inputs: ['x'] is not a list of tvmrt.custom.Tensor"),
    ("no outputs", {"outputs": []}, "d::Op: outputs: empty"),
    (
        "scalar's pair",
        {"scalars": {"b": ("int",)}},
        "d::Op: scalar b: ('int',) is neither a type nor a",
    ),
    ("scalar's name", {"scalars": {"a b": "int"}}, "d::Op: scalar 'a b': names are identifiers"),
    ("scalar named as operand", {"scalars": {"x": "int"}}, "d::Op: scalar x: an operand has that"),
    ("body as text", {"c": BODY}, "d::Op: c is"),
    ("shape as numbers", {"shape": (4,)}, "d::Op: shape is (4,); give a function"),
    ("no body", {"c": None}, "d::Op has no body; give reference, c or opencl"),
    ("name", {"name": "my op"}, "operator name 'my op' is not an identifier"),
    ("version", {"version": 0}, "operator Op: version 0 is below 1"),
    ("override", {"overrides": True}, "an operator of ONNX's own domain replaces a built-in one"),
    ("standard", {"domain": ""}, "an operator of ONNX's own domain replaces a built-in one"),
]


@pytest.mark.parametrize(
    ("changes", "sentence"), [c[1:] for c in DECLARATIONS], ids=[c[0] for c in DECLARATIONS]
)
def test_declaration_that_contradicts_itself(changes, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        kernel(**changes)


SCALARS = {"scalars": {"b": "int", "u": ("uint", 0), "f": ("float", 0), "h": ("half", 0)}}
NODES = [
    ("too many inputs", {}, {"times": 2}, "inputs: expected 1, the node has 2"),
    ("too few inputs", {}, {"times": 0}, "inputs: expected 1, the node has 0"),
    ("element type", {}, {"dtype": "int8"}, "input x has element type int8; the operator takes"),
    (
        "mixed types",
        {
            "inputs": [Tensor("x", "T"), Tensor("z", "float64")],
            "types": {"T": ("float32", "float64")},
        },
        {"times": 2},
        "input z has element type float32; the operator takes float64",
    ),
    ("missing scalar", SCALARS, {}, "scalar b is missing; give it, or declare a default"),
    ("unknown scalar", {}, {"q": 1}, "scalar q is not declared; the operator takes none"),
    ("text", SCALARS, {"b": "three"}, "scalar b: 'three' is text; give a number of type int"),
    ("list", SCALARS, {"b": [1, 2]}, "scalar b: [1, 2] is a list; give one number"),
    ("fraction", SCALARS, {"b": 1.5}, "scalar b: 1.5 is not a whole number"),
    ("int range", SCALARS, {"b": 1 << 31}, "scalar b: 2147483648 lies outside"),
    ("uint range", SCALARS, {"b": 1, "u": -1}, "scalar u: -1 lies outside 0 to"),
    ("half range", SCALARS, {"b": 1, "h": 1e6}, "scalar h: 1000000.0 is too large for type half"),
    (
        "shape raises",
        {"shape": lambda x: 1 // 0},
        {},
        "shape: the function of d::Op raised ZeroDivisionError",
    ),
    (
        "shape is none",
        {"shape": lambda x: "wide"},
        {},
        "shape: 'wide' is neither a shape nor a list",
    ),
    (
        "negative shape",
        {"shape": lambda x: (-1,)},
        {},
        "shape: (-1,) is neither a shape nor a list",
    ),
    (
        "shapes for two",
        {"shape": lambda x: [(1,), (2,)]},
        {},
        "shape: the function returns 2 shapes, the operator has 1 outputs",
    ),
    (
        "undecided output",
        {"outputs": [Tensor("y", "T")], "types": {"T": ("float32", "int8")}},
        {},
        "output y: no input determines its type among float32, int8",
    ),
    ("outputs", {}, {"outputs": 2}, "outputs: the operator returns 1, the node has 2"),
    (
        "not divisible",
        {"opencl": opencl(local_size=lambda *t: [3])},
        {},
        "opencl.global_size: 4 in dimension 0 is not divisible by the local size 3",
    ),
    (
        "dimensions",
        {"opencl": opencl(local_size=lambda *t: [2, 2])},
        {},
        "opencl.local_size: 2 sizes, opencl.global_size has 1",
    ),
    (
        "no sizes",
        {"opencl": opencl(global_size=lambda *t: [0])},
        {},
        "opencl.global_size: sizes must be positive whole numbers, not [0]",
    ),
    (
        "four dimensions",
        {"opencl": opencl(global_size=lambda *t: [1] * 4)},
        {},
        "opencl.global_size: [1, 1, 1, 1] is not a list of one to three sizes",
    ),
    (
        "size raises",
        {"opencl": opencl(global_size=lambda *t: t[7])},
        {},
        "opencl.global_size: the function of d::Op raised IndexError",
    ),
    (
        "kernel is not there",
        {"opencl": opencl(function="g")},
        {},
        "opencl.function: the source of d::Op has no g",
    ),
    (
        "function is not there",
        {"c": C(BODY, "g")},
        {},
        "c.function: the source of d::Op has no g",
    ),
    (
        "function is not a name",
        {"c": C(BODY, lambda *t: "f g")},
        {},
        "c.function: 'f g' is not a function name",
    ),
    (
        "attributes are none",
        {"attributes": lambda attrs, inputs: None},
        {},
        "attributes: the function of d::Op returns None; return a dictionary of scalars",
    ),
    (
        "scratch",
        {"c": C(BODY, "f", scratch=lambda *t: -1)},
        {},
        "c.scratch: -1 is not a number of bytes",
    ),
]


@pytest.mark.parametrize(
    ("changes", "given", "sentence"), [c[1:] for c in NODES], ids=[c[0] for c in NODES]
)
def test_node_that_does_not_fit_its_declaration(changes, given, sentence):
    with pytest.raises(ValueError, match=at_node(re.escape(sentence))):
        use(kernel(**changes), **given)


def test_wrong_shape_function_is_detected_by_the_reference():
    lies = kernel(shape=lambda x: (x.shape[0] + 1,), reference=lambda x: x)
    g = GraphBuilder("net")
    with pytest.raises(
        ValueError, match=at_node(r"shape: the function returns \[5\] for output y, the")
    ):
        g.add(lies, np.zeros(4, np.float32), name="n")


@pytest.mark.parametrize("result", [None, "text", 1j], ids=["none", "text", "complex"])
def test_reference_that_gives_no_numbers(result):
    wrong = kernel(reference=lambda x: np.full(x.shape, result))
    with pytest.raises(
        ValueError, match=at_node("reference: output y is of numpy's type .*number")
    ):
        GraphBuilder("net").add(wrong, np.zeros(4, np.float32), name="n")


def test_reference_may_compute_in_place():
    x = np.ones(4, np.float32)
    made = GraphBuilder("net").add(kernel(reference=lambda x: np.multiply(x, 2, out=x)), x)
    np.testing.assert_array_equal(made.data, [2, 2, 2, 2])
    np.testing.assert_array_equal(x, [1, 1, 1, 1])


def test_reference_that_gives_another_number_of_results():
    g = GraphBuilder("net")
    two = kernel(reference=lambda x: (x, x))
    with pytest.raises(
        ValueError, match=at_node("reference: 2 results, the operator has 1 outputs")
    ):
        g.add(two, np.zeros(4, np.float32), name="n")


def test_layout_that_no_operand_can_have():
    g = GraphBuilder("net")
    x = g.input("x", (1, 6, 2, 2))
    blocked = kernel(
        inputs=[Tensor("x", "float32", "NCHW4c")], outputs=[Tensor("y", "float32", "NCHW4c")]
    )
    g.output("y", g.add(blocked, x, name="n"))
    sentence = (
        r"^node n \(d::Op\): graph net: no declared layout matches: operand x: layout NCHW4c: "
        "6 channels do not fall into 4s$"
    )
    with pytest.raises(ValueError, match=sentence):
        tvmrt.compile(g)


def test_two_operators_of_one_name_in_a_list():
    with pytest.raises(ValueError, match=r"d::Op, version 1, is declared twice: in .*; rename one"):
        GraphBuilder("net", [kernel(), kernel()])


def test_two_operators_of_one_name_in_a_graph():
    g = GraphBuilder("net")
    x = g.input("x", (4,))
    g.add(kernel(), x)
    with pytest.raises(ValueError, match="graph net: two operators are named d::Op; give one"):
        g.add(kernel(), x, name="n")


def test_override_of_an_operator_that_does_not_exist():
    with pytest.raises(ValueError, match=r"ai\.onnx::Op overrides Op, which is not a"):
        GraphBuilder("net", [kernel(domain="", overrides=True)])


def compile_one(operator, **choices):
    x = np.zeros(4, np.float32)
    node = helper.make_node("Op", ["x"], ["y"], "n", domain="d")
    model = onnx_model([node], {"x": x}, {"y": "f4"})
    return tvmrt.compile(model, operators=[operator], **choices)


def test_no_body_for_the_cpu():
    sentence = (
        r"^the network net cannot be compiled: n \(c: d::Op has no C body for the CPU; declare"
    )
    with pytest.raises(UnsupportedError, match=sentence):
        compile_one(kernel(c=None, opencl=opencl()))


def test_no_function_for_the_element_type():
    sentence = r"the network net cannot be compiled: n \(c.function: d::Op declares no function for"
    with pytest.raises(UnsupportedError, match=f"{sentence} float32"):
        compile_one(kernel(c=C(BODY, {"int8": "f"})))


def test_network_of_an_older_version_of_the_domain():
    sentence = (
        r"node n \(d::Op\): d::Op is declared from version 3 of its domain on, but the network uses"
    )
    with pytest.raises(ValueError, match=sentence):
        compile_one(kernel(version=3))


def test_undeclared_operator():
    x = np.zeros(4, np.float32)
    model = onnx_model(
        [helper.make_node("Op", ["x"], ["y"], "n", domain="d")], {"x": x}, {"y": "f4"}
    )
    with pytest.raises(UnsupportedError, match="unknown operator d::Op, version 1; declare it"):
        tvmrt.compile(model)


def test_one_operator_needs_no_list():
    x = np.zeros(4, np.float32)
    node = helper.make_node("Op", ["x"], ["y"], "n", domain="d")
    model = onnx_model([node], {"x": x}, {"y": "f4"})
    assert [s.group.root.op for s in tvmrt.compile(model, operators=kernel()).program.steps] == [
        "custom"
    ]
    with pytest.raises(FileNotFoundError, match=r"ops\.py: the operator file does not exist"):
        tvmrt.compile(model, operators="ops.py")


def test_something_else_than_an_operator():
    with pytest.raises(
        TypeError, match=r"3 is not an operator; create one with tvmrt\.custom\.Kernel"
    ):
        GraphBuilder("net", [3])


def test_c_body_that_the_compiler_refuses_is_named_with_the_users_line(tmp_path):
    broken = kernel(c=C("\n// one\nstatic int32_t f(void) { return oops; }\n", "f"))
    with pytest.raises(tvmrt.error.CompileError, match=r"d::Op:3:\d+: error: .*oops"):
        compile_one(broken).export_library(tmp_path / "net.so")


C_MISTAKES = [
    ("another scalar", BODY, {"scalars": {"b": ("int", 1)}}, r"too many arguments.*d::Op:2:\d+"),
    ("another type", BODY.replace("float *x", "int *x"), {}, r"incompatible.*d::Op:2:\d+"),
    ("nobody's function", BODY.replace("x[i]", "g(i)"), {}, r"d::Op:4:\d+: error: .*implicit"),
]


@pytest.mark.parametrize(
    ("body", "changes", "sentence"), [c[1:] for c in C_MISTAKES], ids=[c[0] for c in C_MISTAKES]
)
def test_c_body_that_does_not_fit_its_declaration(tmp_path, body, changes, sentence):
    with pytest.raises(tvmrt.error.CompileError, match=sentence):
        compile_one(kernel(c=C(body, "f"), **changes)).export_library(tmp_path / "net.so")


def test_c_function_may_come_from_a_file_of_the_users():
    use(kernel(c=C("#include <vendor_kernels.h>\n", "vendor_relu")))
    with pytest.raises(ValueError, match="has no vendor_relu"):
        use(kernel(c=C("#include <math.h>\n", "vendor_relu")))


COMPOSED = [
    ("inputs", lambda g, x, y: x, {}, "inputs: expected 2, the node has 1"),
    ("attribute", lambda g, x: x, {"q": 1}, "attribute q is not declared; the operator takes none"),
    ("result", lambda g, x: 3, {}, "body: result 0 is 3, which is not a tensor of the graph"),
    ("raises", lambda g, x: 1 // 0, {}, "body: the function of d::Op raised ZeroDivisionError"),
    ("inner node", lambda g, x: g.Reshape(x, [3]), {}, "body: the function of d::Op raised"),
]


@pytest.mark.parametrize(
    ("function", "given", "sentence"), [c[1:] for c in COMPOSED], ids=[c[0] for c in COMPOSED]
)
def test_composition_that_does_not_fit(function, given, sentence):
    with pytest.raises(ValueError, match=at_node(re.escape(sentence))):
        use(composed("Op", domain="d")(function), **given)


def test_input_of_a_composition_with_a_number_as_default():
    with pytest.raises(ValueError, match=r"operator d::Op: input b has the default 3\.0; optional"):
        composed("Op", domain="d")(lambda g, x, b=3.0: g.Mul(x, b))


def test_required_attribute_of_a_composition():
    @composed("Op", domain="d")
    def needs(g, x, *, factor):
        return g.Mul(x, factor)

    with pytest.raises(ValueError, match=at_node("attribute factor is missing; give it")):
        use(needs)


def test_composition_without_fixed_inputs():
    with pytest.raises(ValueError, match=r"operator d::Op: parameter \*xs is not supported"):
        composed("Op", domain="d")(lambda g, *xs: xs[0])


def test_operator_that_is_composed_of_itself():
    @composed("Op", domain="d")
    def endless(g, x):
        return g.add(endless, x)

    with pytest.raises(ValueError, match="d::Op uses itself"):
        use(endless)


def test_declining_operator_of_a_foreign_domain_says_why():
    def declines(attrs, inputs):
        raise example("direct_conv").UnsupportedNode("not on a Friday")

    g = GraphBuilder("net")
    with pytest.raises(UnsupportedError, match="declines the node: not on a Friday"):
        g.add(kernel(attributes=declines), g.input("x", (4,)))


def test_builder_refuses_shapes_and_operators_of_compile():
    g = GraphBuilder("net")
    g.output("y", g.Relu(g.input("x", (1,))))
    with pytest.raises(ValueError, match="a GraphBuilder already has shapes and operators"):
        tvmrt.compile(g, operators=[kernel()])


def test_unknown_element_type_of_an_input():
    with pytest.raises(ValueError, match="input x: unknown element type float8"):
        GraphBuilder("net").input("x", (1,), "float8")


def test_value_of_another_graph():
    g, other = GraphBuilder("net"), GraphBuilder("other")
    x, z = g.input("x", (4,)), other.input("z", (4,))
    sentence = "z is a value of another graph; pass it as an input"
    with pytest.raises(ValueError, match=f"^node n: input 1: {sentence}"):
        g.Add(x, z, name="n")
    with pytest.raises(ValueError, match=f"^output y: {sentence}"):
        g.output("y", z)


def test_composition_that_reads_a_value_from_outside():
    g = GraphBuilder("net")
    x = g.input("x", (4,))
    reads = composed("Op", domain="d")(lambda inside, y: inside.Add(x, y))
    with pytest.raises(ValueError, match=at_node("body: .*input 0: x is a value of another graph")):
        g.add(reads, x, name="n")


def test_inputs_and_outputs_of_a_builder_are_distinguished_by_name():
    g = GraphBuilder("net")
    x = g.input("x", (4,))
    with pytest.raises(ValueError, match="input x: the graph already has an input of this name"):
        g.input("x", (4,))
    g.output("y", x)
    with pytest.raises(ValueError, match="output y: the graph already has an output of this name"):
        g.output("y", x)
    with pytest.raises(ValueError, match=r"input z: shape \[2, -1\] has a negative extent"):
        g.input("z", (2, -1))


def test_text_where_a_value_belongs():
    with pytest.raises(ValueError, match="node Relu_1: input 0: 'x' is neither a value, an array"):
        GraphBuilder("net").Relu("x")
