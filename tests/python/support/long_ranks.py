"""Small networks with many dimensions, long names and long texts."""

from __future__ import annotations

import onnx
from long_graphs import FLOAT, INT64, info, ints, model, node
from onnx import TensorProto, helper

# Ranks.


def reshape_to_rank(n: int) -> onnx.ModelProto:
    return model(
        [node("Reshape", ["x", "s"], ["y"])],
        {"x": [2]},
        {"y": [1] * (n - 1) + [2]},
        [ints("s", *[1] * (n - 1), 2)],
    )


def reshape_to_undeclared_rank(n: int) -> onnx.ModelProto:
    nodes = [node("Reshape", ["x", "s"], ["h"]), node("ReduceSum", ["h"], ["y"], keepdims=0)]
    return model(nodes, {"x": [2]}, {"y": []}, [ints("s", *[1] * (n - 1), 2)])


def constant_of_rank(n: int) -> onnx.ModelProto:
    nodes = [
        node("ConstantOfShape", ["s"], ["c"]),
        node("ReduceSum", ["c"], ["d"], keepdims=0),
        node("Add", ["x", "d"], ["y"]),
    ]
    return model(nodes, {"x": [2]}, {"y": [2]}, [ints("s", *[1] * n)])


def input_of_rank(n: int) -> onnx.ModelProto:
    return model([node("Neg", ["x"], ["y"])], {"x": [1] * n}, {"y": [1] * n})


def symbolic_input_of_rank(n: int) -> onnx.ModelProto:
    dims = [f"d{i}" for i in range(n)]
    return model([node("Neg", ["x"], ["y"])], {"x": dims}, {"y": dims})


def unnamed_input_of_rank(n: int) -> onnx.ModelProto:
    return model([node("Relu", ["x"], ["y"])], {"x": [None] * n}, {"y": [None] * n})


def weights_of_rank(n: int) -> onnx.ModelProto:
    weights = helper.make_tensor("w", FLOAT, [1] * n, [1.0])
    return model(
        [node("ReduceSum", ["w"], ["h"], keepdims=0), node("Add", ["x", "h"], ["y"])],
        {"x": [2]},
        {"y": [2]},
        [weights],
    )


def added_weights_of_rank(n: int) -> onnx.ModelProto:
    weights = helper.make_tensor("w", FLOAT, [1] * n, [1.0])
    return model(
        [node("Add", ["x", "w"], ["y"])], {"x": [2]}, {"y": [1] * (n - 1) + [2]}, [weights]
    )


def value_info_of_rank(n: int) -> onnx.ModelProto:
    made = model([node("Neg", ["x"], ["h"]), node("Neg", ["h"], ["y"])], {"x": [2]}, {"y": [2]})
    made.graph.value_info.append(info("h", FLOAT, [1] * n))
    return made


def unsqueeze_to_rank(n: int) -> onnx.ModelProto:
    return model(
        [node("Unsqueeze", ["x", "a"], ["y"])],
        {"x": [2]},
        {"y": [1] * n + [2]},
        [ints("a", *range(n))],
    )


def expand_to_rank(n: int) -> onnx.ModelProto:
    return model(
        [node("Expand", ["x", "s"], ["y"])],
        {"x": [2]},
        {"y": [1] * (n - 1) + [2]},
        [ints("s", *[1] * (n - 1), 2)],
    )


def tile_of_rank(n: int) -> onnx.ModelProto:
    return model(
        [node("Tile", ["x", "r"], ["y"])],
        {"x": [1] * n},
        {"y": [1] * (n - 1) + [2]},
        [ints("r", *[1] * (n - 1), 2)],
    )


def transpose_of_rank(n: int) -> onnx.ModelProto:
    shape = [1] * (n - 2) + [2, 3]
    return model([node("Transpose", ["x"], ["y"])], {"x": shape}, {"y": shape[::-1]})


def transpose_of_twos(n: int) -> onnx.ModelProto:
    """Reverse axes of two elements each: no two can be merged."""
    return model([node("Transpose", ["x"], ["y"])], {"x": [2] * n}, {"y": [2] * n})


def broadcast_of_twos(n: int) -> onnx.ModelProto:
    a = [1 + i % 2 for i in range(n)]
    return model(
        [node("Add", ["a", "b"], ["y"])], {"a": a, "b": [3 - d for d in a]}, {"y": [2] * n}
    )


def reduce_of_twos(n: int) -> onnx.ModelProto:
    nodes = [node("ReduceSum", ["x", "axes"], ["y"], keepdims=0)]
    return model(
        nodes, {"x": [2] * n}, {"y": [2] * (n // 2)}, [ints("axes", *range(0, n // 2 * 2, 2))]
    )


def slice_of_twos(n: int) -> onnx.ModelProto:
    weights = [ints("s", *[0] * n), ints("e", *[1] * n)]
    return model([node("Slice", ["x", "s", "e"], ["y"])], {"x": [2] * n}, {"y": [1] * n}, weights)


def pad_of_rank(n: int) -> onnx.ModelProto:
    return model(
        [node("Pad", ["x", "p"], ["y"])],
        {"x": [1] * n},
        {"y": [2] * n},
        [ints("p", *[0] * n, *[1] * n)],
    )


def symbolic_transpose(n: int) -> onnx.ModelProto:
    dims = [f"d{i}" for i in range(n)]
    return model([node("Transpose", ["x"], ["y"])], {"x": dims}, {"y": dims[::-1]})


def symbolic_flatten(n: int) -> onnx.ModelProto:
    dims = [f"d{i}" for i in range(n)]
    return model([node("Reshape", ["x", "s"], ["y"])], {"x": dims}, {"y": ["m"]}, [ints("s", -1)])


# Names and texts.


def long_names(n: int) -> onnx.ModelProto:
    name = "n" * n
    return model(
        [node("Neg", [f"{name}x"], [f"{name}y"], name=name)],
        {f"{name}x": ["n" * n]},
        {f"{name}y": ["n" * n]},
    )


def long_tensor_name(n: int) -> onnx.ModelProto:
    nodes = [node("Sin", ["x" * n], ["h0"])]
    nodes += [node("Add", [f"h{i}", "x" * n], [f"h{i + 1}"]) for i in range(4)]
    return model(nodes, {"x" * n: [2]}, {"h4": [2]})


def long_dimension(n: int) -> onnx.ModelProto:
    return model(
        [node("Concat", ["x", "x"], ["h"], axis=0), node("Sin", ["h"], ["y"])],
        {"x": ["d" * n]},
        {"y": [None]},
    )


def odd_dimension(n: int) -> onnx.ModelProto:
    return model([node("Neg", ["x"], ["y"])], {"x": ["(a+" * n]}, {"y": [None]})


def summed_dimension(n: int) -> onnx.ModelProto:
    return model(
        [node("Neg", ["x"], ["y"])], {"x": ["+".join(f"a{i}" for i in range(n))]}, {"y": [None]}
    )


def multiplied_dimension(n: int) -> onnx.ModelProto:
    return model(
        [node("Neg", ["x"], ["y"])], {"x": ["*".join(f"(a{i}+1)" for i in range(n))]}, {"y": [None]}
    )


def long_domain(n: int) -> onnx.ModelProto:
    made = model([node("Neg", ["x"], ["y"], domain="d" * n)], {"x": [2]}, {"y": [2]})
    made.opset_import.append(helper.make_opsetid("d" * n, 1))
    return made


def long_operator(n: int) -> onnx.ModelProto:
    return model([node("N" * n, ["x"], ["y"])], {"x": [2]}, {"y": [2]})


def long_attribute(n: int) -> onnx.ModelProto:
    return model([node("Neg", ["x"], ["y"], **{"a" * n: 1})], {"x": [2]}, {"y": [2]})


def long_equation(n: int) -> onnx.ModelProto:
    return model([node("Einsum", ["x"], ["y"], equation=" " * n + "i->i")], {"x": [2]}, {"y": [2]})


def newlines_in_a_name(n: int) -> onnx.ModelProto:
    return model([node("Neg", ["x"], ["y"], name="*/\n" * n)], {"x": [2]}, {"y": [2]})


def many_attributes(n: int) -> onnx.ModelProto:
    return model(
        [node("Neg", ["x"], ["y"], **{f"a{i}": 1 for i in range(n)})], {"x": [2]}, {"y": [2]}
    )


def many_opsets(n: int) -> onnx.ModelProto:
    made = model([node("Sin", ["x"], ["h"]), node("Neg", ["h"], ["y"])], {"x": [2]}, {"y": [2]})
    made.opset_import.extend(helper.make_opsetid(f"d{i}", 1) for i in range(n))
    return made


def many_functions(n: int) -> onnx.ModelProto:
    opsets = [helper.make_opsetid("", 17)]
    functions = [
        helper.make_function("own", f"f{i}", ["a"], ["b"], [node("Neg", ["a"], ["b"])], opsets)
        for i in range(n)
    ]
    return model(
        [node("f0", ["x"], ["y"], domain="own")], {"x": [2]}, {"y": [2]}, functions=functions
    )


def chained_functions(n: int) -> onnx.ModelProto:
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    functions = [
        helper.make_function(
            "own", f"f{i}", ["a"], ["b"], [node(f"f{i + 1}", ["a"], ["b"], domain="own")], opsets
        )
        for i in range(n)
    ]
    functions.append(
        helper.make_function("own", f"f{n}", ["a"], ["b"], [node("Neg", ["a"], ["b"])], opsets)
    )
    return model(
        [node("f0", ["x"], ["y"], domain="own")], {"x": [2]}, {"y": [2]}, functions=functions
    )


def many_strings(n: int) -> onnx.ModelProto:
    strings = helper.make_tensor("w", TensorProto.STRING, [n], [f"s{i}".encode() for i in range(n)])
    made = model([node("Gather", ["w", "i"], ["y"])], {}, {})
    made.graph.initializer.append(strings)
    made.graph.input.append(info("i", INT64, [1]))
    made.graph.output.append(info("y", TensorProto.STRING, [1]))
    return made


def label_encoder(n: int) -> onnx.ModelProto:
    made = model(
        [
            node(
                "LabelEncoder",
                ["i"],
                ["y"],
                domain="ai.onnx.ml",
                keys_int64s=list(range(n)),
                values_strings=[f"s{i}" for i in range(n)],
            )
        ],
        {},
        {},
    )
    made.opset_import.append(helper.make_opsetid("ai.onnx.ml", 3))
    made.graph.input.append(info("i", INT64, [1]))
    made.graph.output.append(info("y", TensorProto.STRING, [1]))
    return made


def repeated_node_names(n: int) -> onnx.ModelProto:
    nodes = [node("Relu", [f"{i}"], [f"{i + 1}"], name="n") for i in range(n)]
    return model(nodes, {"0": [2]}, {f"{n}": [2]})


def repeated_outputs(n: int) -> onnx.ModelProto:
    made = model([node("Sin", ["x"], ["y"])], {"x": [2]}, {"y": [2]})
    made.graph.output.extend([made.graph.output[0]] * (n - 1))
    return made


def repeated_function_outputs(n: int) -> onnx.ModelProto:
    opsets = [helper.make_opsetid("", 17)]
    function = helper.make_function("own", "f", ["a"], ["b"], [node("Neg", ["a"], ["b"])], opsets)
    function.output.extend(["b"] * (n - 1))
    call = node("f", ["x"], ["y", *[""] * (n - 1)], domain="own")
    return model([call], {"x": [2]}, {"y": [2]}, functions=[function])


def unsorted_nodes(n: int) -> onnx.ModelProto:
    made = repeated_node_names(n)
    nodes = list(made.graph.node)[::-1]
    del made.graph.node[:]
    made.graph.node.extend(nodes)
    return made


def concats_of_a_tensor(n: int) -> onnx.ModelProto:
    """Concatenations that all begin with the input."""
    nodes = [node("Concat", ["x", *["x"] * (i % 3), f"{i}"], [f"c{i}"], axis=0) for i in range(n)]
    nodes += [node("ReduceSum", [f"c{i}"], [f"{i + 1}"], keepdims=1) for i in range(n)]
    nodes = [each for pair in zip(nodes[:n], nodes[n:]) for each in pair]
    return model([node("Sin", ["x"], ["0"]), *nodes], {"x": [2]}, {f"{n}": [1]})
