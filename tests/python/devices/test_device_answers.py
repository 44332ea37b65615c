"""Methods of a Python device that return nothing: the error names the device and the method."""

from __future__ import annotations

import ast
import re
from math import prod
from pathlib import Path

import numpy as np
import onnx_graph
import pytest
from onnx import helper

import tvmrt
from tvmrt import devices
from tvmrt.compiler.devices.device_calls import RESULT_TYPES
from tvmrt.compiler.ir import DTYPES, Node, TensorType, Value
from tvmrt.compiler.ir.sizes import upper_bound
from tvmrt.compiler.option_values import parse_dims
from tvmrt.error import UnsupportedError
from tvmrt.option_syntax import command_line, option

X = np.ones((2, 3), np.float32)
PACKAGE = Path(tvmrt.__file__).parent


def network(op="Add", domain=""):
    nodes = [helper.make_node(op, ["x", "x"], ["y"], name="sum", domain=domain)]
    return onnx_graph.model(nodes, {"x": X}, ["y"])


class Sums(devices.PythonDevice):
    name = "sums"
    precisions = ("float16",)

    def supports(self, node):
        return None if node.op == "add" else "add alone"

    def compute(self, node, inputs):
        return inputs[0] + inputs[1]


def nothing(self, *arguments):
    """Method without a ``return``."""


# None is a valid result of the other methods, so a missing return cannot be detected there.
FORGETFUL = ["annotate", "optimize", "codegen"]


@pytest.mark.parametrize("options", [{}, {"device_fallback": True}], ids=["alone", "fallback"])
@pytest.mark.parametrize("method", FORGETFUL)
def test_forgotten_return_names_device_and_method(method, options):
    device = type("Forgetful", (Sums,), {method: nothing, "name": "forgetful"})()
    with pytest.raises(
        UnsupportedError, match=f"device forgetful: {method} returned NoneType.*return"
    ):
        tvmrt.compile(network(), devices=[device], **options)


@pytest.mark.parametrize(
    ("method", "answer"),
    [("supports", True), ("evaluate", False), ("refuses", 1), ("cost", "cheap"), ("annotate", [])],
)
def test_wrong_answer_names_device_and_method(method, answer):
    baseline = type("Baseline", (Sums,), {"name": "baseline", "cost": lambda *_: 1.0})()
    device = type("Wrong", (Sums,), {method: lambda *_: answer, "name": "wrong"})()
    with pytest.raises(UnsupportedError, match=f"device wrong: {method} returned"):
        tvmrt.compile(network(), devices=[device, baseline])


def test_missing_boundary_cost_is_an_error():
    """The cost is needed if two devices have costs."""
    costs = {"cost": lambda *_: 1.0, "border_cost": nothing}
    both = [type(n, (Sums,), {"name": n, **costs})() for n in ("dear", "cheap")]
    with pytest.raises(UnsupportedError, match="device dear: border_cost returned NoneType"):
        tvmrt.compile(network(), devices=both)


@pytest.mark.parametrize("answer", [None, [], [X, X]], ids=["nothing", "none", "two"])
def test_compute_without_a_result(tmp_path, answer):
    device = devices.register(type("Mute", (Sums,), {"name": "mute", "compute": lambda *_: answer}))
    try:
        library = tvmrt.compile(network(), devices=["mute"])
        library.export(tmp_path / "net.so")
        module = tvmrt.runtime.load_module(str(tmp_path / "net.so"))
        executor = tvmrt.contrib.graph_executor.GraphModule(module["default"](tvmrt.cpu(0)))
        with pytest.raises(Exception, match="device mute: compute of sum"):
            executor.run(x=X)
    finally:
        devices.unregister(device.name)


def test_foreign_node_without_types():
    device = type("Forgetful", (Sums,), {"adopt": nothing, "name": "forgetful"})()
    with pytest.raises(UnsupportedError, match="device forgetful: adopt returned NoneType"):
        tvmrt.compile(network("Unheard", "example"), devices=[device])


def test_optimize_error_is_reported():
    def fails(self, region):
        raise ValueError("the calibration tables are missing")

    device = type("Tables", (Sums,), {"name": "tables", "optimize": fails})()
    with pytest.raises(UnsupportedError, match="fp16: device tables: the calibration tables are"):
        tvmrt.compile(network(), devices=[device], mixed_precision="fp16")


def of_rows(limit, **members):
    """Return a device with a maximum number of elements, and a network of n rows of k elements."""

    def evaluate(self, region):
        size = upper_bound(region.inputs[0].type.size)
        return f"it holds {limit} elements" if size > limit else None

    members = {"evaluate": evaluate, "prepares_sizes": lambda self: True, **members}
    model = network()
    for axis, name in enumerate("nk"):
        model.graph.input[0].type.tensor_type.shape.dim[axis].dim_param = name
    return type("Small", (Sums,), {"name": "small", **members})(), model


@pytest.mark.parametrize("dims", [{"n": (1, 40), "k": (3, 3)}, {"n": (2, 40), "k": (1, 30)}])
def test_refusal_of_the_largest_size_suggests_smaller_ones(dims):
    device, model = of_rows(70)
    library = tvmrt.compile(model, devices=[device], dims=dims)
    (row,) = [row for row in library.summary.nodes if row.name == "sum"]
    assert row.device == "cpu" and "it holds 70 elements (at the upper bounds" in row.reason
    named = ast.literal_eval(re.search(r"dims=(\{.*?\})", row.reason)[1])
    with command_line():
        assert parse_dims(option("dims", named).split()[1::2]) == named
    library = tvmrt.compile(model, devices=[device], dims={**dims, **named})
    (row,) = [row for row in library.summary.nodes if row.name == "sum"]
    assert row.device == "small"
    sizes = {**dims, **named}
    found = [sizes[name][1] for name in "nk"]
    for i in (0, 1):  # no larger size is possible
        larger = [number + (i == j) for j, number in enumerate(found)]
        assert prod(larger) > 70 or larger[i] > np.max(dims["nk"[i]])


@pytest.mark.parametrize("limit", [0, 2])
def test_refusal_of_every_size_suggests_no_size(limit):
    device, model = of_rows(limit)
    library = tvmrt.compile(model, devices=[device], dims={"n": (1, 40), "k": (3, 3)})
    (row,) = [row for row in library.summary.nodes if row.name == "sum"]
    assert row.reason == f"small: it holds {limit} elements"


def test_refusal_by_a_dynamic_device_names_the_bounds():
    """Its runs are not compared with bounds, so no CPU code is involved."""
    device, model = of_rows(70, any_size=True, prepares_sizes=lambda self: False)
    for fallback in (False, True):
        library = tvmrt.compile(
            model, devices=[device], dims={"n": (1, 40), "k": (3, 3)}, device_fallback=fallback
        )
        (row,) = [row for row in library.summary.nodes if row.name == "sum"]
        assert 'dims={"n": (1, 23)}' in row.reason and "fallback" not in row.reason


def test_compiler_calls_device_methods_in_one_module():
    """Calls outside of the package of devices would not be checked."""
    call = re.compile(rf"\b(?:device|d)\.({'|'.join(RESULT_TYPES)})\(")
    found = [
        f"{file.relative_to(PACKAGE)}: {match[0]}"
        for file in PACKAGE.rglob("*.py")
        if "devices" not in file.relative_to(PACKAGE).parts
        for match in call.finditer(file.read_text())
    ]
    assert not found


@pytest.mark.parametrize(
    ("count", "result", "problem"),
    [
        (1, ["a", "b"], "a list of 2 for neg 'n', which has 1 result; return one value"),
        (1, ["a"], "a list of 1 for neg 'n', which has 1 result; return one value"),
        (2, ["a"], "a list of 1 for neg 'n', which has 2 results; return a list of 2"),
        (2, "a", "no list for neg 'n', which has 2 results; return a list of 2"),
        (1, ("a", "b"), None),
        (2, ["a", "b"], None),
    ],
)
def test_visitor_returns_one_value_per_result(count, result, problem):
    node = Node("neg", [], {}, "n")
    node.outputs = [Value(f"y{i}", TensorType((1,), DTYPES["float32"]), node) for i in range(count)]
    visitor = type("Visitor", (devices.ExprVisitor,), {"visit_call": lambda *_: result})()
    if problem is None:
        wanted = result if count > 1 else [result]
        assert [visitor.visit(value) for value in node.outputs] == wanted
        return
    with pytest.raises(TypeError, match=f"Visitor.visit_call returned {problem}"):
        visitor.visit(node.outputs[0])


@pytest.mark.parametrize("method", ["visit_var", "visit_constant"])
def test_visitor_returns_no_list_for_an_input_or_a_constant(method):
    value = Value("x", TensorType((1,), DTYPES["float32"]))
    if method == "visit_constant":
        value.data = np.zeros(1, np.float32)
    visitor = type("Visitor", (devices.ExprVisitor,), {method: lambda *_: ["a"]})()
    with pytest.raises(TypeError, match=f"Visitor.{method} returned a list of 1 for 'x'; return"):
        visitor.visit(value)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (None, "prepare returned NoneType, expected bytes; a 'return' is missing"),
        ("text", "prepare returned str, expected bytes"),
        (ValueError("b has no compiler"), "device ahead, .*: b has no compiler"),
    ],
)
def test_answers_of_prepare_are_checked(answer, reason):
    def prepare(self, region, chip):
        if isinstance(answer, Exception):
            raise answer
        return answer

    members = {"name": "ahead", "chips": ("a", "b"), "prepare": prepare}
    device = type("Ahead", (Sums,), members)()
    options = {"device_options": {"ahead": {"chips": " b "}}}
    with pytest.raises(tvmrt.TVMError, match=reason):
        tvmrt.compile(network(), devices=[device], **options)
