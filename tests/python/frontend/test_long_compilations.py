"""Small files do not keep the compiler busy: its work is linear in a file, or a limit ends it."""

import resource
import subprocess
import sys
from pathlib import Path

import long_compilations
import numpy as np
import onnx.reference
import pytest
from many_nodes import compile_calls

import tvmrt

BENCH = Path(__file__).parents[2] / "bench" / "bench_long_compilations.py"

pytestmark = pytest.mark.filterwarnings("ignore:the network has dynamic dimensions")

# The kind, its size, and the words of the error.
REFUSED = [
    ("reshape to rank", 65, "a tensor has 65 dimensions; the maximum is 64"),
    ("reshape to rank", 5000, "a tensor has 5000 dimensions; the maximum is 64"),
    ("reshape to undeclared rank", 5000, "a tensor has 5000 dimensions; the maximum is 64"),
    ("constant of rank", 5000, "a tensor has 5000 dimensions; the maximum is 64"),
    ("input of rank", 12000, "input x has 12000 dimensions; the maximum is 64"),
    ("symbolic input of rank", 3000, "input x has 3000 dimensions; the maximum is 64"),
    ("weights of rank", 65, "tensor w has 65 dimensions; the maximum is 64"),
    ("Unsqueeze to rank", 5000, "a tensor has 5001 dimensions; the maximum is 64"),
    ("Expand to rank", 5000, "a tensor has 5000 dimensions; the maximum is 64"),
    ("Tile of rank", 4000, "input x has 4000 dimensions; the maximum is 64"),
    ("functions that double", 14, r"expand to 16384 nodes; the maximum .* is \d+; use fewer"),
    ("functions that double in branches", 14, "expand to 32767 nodes; the maximum"),
    ("Concat of n", 20000, "expand to 19994 nodes; the maximum for a network of this size is 1024"),
    ("Concat of open columns", 300, "it joins 300 tensors of open sizes; the maximum is 128"),
    ("Concat of open sizes", 2500, "it joins 2500 tensors of open sizes; the maximum is 128"),
    ("Conv nodes", 200, "expand to 102. nodes; the maximum for a network of this size is 102"),
    pytest.param(
        *("sizes: polynomial", 16, "more than 4096 dimensions|computed at run time"),
        marks=pytest.mark.slow,
    ),
    ("Concat of constants that doubles", 30, "the limit is max_memory=4294967296"),
]


@pytest.mark.parametrize("kind, size, words", REFUSED, ids=lambda value: str(value)[:30])
def test_small_networks_beyond_a_limit_are_refused_at_once(kind, size, words):
    model = long_compilations.KINDS[kind][0](size)
    with pytest.raises((ValueError, tvmrt.TVMError), match=words):
        assert compile_seconds(model) < 10


@pytest.mark.parametrize("kind", ["reshape to rank", "input of rank", "weights of rank"])
def test_sixty_four_dimensions_run(kind):
    model = long_compilations.KINDS[kind][0](64)
    feeds = {
        info.name: np.ones([d.dim_value for d in info.type.tensor_type.shape.dim], np.float32)
        for info in model.graph.input
    }
    (expected,) = onnx.reference.ReferenceEvaluator(model).run(None, feeds)
    np.testing.assert_array_equal(tvmrt.load(model, cache=False)(**feeds), expected)


@pytest.mark.parametrize(
    "kind, size",
    [
        ("Concat of open sizes", 30),
        *(
            pytest.param(kind, size, marks=pytest.mark.slow)
            for kind, size in [
                ("Split of open rows", 50),
                ("inputs with a size each", 50),
                ("Einsum operands", 500),
                ("Split of open rows", 200),
                ("Split", 200),
                ("inputs with a size each", 200),
                ("Sum of n", 1500),
                ("repeated node names", 800),
                ("Softmax in a chain", 500),
            ]
        ),
    ],
)
def test_four_times_the_parts_are_less_than_six_times_the_work(kind, size):
    build, _ = long_compilations.KINDS[kind]
    compile_calls(build(2))  # modules and tables that are loaded once
    small, large = (compile_calls(build(n)) for n in (size, 4 * size))
    assert large < 6 * small


@pytest.mark.parametrize("kind", ["Concat of open sizes", "Split of open rows"])
def test_many_open_parts_are_right(kind):
    model = long_compilations.KINDS[kind][0](70)
    random = np.random.default_rng(0)
    feeds = {
        info.name: random.standard_normal(
            [d.dim_value or 1 + i % 3 for d in info.type.tensor_type.shape.dim]
        ).astype(np.float32)
        for i, info in enumerate(model.graph.input)
    }
    expected = onnx.reference.ReferenceEvaluator(model).run(None, feeds)
    results = tvmrt.load(model, cache=False)(**feeds)
    for result, right in zip(results if len(expected) > 1 else [results], expected):
        np.testing.assert_allclose(result, right, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    ["Sum of n", "Concat of n", "Split", "Einsum operands", "Loops, nested", "dimension name"],
)
def test_time_is_bounded(kind):
    """Up to 10 s of processor time, 30 on a slow machine, and for each node of the file what the C
    compiler may need. The benchmark measures all kinds."""
    build, sizes = long_compilations.KINDS[kind]
    for size in (sizes[-1], sizes[-2:][0]):
        model = build(size)
        limit = 30 + 0.06 * (count_nodes(model.graph) + len(model.graph.output))
        row = [sys.executable, BENCH, kind, "--one", str(size), "--timeout", str(int(limit))]
        done = subprocess.run(row, check=False, capture_output=True, text=True)
        seconds, _, outcome = done.stdout[43:].split(maxsplit=1)[1].partition("  ")
        assert float(seconds) < limit
        assert outcome.strip() == "compiled" or outcome.split(":")[0].strip() in (
            "ValueError UnsupportedError UnsupportedSizes MemoryBoundError".split()
        )


def compile_seconds(model: onnx.ModelProto) -> float:
    """Return the processor time of a compilation without the C compiler."""
    begin = resource.getrusage(resource.RUSAGE_SELF)
    tvmrt.compile(model)
    end = resource.getrusage(resource.RUSAGE_SELF)
    return end.ru_utime + end.ru_stime - begin.ru_utime - begin.ru_stime


def count_nodes(graph: onnx.GraphProto) -> int:
    bodies = [a.g for node in graph.node for a in node.attribute if a.HasField("g")]
    return len(graph.node) + sum(map(count_nodes, bodies))
