"""Small networks whose functions, branches and loops expand, and whose constants grow."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import onnx
from long_graphs import BOOL, FLOAT, INT64, Kind, Shape, info, ints, ints_scalar, model, node
from onnx import TensorProto, helper

# Functions, branches and loops.


def doubling_functions(n: int) -> onnx.ModelProto:
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    functions = [
        helper.make_function(
            "own",
            f"f{i}",
            ["a"],
            ["b"],
            [
                node(f"f{i + 1}", ["a"], ["c"], domain="own"),
                node(f"f{i + 1}", ["c"], ["b"], domain="own"),
            ],
            opsets,
        )
        for i in range(n)
    ]
    functions.append(
        helper.make_function("own", f"f{n}", ["a"], ["b"], [node("Neg", ["a"], ["b"])], opsets)
    )
    return model(
        [node("f0", ["x"], ["y"], domain="own")], {"x": [2]}, {"y": [2]}, functions=functions
    )


def functions_that_double_in_branches(n: int) -> onnx.ModelProto:
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]

    def branch(i: int) -> onnx.GraphProto:
        call = node(f"f{i + 1}", ["a"], ["c"], domain="own")
        return helper.make_graph([call], f"b{i}", [], [info("c", FLOAT, [2])])

    functions = [
        helper.make_function(
            "own",
            f"f{i}",
            ["a", "p"],
            ["b"],
            [node("If", ["p"], ["b"], then_branch=branch(i), else_branch=branch(i))],
            opsets,
        )
        for i in range(n)
    ]
    for f in functions:
        for a in f.node[0].attribute:
            a.g.node[0].input.append("p")
    functions.append(
        helper.make_function("own", f"f{n}", ["a", "p"], ["b"], [node("Neg", ["a"], ["b"])], opsets)
    )
    made = model(
        [node("f0", ["x", "p"], ["y"], domain="own")], {"x": [2]}, {"y": [2]}, functions=functions
    )
    made.graph.input.append(info("p", BOOL, []))
    return made


def _loop(body: onnx.GraphProto, result: str, source: str) -> onnx.NodeProto:
    return node("Loop", ["trips", "", source], [result], body=body)


def loop_of(n: int) -> onnx.ModelProto:
    """A loop of n iterations that is unrolled, because a slice depends on the iteration."""
    body = helper.make_graph(
        [node("Identity", ["go"], ["go2"]), node("Sin", ["h"], ["h2"])],
        "b",
        [info("i", INT64, []), info("go", BOOL, []), info("h", FLOAT, [2])],
        [info("go2", BOOL, []), info("h2", FLOAT, [2])],
    )
    return model([_loop(body, "y", "x")], {"x": [2]}, {"y": [2]}, [ints_scalar("trips", n)])


def unrolled_loop(n: int) -> onnx.ModelProto:
    """Each iteration appends to its state, whose size so differs."""
    body = helper.make_graph(
        [node("Identity", ["go"], ["go2"]), node("Concat", ["h", "x"], ["h2"], axis=0)],
        "b",
        [info("i", INT64, []), info("go", BOOL, []), info("h", FLOAT, [None])],
        [info("go2", BOOL, []), info("h2", FLOAT, [None])],
    )
    return model([_loop(body, "y", "x")], {"x": [2]}, {"y": [None]}, [ints_scalar("trips", n)])


def nested_loops(n: int) -> onnx.ModelProto:
    """n loops inside one another, each of two iterations."""
    graph = None
    for level in range(n):
        nodes = [node("Identity", [f"go{level}"], [f"n{level}"])]
        if graph is None:
            nodes.append(node("Sin", [f"h{level}"], [f"r{level}"]))
        else:
            nodes.append(_loop(graph, f"r{level}", f"h{level}"))
        graph = helper.make_graph(
            nodes,
            f"b{level}",
            [
                info(f"i{level}", INT64, []),
                info(f"go{level}", BOOL, []),
                info(f"h{level}", FLOAT, [2]),
            ],
            [info(f"n{level}", BOOL, []), info(f"r{level}", FLOAT, [2])],
        )
    return model([_loop(graph, "y", "x")], {"x": [2]}, {"y": [2]}, [ints_scalar("trips", 2)])


def scan_of(n: int) -> onnx.ModelProto:
    body = helper.make_graph(
        [node("Add", ["s", "e"], ["s2"]), node("Sin", ["s2"], ["o"])],
        "b",
        [info("s", FLOAT, []), info("e", FLOAT, [])],
        [info("s2", FLOAT, []), info("o", FLOAT, [])],
    )
    return model(
        [node("Scan", ["z", "x"], ["last", "y"], body=body, num_scan_inputs=1)],
        {"z": [], "x": [n]},
        {"y": [n]},
    )


def sequence_map(n: int) -> onnx.ModelProto:
    body = helper.make_graph(
        [node("Sin", ["e"], ["o"])], "b", [info("e", FLOAT, None)], [info("o", FLOAT, None)]
    )
    nodes = [
        node("SplitToSequence", ["x"], ["s"], axis=0),
        node("SequenceMap", ["s"], ["t"], body=body),
        node("ConcatFromSequence", ["t"], ["y"], axis=0),
    ]
    return model(nodes, {"x": [n]}, {"y": [None]}, opset=17)


def nested_ifs(n: int) -> onnx.ModelProto:
    """n conditionals inside one another."""
    graph = helper.make_graph([node("Neg", ["x"], ["r"])], "b", [], [info("r", FLOAT, [2])])
    for level in range(n):
        other = helper.make_graph(
            [node("Sin", ["x"], [f"e{level}"])], f"e{level}", [], [info(f"e{level}", FLOAT, [2])]
        )
        nodes = [node("If", ["p"], [f"r{level}"], then_branch=graph, else_branch=other)]
        graph = helper.make_graph(nodes, f"b{level}", [], [info(f"r{level}", FLOAT, [2])])
    made = model(graph.node, {"x": [2]}, {f"r{n - 1}": [2]})
    made.graph.input.append(info("p", BOOL, []))
    return made


def doubling_ifs(n: int) -> onnx.ModelProto:
    """Conditionals with two conditionals each: 2 ** n leaves."""
    graph = helper.make_graph([node("Sin", ["x"], ["r"])], "b", [], [info("r", FLOAT, [2])])
    for level in range(n):
        nodes = [node("If", ["p"], [f"r{level}"], then_branch=graph, else_branch=graph)]
        graph = helper.make_graph(nodes, f"b{level}", [], [info(f"r{level}", FLOAT, [2])])
    made = model(graph.node, {"x": [2]}, {f"r{n - 1}": [2]})
    made.graph.input.append(info("p", BOOL, []))
    return made


def chain_of_ifs(n: int) -> onnx.ModelProto:
    nodes = []
    for i in range(n):
        branches = {
            key: helper.make_graph([node(op, [f"v{i}"], ["r"])], "b", [], [info("r", FLOAT, [2])])
            for key, op in (("then_branch", "Sin"), ("else_branch", "Cos"))
        }
        nodes.append(node("If", ["p"], [f"v{i + 1}"], **branches))
    made = model(nodes, {"v0": [2]}, {f"v{n}": [2]})
    made.graph.input.append(info("p", BOOL, []))
    return made


# Constants.


def expanded_constants(op: str) -> Kind:
    """Return a network of a constant of n elements from one element, added to the input."""

    def build(n: int) -> onnx.ModelProto:
        nodes = [
            node(op, ["c", "n"], ["e"]),
            node("Sin", ["e"], ["f"]),
            node("Add", ["x", "f"], ["y"]),
        ]
        constant = helper.make_tensor("c", FLOAT, [1], [0.5])
        return model(nodes, {"x": [1]}, {"y": [n]}, [constant, ints("n", n)])

    return build


def constants_of_shape(n: int) -> onnx.ModelProto:
    """n constants of a million elements."""
    nodes = [
        node(
            "ConstantOfShape", ["n"], [f"c{i}"], value=helper.make_tensor("v", FLOAT, [1], [i / 3])
        )
        for i in range(n)
    ]
    nodes += [node("Sin", [f"c{i}"], [f"s{i}"]) for i in range(n)]
    nodes.append(node("Sum", ["x", *(f"s{i}" for i in range(n))], ["y"]))
    return model(nodes, {"x": [1]}, {"y": [1 << 20]}, [ints("n", 1 << 20)])


def doubled_constants(n: int) -> onnx.ModelProto:
    nodes = [node("Concat", [f"{i}", f"{i}"], [f"{i + 1}"], axis=0) for i in range(n)]
    nodes.append(node("Add", ["x", f"{n}"], ["y"]))
    return model(nodes, {"x": [1]}, {"y": [2**n]}, [helper.make_tensor("0", FLOAT, [1], [0.5])])


def folded_chain(n: int) -> onnx.ModelProto:
    """Arithmetic with constants of a million elements."""
    nodes = [
        node("ConstantOfShape", ["n"], ["0"], value=helper.make_tensor("v", FLOAT, [1], [0.5]))
    ]
    nodes += [node("Sin", [f"{i}"], [f"{i + 1}"]) for i in range(n)]
    nodes += [node("ReduceSum", [f"{n}"], ["r"], keepdims=0), node("Add", ["x", "r"], ["y"])]
    return model(nodes, {"x": [1]}, {"y": [1]}, [ints("n", 1 << 20)])


def folded_products(n: int) -> onnx.ModelProto:
    """Matrix products of constants: n * n elements of n products each."""
    nodes = [
        node("ConstantOfShape", ["n"], ["c"], value=helper.make_tensor("v", FLOAT, [1], [0.5])),
        node("Sin", ["c"], ["d"]),
        node("MatMul", ["d", "d"], ["e"]),
        node("ReduceMax", ["e"], ["m"], keepdims=0),
        node("Add", ["x", "m"], ["y"]),
    ]
    return model(nodes, {"x": [1]}, {"y": [1]}, [ints("n", n, n)])


def folded_convolution(n: int) -> onnx.ModelProto:
    value = helper.make_tensor("v", FLOAT, [1], [0.5])
    nodes = [
        node("ConstantOfShape", ["n"], ["c"], value=value),
        node("Sin", ["c"], ["d"]),
        node("Cos", ["c"], ["w"]),
        node("Conv", ["d", "w"], ["e"], pads=[n // 2] * 4),
        node("ReduceMax", ["e"], ["m"], keepdims=0),
        node("Add", ["x", "m"], ["y"]),
    ]
    return model(nodes, {"x": [1]}, {"y": [1]}, [ints("n", 1, 1, n, n)])


def folded(
    op: str,
    shape: Callable[[int], Sequence[int]],
    more: Sequence[str] = (),
    outputs: int = 1,
    **attributes: object,
) -> Kind:
    """Return a network of an operator on a constant of a shape that depends on n."""

    def build(n: int) -> onnx.ModelProto:
        results = [f"e{i}" for i in range(outputs)]
        nodes = [
            node("ConstantOfShape", ["n"], ["c"], value=helper.make_tensor("v", FLOAT, [1], [0.5])),
            node("Sin", ["c"], ["d"]),
            node(op, ["d", *more], results, **attributes),
            node("ReduceMax", ["e0"], ["m"], keepdims=0),
            node("Cast", ["m"], ["f"], to=1),
            node("Add", ["x", "f"], ["y"]),
        ]
        return model(
            nodes,
            {"x": [1]},
            {"y": [1]},
            [
                ints("n", *shape(n)),
                ints("one", 1),
                ints("many", n),
                ints_scalar("zero", 0),
                ints_scalar("step", 8),
            ],
        )

    return build


def large_resize(n: int) -> onnx.ModelProto:
    return model(
        [node("Resize", ["x", "", "", "s"], ["y"], mode="cubic")],
        {"x": [1, 1, 2, 2]},
        {"y": [1, 1, n, n]},
        [ints("s", 1, 1, n, n)],
    )


def many_resizes(n: int) -> onnx.ModelProto:
    nodes = [
        node("Resize", [f"{i}", "", "", "ab"[i % 2]], [f"{i + 1}"], mode="cubic") for i in range(n)
    ]
    return model(
        nodes,
        {"0": [1, 1, 2, 2]},
        {f"{n}": [1, 1, None, None]},
        [ints("a", 1, 1, 1000, 1000), ints("b", 1, 1, 2, 2)],
    )


def grouped_convolution(n: int) -> onnx.ModelProto:
    return model(
        [node("Conv", ["x", "w"], ["y"], group=n)],
        {"x": [1, n, 4, 4], "w": [n, 1, 3, 3]},
        {"y": [1, n, 2, 2]},
    )


def random_weights(op: str) -> Kind:
    def build(n: int) -> onnx.ModelProto:
        return model(
            [node(op, [], ["r"], shape=[n], seed=1.0), node("Add", ["x", "r"], ["y"])],
            {"x": [1]},
            {"y": [n]},
        )

    return build


def top_k(n: int) -> onnx.ModelProto:
    made = model([node("TopK", ["x", "k"], ["y", "i"])], {"x": [n]}, {"y": [n]}, [ints("k", n)])
    return made


def recurrent(op: str) -> Kind:
    """Return a recurrent cell of n steps."""

    def build(n: int) -> onnx.ModelProto:
        gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[op]
        weights = [
            helper.make_tensor("w", FLOAT, [1, gates, 1], [0.5] * gates),
            helper.make_tensor("r", FLOAT, [1, gates, 1], [0.5] * gates),
        ]
        return model(
            [node(op, ["x", "w", "r"], ["y"], hidden_size=1)],
            {"x": [n, 1, 1]},
            {"y": [n, 1, 1, 1]},
            weights,
        )

    return build


def tree_ensemble(n: int) -> onnx.ModelProto:
    """A tree of n nodes that is a list."""
    inner = n // 2
    modes = ["BRANCH_LEQ", "LEAF"] * inner + ["LEAF"]
    count = len(modes)
    trues = [i + 1 if i % 2 == 0 and i < count - 1 else 0 for i in range(count)]
    falses = [i + 2 if i % 2 == 0 and i < count - 1 else 0 for i in range(count)]
    leaves = [i for i, m in enumerate(modes) if m == "LEAF"]
    made = model(
        [
            node(
                "TreeEnsembleRegressor",
                ["x"],
                ["y"],
                domain="ai.onnx.ml",
                n_targets=1,
                nodes_treeids=[0] * count,
                nodes_nodeids=list(range(count)),
                nodes_featureids=[0] * count,
                nodes_modes=modes,
                nodes_values=[0.5] * count,
                nodes_truenodeids=trues,
                nodes_falsenodeids=falses,
                target_treeids=[0] * len(leaves),
                target_nodeids=leaves,
                target_ids=[0] * len(leaves),
                target_weights=[1.0] * len(leaves),
            )
        ],
        {"x": [1, 1]},
        {"y": [1, 1]},
    )
    made.opset_import.append(helper.make_opsetid("ai.onnx.ml", 3))
    return made


def many(
    op: str,
    inputs: dict[str, Shape],
    result: Shape,
    weights: Sequence[TensorProto] = (),
    opset: int = 17,
    **attributes: object,
) -> Kind:
    """Return a network of n equal nodes on n inputs, whose results are outputs."""

    def build(n: int) -> onnx.ModelProto:
        names = list(inputs)
        nodes = [
            node(op, [f"x{i}", *names[1:], *(w.name for w in weights)], [f"y{i}"], **attributes)
            for i in range(n)
        ]
        first = {f"x{i}": inputs[names[0]] for i in range(n)}
        rest = {name: inputs[name] for name in names[1:]}
        return model(nodes, {**first, **rest}, {f"y{i}": result for i in range(n)}, weights, opset)

    return build
