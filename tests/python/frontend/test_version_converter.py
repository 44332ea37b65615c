"""Networks in opsets 1 to 6: every form of every operator, with results of its standard."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, defs, helper, numpy_helper

import tvmrt
from tvmrt.compiler.frontend.onnx import import_model
from tvmrt.compiler.frontend.onnx.version_converter import _UPGRADES

RNG = np.random.default_rng(5)
X = RNG.standard_normal((2, 3, 4, 5)).astype(np.float32)
ROW, CHANNELS = X[0, 0, 0].copy(), X[0, :, 0, 0].copy()
FLAGS = X > 0


def along_channels(values: np.ndarray) -> np.ndarray:
    return values.reshape(-1, 1, 1)


def old_model(opset, nodes, feeds, outputs, constants=()) -> onnx.ModelProto:
    """Return a model whose outputs have the types of the arrays ``outputs``."""

    def info(name, array, shape):
        kind = helper.np_dtype_to_tensor_dtype(np.asarray(array).dtype)
        return helper.make_tensor_value_info(name, kind, shape)

    weights = dict(constants)
    given = [info(n, a, np.shape(a)) for n, a in {**feeds, **weights}.items()]
    results = [info(n, a, np.shape(a)) for n, a in outputs.items()]
    stored = [numpy_helper.from_array(np.asarray(a), n) for n, a in weights.items()]
    graph = helper.make_graph(nodes, "old", given, results, stored)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=3)
    onnx.checker.check_model(model)
    return model


def form(opset, op, feeds, outputs, constants=(), **attributes):
    """Return one node that reads all feeds and constants in their order."""
    names = [*feeds, *dict(constants)]
    node = helper.make_node(op, names, list(outputs), **attributes)
    return opset, [node], feeds, outputs, constants


def broadcast_forms():
    numbers = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide}
    numbers |= {"Greater": np.greater, "Less": np.less}
    for op, function in numbers.items():
        for opset in {1, 6} if op in "AddSubMulDiv" else {1}:
            yield (
                f"{op}-{opset} of equal shapes",
                form(opset, op, {"a": X, "b": -X}, {"y": function(X, -X)}),
            )
            yield (
                f"{op}-{opset} by the last axis",
                form(opset, op, {"a": X}, {"y": function(X, ROW)}, {"b": ROW}, broadcast=1),
            )
            yield f"{op}-{opset} along axis 1", form(
                opset, op, {"a": X, "b": CHANNELS}, {"y": function(X, along_channels(CHANNELS))},
                broadcast=1, axis=1,
            )  # fmt: skip
    whole = (X * 3).astype(np.int32)
    yield "Equal-1 along axis 1", form(
        1, "Equal", {"a": whole, "b": whole[0, :, 0, 0]},
        {"y": whole == along_channels(whole[0, :, 0, 0])}, broadcast=1, axis=1,
    )  # fmt: skip
    for op, function in {"And": np.logical_and, "Or": np.logical_or, "Xor": np.logical_xor}.items():
        part = FLAGS[0, :, :, 0]
        yield f"{op}-1 along axes 1 and 2", form(
            1, op, {"a": FLAGS, "b": part}, {"y": function(FLAGS, part[..., None])},
            broadcast=1, axis=1,
        )  # fmt: skip
    two = np.full(3, 2, np.float32)
    yield (
        "Pow-1 along axis 1",
        form(1, "Pow", {"a": X, "b": two}, {"y": X * X}, broadcast=1, axis=1),
    )
    for opset in (1, 6):
        slopes = along_channels(CHANNELS)
        yield (
            f"PRelu-{opset}",
            form(
                opset, "PRelu", {"x": X}, {"y": np.where(X < 0, X * slopes, X)}, {"slope": CHANNELS}
            ),
        )


def moved_forms():
    yield "Cast-1", form(1, "Cast", {"x": X}, {"y": X.astype(np.int32)}, to="INT32")
    yield (
        "Cast-1 in small letters",
        form(5, "Cast", {"x": X}, {"y": X.astype(np.float64)}, to="double"),
    )
    yield (
        "Concat-1 by default",
        form(1, "Concat", {"a": X, "b": X}, {"y": np.concatenate([X, X], 1)}),
    )
    yield "Pad-1", form(
        1, "Pad", {"x": X}, {"y": np.pad(X, ((0, 0), (0, 0), (1, 0), (0, 2)), constant_values=7)},
        paddings=[0, 0, 1, 0, 0, 0, 0, 2], value=7.0,
    )  # fmt: skip
    yield "Reshape-1", form(1, "Reshape", {"x": X}, {"y": X.reshape(2, 3, 20)}, shape=[0, 3, -1])
    yield (
        "Split-1 by an attribute",
        form(1, "Split", {"x": X}, {"y": X[..., :1], "z": X[..., 1:]}, axis=3, split=[1, 4]),
    )
    yield (
        "Split-1 by an operand",
        form(
            1,
            "Split",
            {"x": X},
            {"y": X[..., :1], "z": X[..., 1:]},
            {"s": np.float32([1, 4])},
            axis=3,
        ),
    )
    number, axis = np.float32([3]), np.float32([1])
    tiled = {"y": np.tile(X, (1, 3, 1, 1))}
    yield "Tile-1", form(1, "Tile", {"x": X}, tiled, {"tiles": number, "axis": axis})
    yield (
        "Upsample-1",
        form(
            1,
            "Upsample",
            {"x": X},
            {"y": X.repeat(2, 2).repeat(3, 3)},
            height_scale=2.0,
            width_scale=3.0,
        ),
    )
    for op, shape in {"GlobalLpPool": {}, "LpPool": {"kernel_shape": [4, 5]}}.items():
        total = np.sqrt((X * X).sum((2, 3), keepdims=True))
        yield f"{op}-1", form(1, op, {"x": X}, {"y": total}, p=2.0, **shape)


def plain_forms():
    for name, function in {
        "Abs": np.abs,
        "Neg": np.negative,
        "Exp": np.exp,
        "Tanh": np.tanh,
    }.items():
        yield f"{name}-1", form(1, name, {"x": X}, {"y": function(X)}, consumed_inputs=[0])
    yield "Sum-1", form(1, "Sum", {"a": X, "b": X, "c": X}, {"y": 3 * X}, consumed_inputs=[0, 0, 0])
    yield "Clip-1", form(1, "Clip", {"x": X}, {"y": X.clip(-0.5, 0.5)}, min=-0.5, max=0.5)
    for opset in (1, 6):
        yield f"Dropout-{opset}", form(opset, "Dropout", {"x": X}, {"y": X}, is_test=1)
        a, c = X[0, 0], np.float32([1, 2, 3, 4])
        yield (
            f"Gemm-{opset}",
            form(
                opset, "Gemm", {"a": a, "b": a}, {"y": a @ a.T + c}, {"c": c}, broadcast=1, transB=1
            ),
        )
        scale, shift, mean, var = (np.abs(CHANNELS) + n for n in range(4))
        by_channel = [along_channels(v) for v in (scale, shift, mean, var)]
        normal = (X - by_channel[2]) / np.sqrt(by_channel[3] + 1e-5) * by_channel[0] + by_channel[1]
        old = {"consumed_inputs": [0] * 5} if opset == 1 else {}
        yield f"BatchNormalization-{opset}", form(
            opset, "BatchNormalization", {"x": X}, {"y": normal.astype(np.float32)},
            {"scale": scale, "b": shift, "m": mean, "v": var}, is_test=1, epsilon=1e-5, **old,
        )  # fmt: skip


def recurrent_forms():
    """Return a GRU of one step from a zero state: h = (1 - z) * tanh(W_h x)."""
    x, w = X[:1, :, 0, :4].copy(), RNG.standard_normal((1, 6, 4)).astype(np.float32)
    r = RNG.standard_normal((1, 6, 2)).astype(np.float32)
    gates = x[0] @ w[0].T
    z, h = 1 / (1 + np.exp(-gates[:, :2])), np.tanh(gates[:, 4:])
    for opset in (1, 3, 6):
        node = helper.make_node("GRU", ["x", "w", "r"], ["", "y"], hidden_size=2, output_sequence=0)
        expected = {"y": ((1 - z) * h)[None].astype(np.float32)}
        yield f"GRU in opset {opset}", (opset, [node], {"x": x}, expected, {"w": w, "r": r})


FORMS = dict([*broadcast_forms(), *moved_forms(), *plain_forms(), *recurrent_forms()])


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMS)
def test_form_of_an_old_opset(name):
    opset, nodes, feeds, outputs, constants = FORMS[name]
    found = tvmrt.load(old_model(opset, nodes, feeds, outputs, constants), cache=False)(feeds)
    assert list(found) == list(outputs)
    for key, expected in outputs.items():
        assert found[key].dtype == expected.dtype
        np.testing.assert_allclose(found[key], expected, 1e-5, 1e-6)


def test_operands_between_nodes_are_aligned():
    """The rank of a computed operand is inferred through upgraded nodes."""
    nodes = [
        helper.make_node("Mul", ["x", "c"], ["scaled"], broadcast=1, axis=1),
        helper.make_node("Cast", ["scaled"], ["wide"], to="DOUBLE"),
        helper.make_node("Cast", ["c"], ["wide_c"], to="DOUBLE"),
        helper.make_node("Add", ["wide", "wide_c"], ["y"], broadcast=1, axis=1),
    ]
    by_channel = along_channels(CHANNELS)
    expected = (X * by_channel).astype(np.float64) + by_channel
    model = old_model(3, nodes, {"x": X, "c": CHANNELS}, {"y": expected})
    before = model.SerializeToString()
    found = tvmrt.load(model, cache=False)({"x": X, "c": CHANNELS})["y"]
    assert model.SerializeToString() == before
    np.testing.assert_allclose(found, expected, 1e-6)


@pytest.mark.parametrize("name", FORMS)
def test_form_is_imported(name):
    opset, nodes, feeds, outputs, constants = FORMS[name]
    graph = import_model(old_model(opset, nodes, feeds, outputs, constants))
    assert [v.shape for v in graph.outputs] == [np.shape(a) for a in outputs.values()]


def test_every_changed_form_has_an_upgrade():
    """Each operator whose inputs or attributes differ between opsets 1 to 6 and 7 has a row."""
    schemas = defs.get_all_schemas_with_history()
    for schema in schemas:
        if schema.domain or schema.since_version > 6 or schema.name in _UPGRADES:
            continue
        newer = defs.get_schema(schema.name, 7, "")
        dropped = set(schema.attributes) - set(newer.attributes) - {"consumed_inputs"}
        assert not dropped, f"{schema.name}-{schema.since_version} has {dropped}"
        kinds = {key: value.type for key, value in newer.attributes.items()}
        assert all(kinds[k] == a.type for k, a in schema.attributes.items() if k in kinds)
        required = {k for k, a in newer.attributes.items() if a.required}
        assert required <= {k for k, a in schema.attributes.items() if a.required}, schema.name
        assert len(schema.inputs) == len(newer.inputs), schema.name


def test_node_without_upgrade_is_refused():
    sizes = np.float32([1, 4])
    split = helper.make_node("Split", ["x", "s"], ["y", "z"], "cut", axis=3)
    model = old_model(1, [split], {"x": X, "s": sizes}, {"y": X[..., :1], "z": X[..., 1:]})
    with pytest.raises(ValueError, match=r"cut \(Split\) .* opset 7, as s is computed at run time"):
        import_model(model)


def test_a_model_that_is_not_valid_in_its_opset_is_refused():
    model = old_model(6, [helper.make_node("Relu", ["x"], ["y"])], {"x": X}, {"y": X})
    model.graph.node[0].op_type = "NoSuchOperator"
    with pytest.raises(ValueError, match="is not valid in its opset 6"):
        import_model(model)


def test_cast_to_an_unknown_type_is_refused():
    node = helper.make_node("Cast", ["x"], ["y"], "turn", to="REAL")
    model = old_model(1, [node], {"x": X}, {"y": X})
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT
    with pytest.raises(ValueError, match=r"turn \(Cast\) casts to 'REAL', which is not an element"):
        import_model(model)
