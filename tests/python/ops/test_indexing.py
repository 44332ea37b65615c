"""Gather and scatter, sorting, one-hot encoding, and out-of-range indices."""

from __future__ import annotations

import re

import numpy as np
import pytest
from harness import Batch, case
from onnx import helper
from onnx.reference import ReferenceEvaluator
from onnx_graph import model as graph_of

import tvmrt
from tvmrt.compiler import pipeline
from tvmrt.compiler.frontend.onnx import import_model
from tvmrt.compiler.transform.dead_code import remove_dead_code
from tvmrt.runtime.executor import AotModule

RNG = np.random.default_rng(14)


def f32(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def i64(*numbers):
    return np.array(numbers, np.int64)


def places(extent, *shape, dtype=np.int64):
    return RNG.integers(-extent, extent, shape).astype(dtype)


def exact(id, op, inputs, constants=(), **attrs):
    return case(id, op, inputs, constants, rtol=0, atol=0, **attrs)


def gather_cases():
    for axis in (0, 1, 2, -1):
        x = f32(4, 5, 6)
        extent = x.shape[axis]
        for dtype in (np.int32, np.int64):
            inputs = [x, places(extent, 2, 3, dtype=dtype)]
            yield exact(f"axis{axis}-{np.dtype(dtype).name}", "Gather", inputs, axis=axis)
        yield exact(f"axis{axis}-constant", "Gather", [x, places(extent, 7)], [1], axis=axis)
        yield exact(f"axis{axis}-scalar", "Gather", [x, np.array(-2)], [1], axis=axis)
        yield exact(f"axis{axis}-computed-scalar", "Gather", [x, np.array(-2)], axis=axis)
    yield exact("stride", "Gather", [f32(4, 9), i64(1, 3, 5)], [1], axis=1)
    yield exact("backwards", "Gather", [f32(4, 9), i64(8, 5, 2)], [1], axis=1)
    yield exact("repeats", "Gather", [f32(4, 9), i64(2, 2, 2)], [1], axis=1)
    yield exact("nothing", "Gather", [f32(4, 9), np.zeros((0,), np.int64)], [1], axis=1)
    yield exact("table", "Gather", [f32(50, 16), places(50, 2, 9)], [0])
    yield exact("u8", "Gather", [RNG.integers(0, 255, (5, 4)).astype(np.uint8), places(5, 3)])
    yield exact("bool", "Gather", [RNG.random((5, 4)) < 0.5, places(5, 3)])
    for axis in (0, 1, -1):
        x = f32(4, 5, 6)
        shape = [3 if d == axis % 3 else n for d, n in enumerate(x.shape)]
        ids = places(x.shape[axis], *shape)
        yield exact(f"axis{axis}", "GatherElements", [x, ids], axis=axis)
        yield exact(f"axis{axis}-constant", "GatherElements", [x, ids], [1], axis=axis)
    x = f32(3, 4, 5, 6)
    for depth in (1, 2, 4):
        tuples = np.stack([places(n, 2, 3) for n in x.shape[:depth]], -1)
        yield exact(f"depth{depth}", "GatherND", [x, tuples])
        yield exact(f"depth{depth}-constant", "GatherND", [x, tuples], [1])
    rows = np.stack([np.full(4, 1), np.arange(4)], -1)
    yield exact("adjacent", "GatherND", [x, rows], [1])
    for batch in (1, 2):
        tuples = places(x.shape[batch], *x.shape[:batch], 2, 1)
        yield exact(f"batch{batch}", "GatherND", [x, tuples], batch_dims=batch)
        yield exact(f"batch{batch}-constant", "GatherND", [x, tuples], [1], batch_dims=batch)
    kept = np.array([True, False, True, True])
    yield exact("axis", "Compress", [f32(4, 5), kept], [1], axis=0)
    yield exact("flat", "Compress", [f32(4, 5), kept], [1])


GATHER = Batch(17, gather_cases())


def unique_tuples(shape, count):
    flat = RNG.permutation(int(np.prod(shape)))[:count]
    return np.stack(np.unravel_index(flat, shape), -1).astype(np.int64)


def scatter_cases():
    for axis in (0, 1, -1):
        x = f32(4, 5, 6)
        shape = [2 if d == axis % 3 else n - 1 for d, n in enumerate(x.shape)]
        # unique indices, so that the order of writes does not matter
        ids = np.argsort(RNG.random(shape), axis).astype(np.int64)
        new = f32(*shape)
        yield exact(f"axis{axis}", "ScatterElements", [x, ids, new], axis=axis)
        yield exact(f"axis{axis}-constant", "ScatterElements", [x, ids - 2, new], [1], axis=axis)
    for reduction in ("add", "mul", "max", "min"):
        x, ids, new = f32(4, 5), places(4, 9, 5), f32(9, 5)
        attrs = {"axis": 0, "reduction": reduction}
        yield case(reduction, "ScatterElements", [x, ids, new], rtol=1e-5, atol=1e-6, **attrs)
        x, ids, new = f32(4, 5, 6), places(4, 7, 1), f32(7, 5, 6)
        yield case(reduction, "ScatterND", [x, ids, new], rtol=1e-5, atol=1e-6, reduction=reduction)
        yield case(
            f"{reduction}-constant",
            "ScatterND",
            [x, ids, new],
            [1],
            rtol=1e-5,
            atol=1e-6,
            reduction=reduction,
        )
    for kind in ("float64", "int32", "int64", "uint8"):
        x, new = RNG.integers(1, 9, (4, 3)).astype(kind), RNG.integers(1, 9, (5, 3)).astype(kind)
        for reduction in ("add", "mul", "max", "min"):
            ids = places(4, 5, 1)
            yield exact(f"{reduction}-{kind}", "ScatterND", [x, ids, new], reduction=reduction)
    x = f32(4, 5, 6)
    for depth in (1, 2, 3):
        tuples = unique_tuples(x.shape[:depth], 4)
        new = f32(4, *x.shape[depth:])
        yield exact(f"depth{depth}", "ScatterND", [x, tuples, new])
        yield exact(
            f"depth{depth}-constant", "ScatterND", [x, tuples - [4, 5, 6][:depth], new], [1]
        )
        yield exact(f"depth{depth}-into-constant", "ScatterND", [x, tuples, new], [0])
    grid = np.stack(np.meshgrid(np.arange(4), np.arange(1, 4), indexing="ij"), -1)
    yield exact("adjacent", "ScatterND", [x, grid, f32(4, 3, 6)], [1])
    numbers = RNG.integers(0, 9, (5, 3))
    yield exact("i64", "ScatterND", [numbers, i64(3, 0).reshape(2, 1), numbers[:2] + 7])
    yield exact("bool", "ScatterND", [numbers > 4, i64(1).reshape(1, 1), numbers[:1] < 5])


SCATTER = Batch(18, scatter_cases())


def choice_cases():
    for axis in (0, 1, -1):
        ids, values = places(5, 2, 3), np.array([0.5, 3], np.float32)
        inputs = [ids, np.array(5), values]
        yield exact(f"axis{axis}", "OneHot", inputs, [1, 2], axis=axis)
    outside = [i64(-7, 7, 4, -5), np.array(5), np.array([1, 9])]
    yield exact(
        "outside",
        "OneHot",
        outside,
        [1],
        wanted=[np.array([[1] * 5, [1] * 5, [1, 1, 1, 1, 9], [9, 1, 1, 1, 1]])],
    )
    floats = [np.array([1.0, 4.0], np.float32), np.array(6.0, np.float32), np.array([0, 1])]
    yield exact("f32", "OneHot", floats, [1, 2])
    for axis in (0, 1, -1):
        for largest in (0, 1):
            x = RNG.permutation(4 * 5 * 30).reshape(4, 5, 30).astype(np.float32)
            inputs = [x, i64(3)]
            yield exact(
                f"axis{axis}-largest{largest}",
                "TopK",
                inputs,
                [1],
                outputs=2,
                axis=axis,
                largest=largest,
            )
    ties = RNG.integers(0, 4, (3, 40))
    yield exact("ties", "TopK", [ties, i64(12)], [1], outputs=2)
    yield exact(
        "ties-smallest", "TopK", [ties.astype(np.float64), i64(40)], [1], outputs=2, largest=0
    )
    yield exact("one", "TopK", [f32(3, 40), i64(1)], [1], outputs=2)
    yield exact("none", "TopK", [f32(3, 40), i64(0)], [1], outputs=2)
    lengths = i64(1, 4, 0, 3)
    x = f32(4, 5, 3)
    yield exact("batch-first", "ReverseSequence", [x[:, :4], lengths], batch_axis=0, time_axis=1)
    yield exact("time-first", "ReverseSequence", [f32(5, 4, 3), lengths])
    yield exact("constant", "ReverseSequence", [f32(5, 4), lengths], [1])
    for n in (1, 2, 3, 6):
        yield case(f"{n}x{n}", "Det", [f32(2, n, n)], rtol=1e-4)
    swapped = np.array([[0, 1], [1, 0]], np.float32)
    yield case("swapped", "Det", [swapped])
    yield case("singular", "Det", [np.ones((3, 3), np.float32)])


CHOICE = Batch(17, choice_cases())

IMAGE = Batch(
    18,
    [
        case("plain", "Col2Im", [f32(2, 12, 9), i64(4, 4), i64(2, 2)], [1, 2], rtol=1e-5),
        case(
            "padded",
            "Col2Im",
            [f32(1, 18, 9), i64(5, 4), i64(3, 3)],
            [1, 2],
            rtol=1e-5,
            atol=1e-6,
            strides=[2, 1],
            pads=[1, 0, 1, 1],
        ),
        case(
            "dilated",
            "Col2Im",
            [f32(1, 4, 12), i64(6, 5), i64(2, 2)],
            [1, 2],
            rtol=1e-5,
            strides=[1, 1],
            dilations=[2, 2],
        ),
    ],
)

CACHE = Batch(
    24,
    [
        exact("start", "TensorScatter", [f32(2, 3, 8, 4), f32(2, 3, 2, 4)]),
        exact("each", "TensorScatter", [f32(2, 3, 8, 4), f32(2, 3, 2, 4), i64(5, 0)]),
        exact(
            "around",
            "TensorScatter",
            [f32(2, 3, 8, 4), f32(2, 3, 3, 4), i64(7, 2)],
            mode="circular",
        ),
        exact("axis1", "TensorScatter", [f32(2, 8, 4), f32(2, 1, 4), i64(3, 7)], axis=1),
    ],
    evaluator="reference",
)

OLD = Batch(
    9,
    [
        exact("old-name", "Scatter", [f32(3, 4), places(3, 1, 4), f32(1, 4)]),
        exact("attribute", "TopK", [f32(30)], outputs=2, k=4, axis=0),
        exact("axis", "Gather", [f32(3, 4), places(4, 2)], axis=1),
    ],
)


@pytest.mark.parametrize("part", [*GATHER])
def test_gather(part):
    part.check()


@pytest.mark.parametrize("part", [*SCATTER])
def test_scatter(part):
    part.check()


@pytest.mark.parametrize("part", [*CHOICE, *IMAGE, *CACHE])
def test_choice(part):
    part.check()


@pytest.mark.parametrize("part", [*OLD])
def test_versions(part):
    part.check()


OUTSIDE = {
    "gather": ("Gather", [f32(4, 3), i64(4)], {}, "indices: index 4 is outside an extent of 4"),
    "gather-below": ("Gather", [f32(4, 3), i64(-5)], {}, "indices: index -5"),
    "gather-far": ("Gather", [f32(4, 3), i64(-(2**63))], {}, "indices: index -9223372036854775808"),
    "gather-in-threads": ("Gather", [f32(4, 99), np.arange(-1, 4999)], {}, "indices: index 4"),
    "elements": ("GatherElements", [f32(4, 3), i64(9).reshape(1, 1)], {}, "indices: index 9"),
    "nd": ("GatherND", [f32(4, 3), i64(0, 3).reshape(1, 2)], {}, "indices: index 3"),
    "scatter": (
        "ScatterElements",
        [f32(4, 3), i64(9).reshape(1, 1), f32(1, 1)],
        {},
        "indices: index 9",
    ),
    "scatter-nd": (
        "ScatterND",
        [f32(4, 3), i64(-9).reshape(1, 1), f32(1, 3)],
        {},
        "indices: index -9 is outside an extent of 4",
    ),
    "lengths": ("ReverseSequence", [f32(4, 3), i64(1, 2, 5)], {}, "sequence_lens: index 5"),
    "lengths-below": ("ReverseSequence", [f32(4, 3), i64(1, 2, -1)], {}, "sequence_lens: index -1"),
    "cache": (
        "TensorScatter",
        [f32(1, 1, 6, 2), f32(1, 1, 3, 2), i64(4)],
        {},
        "write_indices: index 4 is outside an extent of 4",
    ),
    "cache-below": (
        "TensorScatter",
        [f32(1, 1, 6, 2), f32(1, 1, 3, 2), i64(-1)],
        {},
        "write_indices: index -1",
    ),
    "regions": (
        "RoiAlign",
        [f32(1, 1, 4, 4), f32(1, 4), i64(9)],
        {"output_height": 2, "output_width": 2},
        "batch_indices: index 9 is outside an extent of 1",
    ),
    "pooled-regions": (
        "MaxRoiPool",
        [f32(1, 1, 4, 4), np.array([[9, 0, 0, 1, 1]], np.float32)],
        {"pooled_shape": [2, 2]},
        "rois: index 9 is outside an extent of 1",
    ),
    "unpool": (
        "MaxUnpool",
        [f32(1, 1, 2, 2), np.full((1, 1, 2, 2), 99)],
        {"kernel_shape": [2, 2], "strides": [2, 2]},
        "indices: index 99 is outside an extent of 16",
    ),
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_index_outside_stops_the_run(name, tmp_path):
    """The message names node, operand, index and bound, for any node name."""
    from nn_case import run_compiled

    op, arrays, attrs, text = OUTSIDE[name]
    feeds = {f"x{i}": a for i, a in enumerate(arrays)}
    called = 'pick "it" \\ ??/ \u00fc'
    node = helper.make_node(op, list(feeds), ["y"], called, **attrs)
    opset = 24 if op == "TensorScatter" else 20
    network = graph_of([node], feeds, ["y"], opset=opset)
    shown = called.replace("??", "? ?")
    with pytest.raises(IndexError, match=re.escape(f"'{shown}', {text}")):
        run_compiled(network, feeds, tmp_path)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads_report_the_first_invalid_index(threads, tmp_path):
    from nn_case import run_compiled

    feeds = {"x": f32(4, 99), "at": np.arange(-1, 4999)}
    network = graph_of([helper.make_node("Gather", ["x", "at"], ["y"])], feeds, ["y"], opset=20)
    config = tvmrt.get_global_func("runtime.config_threadpool")
    config(0, threads)
    try:
        with pytest.raises(IndexError, match="indices: index 4 is outside"):
            run_compiled(network, feeds, tmp_path)
    finally:
        config(0, 0)


def rows_of_each(count, rows):
    """Return index tuples of x[:, rows], as exporters write them."""
    return np.stack(np.meshgrid(np.arange(count), rows, indexing="ij"), -1).astype(np.int64)


def test_assigned_ranges_become_one_concat(tmp_path):
    from nn_case import run_compiled

    x, a, b, c = f32(2, 9, 3), f32(2, 3, 3), f32(2, 4, 3), f32(2, 2, 3)
    rows = {"a": np.arange(1, 4), "b": np.arange(3, 7), "c": np.arange(-2, 0)}
    nodes, weights, before, wanted = [], {}, "x", x.copy()
    for name, u in {"a": a, "b": b, "c": c}.items():
        weights[f"i{name}"] = rows_of_each(2, rows[name])
        nodes.append(helper.make_node("ScatterND", [before, f"i{name}", name], [f"y{name}"]))
        before = f"y{name}"
        wanted[:, rows[name]] = u
    network = graph_of(nodes, {"x": x, "a": a, "b": b, "c": c}, ["yc"], weights)
    graph = import_model(network)
    remove_dead_code(graph)
    assert [n.op for n in graph.nodes].count("concat") == 1
    found = run_compiled(network, {"x": x, "a": a, "b": b, "c": c}, tmp_path)["yc"]
    np.testing.assert_array_equal(found, wanted)


def test_constant_index_outside_is_named():
    node = helper.make_node("Gather", ["x", "i"], ["y"], "pick")
    network = graph_of([node], {"x": f32(4)}, ["y"], {"i": i64(2, 4)})
    with pytest.raises(ValueError, match=r"pick .*index 4 is outside an extent of 4"):
        pipeline.compile(network)


@pytest.mark.parametrize("op", ["GatherND", "ScatterND"])
def test_constant_tuple_outside_is_named(op):
    inputs = ["x", "i"] if op == "GatherND" else ["x", "i", "u"]
    network = graph_of(
        [helper.make_node(op, inputs, ["y"], "pick")], {"x": f32(4, 5)}, ["y"],
        {"i": np.array([[3, 1], [1, -6]]), "u": f32(2)}, opset=18,
    )  # fmt: skip
    with pytest.raises(ValueError, match=r"pick .*index -6 is outside an extent of 5"):
        pipeline.compile(network)


POSITIONS = np.array([[2, 0, -1], [-7, 6, 1]])


def rotated_network(positions):
    x, angles = f32(2, 3, 16), np.linspace(0, 1, 28, dtype=np.float32).reshape(7, 4)
    node = helper.make_node(
        "RotaryEmbedding", ["x", "cos", "sin", "places"], ["y"], "turn", num_heads=2
    )
    arrays = {"x": x, "cos": np.cos(angles), "sin": np.sin(angles)}
    return graph_of([node], arrays, ["y"], {"places": positions}, opset=23), arrays


def test_constant_positions_count_from_the_end(tmp_path):
    from nn_case import run_compiled

    network, arrays = rotated_network(POSITIONS)
    (wanted,) = ReferenceEvaluator(network).run(None, arrays)
    np.testing.assert_allclose(run_compiled(network, arrays, tmp_path)["y"], wanted, 1e-5, 1e-6)


def test_constant_position_outside_is_named():
    with pytest.raises(ValueError, match=r"turn .*index -8 is outside an extent of 7"):
        pipeline.compile(rotated_network(POSITIONS - 1)[0])


@pytest.mark.parametrize("op", ["Gather", "GatherElements", "ScatterElements"])
def test_index_folded_to_a_constant_is_checked(op, tmp_path):
    """The value of i * 0 + 9 is known only after import."""
    from nn_case import run_compiled

    inputs = ["x", "k", "x"] if op == "ScatterElements" else ["x", "k"]
    nodes = [
        helper.make_node("Mul", ["i", "nothing"], ["none"]),
        helper.make_node("Add", ["none", "nine"], ["k"]),
        helper.make_node(op, inputs, ["y"], "pick", axis=0),
    ]
    arrays = {"x": f32(4), "i": i64(1, 2, 0, 3)}
    weights = {"nothing": np.array(0), "nine": np.array(9)}
    with pytest.raises(IndexError, match=r"pick.*index 9 is outside an extent of 4"):
        run_compiled(graph_of(nodes, arrays, ["y"], weights, opset=18), arrays, tmp_path)


def test_data_dependent_shapes_of_constants(tmp_path):
    from nn_case import run_compiled

    nodes = [
        helper.make_node("NonZero", ["mask"], ["where"]),
        helper.make_node("Squeeze", ["where"], ["flat"]),
        helper.make_node("Gather", ["x", "flat"], ["y"]),
    ]
    mask = np.array([0, 1, 1, 0, 1], np.float32)
    x = f32(5, 3)
    network = graph_of(nodes, {"x": x}, ["y"], {"mask": mask})
    np.testing.assert_array_equal(run_compiled(network, {"x": x}, tmp_path)["y"], x[mask > 0])


def test_scatter_keeps_what_it_copies(tmp_path):
    """The result may reuse the data's memory only if the data has no later reader."""
    from nn_case import run_compiled

    nodes = [
        helper.make_node("Neg", ["x"], ["data"]),
        helper.make_node("ScatterND", ["data", "i", "u"], ["scattered"]),
        helper.make_node("Add", ["data", "scattered"], ["y"]),
    ]
    x, u = f32(4, 3), f32(1, 3)
    network = graph_of(nodes, {"x": x, "u": u}, ["y"], {"i": i64(2).reshape(1, 1)})
    wanted = -2 * x
    wanted[2] = -x[2] + u[0]
    found = run_compiled(network, {"x": x, "u": u}, tmp_path)["y"]
    np.testing.assert_allclose(found, wanted, 1e-6)


@pytest.mark.slow
def test_caches_are_updated_in_the_memory_of_their_inputs(tmp_path):
    """An output may use the memory of the input that it updates, which then is not copied."""
    cached = [
        ("TensorScatter", f32(1, 8, 4)),
        ("ScatterND", f32(8, 4)),
        ("ScatterElements", f32(8)),
    ]
    new, at = f32(1, 2, 4), np.array([3], np.int64)
    feeds = {f"cache{i}": cache for i, (_, cache) in enumerate(cached)}
    feeds |= {
        "new": new,
        "at": at,
        "rows": at.reshape(1, 1),
        "row": new[0, :1],
        "one": new[0, 0, :1],
    }
    parts = [("new", "at"), ("rows", "row"), ("at", "one")]
    nodes = [
        helper.make_node(op, [f"cache{i}", *part], [f"y{i}"], **({} if i else {"axis": 1}))
        for i, ((op, _), part) in enumerate(zip(cached, parts))
    ]
    network = graph_of(nodes, feeds, ["y0", "y1", "y2"], opset=24)
    expected = ReferenceEvaluator(network).run(None, feeds)
    made = tvmrt.compile(network, executor="aot", target="native")
    made.export_library(str(tmp_path / "caches.so"))
    library = tvmrt.runtime.load_module(str(tmp_path / "caches.so"))
    executor = AotModule(library["default"](tvmrt.cpu(0)))
    caches = [tvmrt.nd.array(feeds.pop(f"cache{i}")) for i in range(3)]
    for i, cache in enumerate(caches):
        executor.set_input_zero_copy(f"cache{i}", cache)
        executor.set_output_zero_copy(i, cache)
    executor.run(**feeds)
    for cache, right in zip(caches, expected):
        np.testing.assert_array_equal(cache.numpy(), right)
    text = "".join(made.sources.files.values())
    copies = re.findall(r"(.*)\bmemcpy\((\w+), (\w+),", text)
    assert [before.strip() for before, _, _ in copies] == [f"if ({y} != {x})" for _, y, x in copies]
    assert len(copies) == 3


def test_bytes_are_indices_of_a_table_of_dynamic_length():
    table, x = f32(300, 2), np.array([0, 255, 254, 7], np.uint8)
    nodes = [
        helper.make_node("Cast", ["x"], ["index"], to=7),
        helper.make_node("Gather", ["table", "index"], ["y"]),
    ]
    model = graph_of(nodes, {"table": table, "x": x}, ["y"])
    network = tvmrt.load(model, shapes={"table": ("rows", 2)}, dims={"rows": (256, 400)})
    np.testing.assert_array_equal(network(table, x), table[x])


@pytest.mark.parametrize("rows", [255, 256, 300])
def test_bytes_are_checked_in_tables_that_are_too_short_only(rows):
    """uint8 indices cannot leave a table of 256 entries, so that no check is compiled."""
    table, x = f32(rows, 2), np.array([0, 255, 254, 7], np.uint8)
    nodes = [
        helper.make_node("Cast", ["x"], ["index"], to=7),
        helper.make_node("Gather", ["table", "index"], ["y"], "pick"),
    ]
    model = graph_of(nodes, {"x": x}, ["y"], {"table": table})
    files = tvmrt.compile(model, target="native").sources.files
    assert any("tvmrt_index(" in str(text) for text in files.values()) == (rows < 256)
    network = tvmrt.load(model, cache=False)
    if rows > 255:
        np.testing.assert_array_equal(network(x), table[x])
    else:
        with pytest.raises(IndexError, match=r"pick.*index 255 is outside an extent of 255"):
            network(x)
