"""Every way to give a constant, and calls of functions, in every kind of body.

Each network computes ``x + k`` once for each feature, in one body; the results are exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tvmrt
from tvmrt.compiler.frontend.onnx.tensors import subgraphs

OPSETS = [helper.make_opsetid("", 21), helper.make_opsetid("own", 1)]
X = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)
LARGE = 20_000  # elements; memory-mapped


def info(name: str, kind: int = TensorProto.FLOAT, shape: Sequence[int] = (2, 2)):
    return helper.make_tensor_value_info(name, kind, shape)


@dataclass
class Contents:
    """Nodes, weights and results of a body."""

    nodes: list[onnx.NodeProto] = field(default_factory=list)
    weights: list[TensorProto] = field(default_factory=list)
    sparse: list[onnx.SparseTensorProto] = field(default_factory=list)
    results: dict[str, np.ndarray] = field(default_factory=dict)  # what they add to x

    def add(self, op: str, inputs: Sequence[str], **attributes) -> str:
        name = f"{op}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], **attributes))
        return name

    def constant(self, **attributes) -> str:
        return self.add("Constant", [], **attributes)

    def result(self, feature: str, addend: str, value, dtype: int = TensorProto.FLOAT) -> None:
        """Compute ``x + addend``; ``dtype``: element type of the addend."""
        if dtype != TensorProto.FLOAT:
            addend = self.add("Cast", [addend], to=TensorProto.FLOAT)
        self.nodes.append(helper.make_node("Add", ["x", addend], [feature]))
        self.results[feature] = np.asarray(value, np.float32)


def sparse(name: str, values, indices, dtype=np.float32) -> onnx.SparseTensorProto:
    return helper.make_sparse_tensor(
        numpy_helper.from_array(np.array(values, dtype), name),
        numpy_helper.from_array(np.array(indices, np.int64), f"{name}_indices"),
        [2, 2],
    )


def add_weights(body: Contents, k: int) -> None:
    """Add weights, which only graphs have. Names that begin with ``ext`` become external."""
    row = np.array([k, 2 * k], np.float32)
    body.weights.append(numpy_helper.from_array(row, "ext_weights"))
    body.result("external", "ext_weights", row)
    body.weights.append(numpy_helper.from_array(np.full(LARGE, k, np.float32), "ext_large"))
    body.result("large_external", body.add("ReduceMax", ["ext_large"], keepdims=0), k)
    kept = np.full(LARGE, -k, np.float32)
    body.weights.append(numpy_helper.from_array(kept, "large"))
    body.result("large_weights", body.add("ReduceMax", ["large"], keepdims=0), -k)
    body.sparse.append(sparse("linear", [k, 5], [0, 2]))
    body.result("sparse_linear", "linear", [[k, 0], [5, 0]])
    body.sparse.append(sparse("pairs", [k, 5], [[0, 1], [1, 0]]))
    body.result("sparse_pairs", "pairs", [[0, k], [5, 0]])
    body.sparse.append(sparse("empty", [], []))
    body.result("sparse_empty", "empty", 0)
    body.sparse.append(sparse("half", [k], [3], np.float16))
    body.result("sparse_half", "half", [[0, 0], [0, k]], TensorProto.FLOAT16)
    body.sparse.append(sparse("bytes", [-k], [3], np.int8))
    body.result("sparse_int8", "bytes", [[0, 0], [0, -k]], TensorProto.INT8)


def add_constants(body: Contents, k: int) -> None:
    """Add all attributes of Constant."""
    row = np.array([k, 3 * k], np.float32)
    body.result("tensor", body.constant(value=numpy_helper.from_array(row, "ext_constant")), row)
    body.result("one_float", body.constant(value_float=k + 0.5), k + 0.5)
    body.result("floats", body.constant(value_floats=[k + 0.5, 2.0]), [k + 0.5, 2])
    body.result("one_int", body.constant(value_int=k), k, TensorProto.INT64)
    body.result("ints", body.constant(value_ints=[k, -1]), [k, -1], TensorProto.INT64)
    body.result("sparse", body.constant(sparse_value=sparse("s", [k], [1])), [[0, k], [0, 0]])
    none = body.constant(sparse_value=sparse("n", [], np.zeros((0, 2))))
    body.result("sparse_nothing", none, 0)
    texts = body.constant(value_strings=["red", "blue"])
    same = body.add("Equal", [texts, body.constant(value_string="blue")])
    body.result("strings", same, [0, 1], TensorProto.BOOL)


def add_calls(body: Contents, k: int) -> None:
    """Add calls of functions that differ in overload only, and of one with a nested attribute."""
    for overload in ("", "first", "second"):
        call = helper.make_node("F", ["x"], [f"call_{overload}"], domain="own", overload=overload)
        body.nodes.append(call)
        body.results[f"call_{overload}"] = np.float32(OVERLOADS[overload])
    body.nodes.append(helper.make_node("Pick", ["x"], ["pick"], domain="own", k=float(k)))
    body.results["pick"] = np.float32(k)
    alias = helper.make_node("Identity", ["x"], ["alias"], domain="ai.onnx")
    body.nodes.append(alias)
    body.results["alias"] = np.float32(0)


OVERLOADS = {"": 7, "first": 20, "second": 300}


def functions() -> Iterator[onnx.FunctionProto]:
    for overload, addend in OVERLOADS.items():
        body = Contents()
        body.result("y", body.constant(value_float=float(addend)), addend)
        yield helper.make_function("own", "F", ["x"], ["y"], body.nodes, OPSETS, overload=overload)
    yes = Contents()
    number = yes.constant(value_float=0.0)
    yes.nodes[0].attribute[0].ref_attr_name = "k"
    yes.nodes[0].attribute[0].ClearField("f")
    yes.result("yes", number, 0)
    no = Contents()
    no.add("Neg", ["x"])
    test = Contents()
    size = test.add("Size", ["x"])
    condition = test.add("Cast", [size], to=TensorProto.BOOL)
    branches = {"then_branch": (yes.nodes, "yes"), "else_branch": (no.nodes, no.nodes[0].output[0])}
    graphs = {
        which: helper.make_graph(nodes, which, [], [info(out)])
        for which, (nodes, out) in branches.items()
    }
    nodes = [*test.nodes, helper.make_node("If", [condition], ["y"], **graphs)]
    yield helper.make_function("own", "Pick", ["x"], ["y"], nodes, OPSETS, ["k"])


def contents(k: int, prefix: str, weights: bool = True) -> Contents:
    """Return all features with names that begin with ``prefix``, as names must be unique."""
    body = Contents()
    for add in (add_weights, add_constants, add_calls) if weights else (add_constants, add_calls):
        add(body, k)
    return renamed(body, prefix)


def renamed(body: Contents, prefix: str) -> Contents:
    def new(name: str) -> str:
        if name == "x":
            return name
        return f"ext{prefix}{name}" if name.startswith("ext") else f"{prefix}{name}"

    for node in body.nodes:
        node.input[:] = map(new, node.input)
        node.output[:] = map(new, node.output)
    for tensor in (*body.weights, *(each.values for each in body.sparse)):
        tensor.name = new(tensor.name)
    body.results = {new(name): value for name, value in body.results.items()}
    return body


def graph_of(body: Contents, name: str, inputs=(), outputs=(), nodes=()) -> onnx.GraphProto:
    return helper.make_graph(
        [*nodes, *body.nodes], name, list(inputs), [*outputs, *map(info, body.results)],
        body.weights, sparse_initializer=body.sparse,
    )  # fmt: skip


@dataclass
class Network:
    """A network, its inputs, and the exact results in the order of its outputs."""

    model: onnx.ModelProto
    inputs: dict[str, np.ndarray]
    results: list[np.ndarray]


def network(
    graph: onnx.GraphProto, results: Sequence[np.ndarray], more: Sequence[onnx.FunctionProto] = (),
    **inputs: np.ndarray,
) -> Network:  # fmt: skip
    model = helper.make_model(
        graph, opset_imports=OPSETS, functions=[*functions(), *more], ir_version=10
    )
    return Network(model, {"x": X, **inputs}, [X + each for each in results])


def in_main_graph() -> Network:
    body = contents(1, "m_")
    return network(graph_of(body, "main", [info("x")]), list(body.results.values()))


def branches(taken: bool, weights: bool = True) -> tuple[onnx.NodeProto, Contents]:
    yes, no = contents(1, "t_", weights), contents(2, "e_", weights)
    outputs = [name.replace("t_", "y_", 1) for name in yes.results]
    node = helper.make_node(
        "If", ["c"], outputs, then_branch=graph_of(yes, "yes"), else_branch=graph_of(no, "no")
    )
    return node, yes if taken else no


def in_branch(taken: bool) -> Network:
    node, body = branches(taken)
    graph = helper.make_graph(
        [node], "main", [info("x"), info("c", TensorProto.BOOL, [])], list(map(info, node.output))
    )
    return network(graph, list(body.results.values()), c=np.array(taken))


def in_loop() -> Network:
    """Two iterations of a trip count that is known at run time only."""
    body = contents(1, "b_")
    counter = [info("i", TensorProto.INT64, []), info("go", TensorProto.BOOL, [])]
    node = helper.make_node(
        "Loop", ["n", ""], [f"y{i}" for i in range(len(body.results))],
        body=graph_of(
            body, "body", counter, [info("going", TensorProto.BOOL, [])],
            [helper.make_node("Identity", ["go"], ["going"])],
        ),
    )  # fmt: skip
    outputs = [info(name, shape=[2, 2, 2]) for name in node.output]
    graph = helper.make_graph(
        [node], "main", [info("x"), info("n", TensorProto.INT64, [])], outputs
    )
    twice = [np.stack([np.broadcast_to(v, (2, 2))] * 2) for v in body.results.values()]
    return network(graph, twice, n=np.array(2))


def in_scan() -> Network:
    body = contents(1, "b_")
    node = helper.make_node(
        "Scan", ["rows"], [f"y{i}" for i in range(len(body.results))], num_scan_inputs=1,
        body=graph_of(body, "body", [info("row", shape=[3])]),
    )  # fmt: skip
    outputs = [info(name, shape=[2, 2, 2]) for name in node.output]
    graph = helper.make_graph([node], "main", [info("x"), info("rows", shape=[2, 3])], outputs)
    twice = [np.stack([np.broadcast_to(v, (2, 2))] * 2) for v in body.results.values()]
    return network(graph, twice, rows=np.zeros((2, 3), np.float32))


def function_with(nodes, outputs: Sequence[str], inputs=("x",)) -> onnx.FunctionProto:
    return helper.make_function("own", "Body", list(inputs), list(outputs), nodes, OPSETS)


def in_function() -> Network:
    body = contents(1, "f_", weights=False)
    made = function_with(body.nodes, list(body.results))
    call = helper.make_node(
        "Body", ["x"], [f"y{i}" for i in range(len(body.results))], domain="own"
    )
    graph = helper.make_graph([call], "main", [info("x")], list(map(info, call.output)))
    return network(graph, list(body.results.values()), [made])


def in_branch_of_function() -> Network:
    node, body = branches(False)
    made = function_with([node], list(node.output), ["x", "c"])
    call = helper.make_node("Body", ["x", "c"], [f"r{o}" for o in node.output], domain="own")
    inputs = [info("x"), info("c", TensorProto.BOOL, [])]
    graph = helper.make_graph([call], "main", inputs, list(map(info, call.output)))
    return network(graph, list(body.results.values()), [made], c=np.array(False))


def in_function_called_in_loop() -> Network:
    body = contents(1, "f_", weights=False)
    made = function_with(body.nodes, list(body.results))
    call = helper.make_node(
        "Body", ["x"], [f"r{i}" for i in range(len(body.results))], domain="own"
    )
    going = helper.make_node("Identity", ["go"], ["going"])
    counter = [info("i", TensorProto.INT64, []), info("go", TensorProto.BOOL, [])]
    loop = helper.make_node(
        "Loop", ["n", ""], [f"y{i}" for i in range(len(body.results))],
        body=helper.make_graph(
            [going, call], "body", counter,
            [info("going", TensorProto.BOOL, []), *map(info, call.output)],
        ),
    )  # fmt: skip
    outputs = [info(name, shape=[1, 2, 2]) for name in loop.output]
    inputs = [info("x"), info("n", TensorProto.INT64, [])]
    graph = helper.make_graph([loop], "main", inputs, outputs)
    once = [np.broadcast_to(v, (1, 2, 2)) for v in body.results.values()]
    return network(graph, once, [made], n=np.array(1))


BODIES: dict[str, Callable[[], Network]] = {
    "main graph": in_main_graph,
    "then branch": lambda: in_branch(True),
    "else branch": lambda: in_branch(False),
    "loop": in_loop,
    "scan": in_scan,
    "function": in_function,
    "branch of a function": in_branch_of_function,
    "function called in a loop": in_function_called_in_loop,
}


def move_to_file(model: onnx.ModelProto, folder) -> None:
    """Move the tensors whose names begin with ``ext`` to a file; save the model next to it."""
    data = b""
    for tensor in named_tensors(model):
        location = {"location": "net.data", "offset": len(data), "length": len(tensor.raw_data)}
        data += tensor.raw_data
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in location.items():
            tensor.external_data.add(key=key, value=str(value))
    (folder / "net.data").write_bytes(data)
    (folder / "net.onnx").write_bytes(model.SerializeToString())


def named_tensors(model: onnx.ModelProto) -> Iterator[TensorProto]:
    pending = [model.graph, *model.functions]
    while pending:
        holder = pending.pop()
        yield from (t for t in getattr(holder, "initializer", ()) if t.name.startswith("ext"))
        for node in holder.node:
            pending += subgraphs(node)
            tensors = (a.t for a in node.attribute if a.HasField("t"))
            yield from (tensor for tensor in tensors if tensor.name.startswith("ext"))


def check(found: Sequence, expected: Network) -> None:
    names = [each.name for each in expected.model.graph.output]
    assert len(found) == len(names)
    for name, value, wanted in zip(names, found, expected.results):
        np.testing.assert_array_equal(np.asarray(value), wanted, err_msg=name)


@pytest.mark.parametrize("body", BODIES)
def test_body_computes_every_feature(tmp_path, monkeypatch, body):
    given = BODIES[body]()
    move_to_file(given.model, tmp_path)
    monkeypatch.chdir("/")
    check(tvmrt.load(tmp_path / "net.onnx", cache=False)(*given.inputs.values()), given)


@pytest.mark.parametrize("body", ["else branch", "scan"])
def test_body_reads_data_that_onnx_saved(tmp_path, body):
    given = BODIES[body]()
    onnx.save(
        given.model, tmp_path / "net.onnx", save_as_external_data=True, location="weights",
        size_threshold=0, convert_attribute=True,
    )  # fmt: skip
    assert (tmp_path / "weights").stat().st_size > 4 * LARGE
    check(tvmrt.load(tmp_path / "net.onnx", cache=False)(*given.inputs.values()), given)


def test_bodies_in_memory_equal_the_file():
    given = in_branch(True)
    check(tvmrt.load(given.model, cache=False)(*given.inputs.values()), given)


def chain(depth: int, first: str = "F0") -> list[onnx.FunctionProto]:
    """Return functions that call each other; each adds 1, the last one its attribute ``k``."""
    made = []
    for level in range(depth):
        call = helper.make_node(f"F{level + 1}", ["x"], ["t"], domain="own")
        call.attribute.add(name="k", ref_attr_name="k", type=onnx.AttributeProto.FLOAT)
        one = helper.make_node("Constant", [], ["t"], value_float=1.0)
        if level == depth - 1:
            one.attribute[0].ref_attr_name = "k"
            one.attribute[0].ClearField("f")
        value = helper.make_node("Constant", [], ["one"], value_float=1.0)
        last = [one, helper.make_node("Add", ["x", "t"], ["y"])]
        nodes = (
            last
            if level == depth - 1
            else [call, value, helper.make_node("Add", ["t", "one"], ["y"])]
        )
        name = first if level == 0 else f"F{level}"
        made.append(helper.make_function("own", name, ["x"], ["y"], nodes, OPSETS, ["k"]))
    return made


@pytest.mark.parametrize("depth", [33, 99])
@pytest.mark.parametrize("in_body", [False, True])
def test_functions_may_be_nested_deeply(depth, in_body):
    model, inputs = model_of_nested_calls(depth, in_body)
    expected = X + (depth - 1 + 7) if in_body else np.full_like(X, -2)
    np.testing.assert_array_equal(tvmrt.load(model, cache=False)(*inputs), expected)


def model_of_nested_calls(depth: int, in_body: bool) -> tuple[onnx.ModelProto, list[np.ndarray]]:
    """Return a network that calls functions of so many levels, and inputs for it."""
    calls = [
        helper.make_node("F0", ["x"], [out], domain="own", k=k)
        for out, k in (("a", 5.0), ("b", 7.0))
    ]
    total = helper.make_node("Sub", ["a", "b"], ["y"])
    nodes, inputs = [calls[0], calls[1], total], [X]
    infos = [info("x")]
    if in_body:
        branches = {
            which: helper.make_graph([helper.make_node("F0", ["x"], [which], domain="own", k=k)],
                                     which, [], [info(which)])
            for which, k in (("then_branch", 5.0), ("else_branch", 7.0))
        }  # fmt: skip
        nodes = [helper.make_node("If", ["c"], ["y"], **branches)]
        infos, inputs = [info("x"), info("c", TensorProto.BOOL, [])], [X, np.array(False)]
    graph = helper.make_graph(nodes, "main", infos, [info("y")])
    model = helper.make_model(graph, opset_imports=OPSETS, functions=chain(depth), ir_version=9)
    return model, inputs


def test_bodies_nested_too_deeply_are_refused_with_a_sentence():
    made = []
    for level in range(400):
        call = helper.make_node(f"F{level + 1}" if level < 399 else "Neg", ["x"], ["r"])
        call.domain = "own" if level < 399 else ""
        other = helper.make_node("Abs", ["x"], ["s"])
        branches = {
            "then_branch": helper.make_graph([call], "yes", [], [info("r")]),
            "else_branch": helper.make_graph([other], "no", [], [info("s")]),
        }
        nodes = [
            helper.make_node("ReduceSum", ["x"], ["sum"], keepdims=0),
            helper.make_node("Cast", ["sum"], ["c"], to=TensorProto.BOOL),
            helper.make_node("If", ["c"], ["y"], **branches),
        ]
        made.append(helper.make_function("own", f"F{level}", ["x"], ["y"], nodes, OPSETS))
    call = helper.make_node("F0", ["x"], ["y"], domain="own")
    graph = helper.make_graph([call], "main", [info("x")], [info("y")])
    model = helper.make_model(graph, opset_imports=OPSETS, functions=made, ir_version=9)
    with pytest.raises(tvmrt.error.UnsupportedError, match="are nested too deeply"):
        tvmrt.compile(model)


def test_functions_with_one_key_are_refused():
    made = [function_with([helper.make_node(op, ["x"], ["y"])], ["y"]) for op in ("Neg", "Abs")]
    graph = helper.make_graph(
        [helper.make_node("Body", ["x"], ["y"], domain="own")], "main", [info("x")], [info("y")]
    )
    model = helper.make_model(graph, opset_imports=OPSETS, functions=made, ir_version=9)
    with pytest.raises(ValueError, match="two functions are named Body in domain own"):
        tvmrt.compile(model)


@pytest.mark.parametrize("domain", ["", "com.microsoft"])
def test_overload_of_a_known_operator_is_the_function(domain):
    """NodeProto: an overload is used only to map a node to a function of the model."""
    made = helper.make_function(
        domain, "Gelu", ["x"], ["y"], [helper.make_node("Neg", ["x"], ["y"])], OPSETS, overload="o"
    )
    node = helper.make_node("Gelu", ["x"], ["y"], domain=domain, overload="o")
    graph = helper.make_graph([node], "main", [info("x")], [info("y")])
    opsets = [*OPSETS, helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, functions=[made], ir_version=10)
    np.testing.assert_array_equal(tvmrt.load(model, cache=False)(X), -X)


def test_function_named_as_an_operator_is_not_that_operator():
    """``own::Constant`` and ``own::DequantizeLinear`` of constants: keys have a domain."""
    nodes = [
        helper.make_node("Constant", ["x"], ["a"], domain="own"),
        helper.make_node("Constant", [], ["two"], value_float=2.0),
        helper.make_node("DequantizeLinear", ["two"], ["b"], domain="own"),
        helper.make_node("Add", ["a", "b"], ["y"]),
    ]
    negate = [helper.make_node("Neg", ["x"], ["y"])]
    made = [
        helper.make_function("own", name, ["x"], ["y"], negate, OPSETS)
        for name in ("Constant", "DequantizeLinear")
    ]
    open_x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 2])
    open_y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 2])
    graph = helper.make_graph(nodes, "main", [open_x], [open_y])
    model = helper.make_model(graph, opset_imports=OPSETS, functions=made, ir_version=10)
    np.testing.assert_array_equal(tvmrt.load(model, cache=False)(X), -X - 2)


@pytest.mark.parametrize("other", ["N ", "\N{FULLWIDTH LATIN CAPITAL LETTER N}", "(N)"])
def test_dimensions_with_other_text_are_other_dimensions(other):
    graph = helper.make_graph(
        [helper.make_node("Neg", ["x"], ["y"]), helper.make_node("Neg", ["u"], ["v"])], "main",
        [info("x", shape=["N"]), info("u", shape=[other])],
        [info("y", shape=["N"]), info("v", shape=[other])],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=OPSETS, ir_version=10)
    net = tvmrt.load(model, cache=False, dims={"N": (1, 8), other: (1, 8)})
    y, v = net(np.ones(3, np.float32), np.ones(5, np.float32))
    assert (y.shape, v.shape) == ((3,), (5,))
    with pytest.raises(tvmrt.error.UnboundedDimensionsError, match="declare bounds of"):
        tvmrt.compile(model, dims={"N": (1, 8)}, target="cortex-m4")
