"""Calls with large arrays, which are used in place and returned without a copy."""

from __future__ import annotations

import gc
import sys
import threading

import numpy as np
import onnxruntime
import pytest
from onnx import parser

import tvmrt

HEAD = '<ir_version: 8, opset_import: ["" : 17]>\n'
# Rows of 16 KB: 8 rows are large.
SCALED = HEAD + "g (float[N,4096] x) => (float[N,4096] y) { y = Add(x, x) }"
APPEND = (
    HEAD
    + "g (float[N,4096] x, float[1,4096] row) => (float[M,4096] y) { y = Concat<axis=0>(x, row) }"
)
KINDS = {
    "fixed": {"shapes": {"x": (8, 4096)}},
    "bounded": {"dims": {"N": (1, 12)}},
    "open": {},
}


def load(text: str, **options: object) -> tvmrt.Network:
    return tvmrt.load(parser.parse_model(text), cache=False, **options)


def values(rows: int = 8, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((rows, 4096)).astype(np.float32)


@pytest.fixture(params=KINDS)
def scaled(request) -> tvmrt.Network:
    return load(SCALED, **KINDS[request.param])


def shifted(x: np.ndarray, by: int) -> np.ndarray:
    """Return a copy at an address that is not a multiple of 16."""
    memory = np.empty(x.nbytes + 64, np.uint8)
    start = -memory.ctypes.data % 64 + by
    result = memory[start : start + x.nbytes].view(x.dtype).reshape(x.shape)
    result[...] = x
    return result


def read_only(x: np.ndarray) -> np.ndarray:
    x = x.copy()
    x.flags.writeable = False
    return x


INPUTS = {
    "aligned": lambda x: shifted(x, 0),
    "16 bytes": lambda x: shifted(x, 16),
    "4 bytes": lambda x: shifted(x, 4),
    "read-only": read_only,
    "columns first": np.asfortranarray,
    "every second row": lambda x: np.repeat(x, 2, axis=0)[::2],
    "doubles": lambda x: x.astype(np.float64),
    "list": lambda x: x.tolist(),
}


@pytest.mark.parametrize("make", INPUTS.values(), ids=INPUTS)
def test_inputs_of_any_layout(scaled, make):
    x = values()
    for _ in range(2):
        given = make(x)
        np.testing.assert_array_equal(scaled(given), x + x)
        np.testing.assert_array_equal(given, x)  # unchanged
        np.testing.assert_array_equal(scaled(x), x + x)


def test_results_never_change(scaled):
    results = []
    for seed in range(6):
        y = scaled(values(seed=seed))
        assert y.flags.writeable
        results.append(y)
        del y
        if seed == 3:
            del results[1]  # its memory may be used again
    for seed, y in zip((0, 2, 3, 4, 5), results):
        np.testing.assert_array_equal(y, 2 * values(seed=seed))


def test_views_of_results_never_change(scaled):
    view = scaled(values())[2:4, ::7]
    expected = view.copy()
    gc.collect()
    for seed in range(1, 5):
        scaled(values(seed=seed))
    np.testing.assert_array_equal(view, expected)


def test_callers_may_write_to_results_and_inputs(scaled):
    x = values()
    y = scaled(x)
    y[:] = -1
    x[:] = 3
    np.testing.assert_array_equal(scaled(x), np.full_like(x, 6))
    np.testing.assert_array_equal(y, np.full_like(x, -1))


def test_results_are_inputs_of_later_calls(scaled):
    x = y = values()
    for step in range(1, 8):
        y = scaled(y)
        np.testing.assert_array_equal(y, x * 2**step)


@pytest.mark.parametrize("options", [{"dims": {"N": (1, 64)}}, {}], ids=["bounded", "open"])
def test_a_growing_cache(options):
    net = load(APPEND, **options)
    cache = values(4)
    kept = []
    for seed in range(30):
        row = values(1, seed)
        grown = net({"x": cache, "row": row})["y"]
        np.testing.assert_array_equal(grown, np.concatenate([cache, row]))
        kept.append((cache, cache.copy()))
        cache = grown
    for array, content in kept:
        np.testing.assert_array_equal(array, content)


def test_inputs_may_end_after_a_call(scaled):
    for seed in range(3):
        x = values(seed=seed)
        expected = x + x
        y = scaled(x)
        del x
        gc.collect()
        np.testing.assert_array_equal(y, expected)
    with pytest.raises(ValueError, match="x"):
        scaled(np.zeros((8, 4095), np.float32))
    x = values(seed=7)
    np.testing.assert_array_equal(scaled(x), x + x)


@pytest.mark.parametrize("kind", KINDS)
def test_outputs_do_not_share_memory_with_inputs(kind):
    net = load(
        HEAD
        + """g (float[N,4096] x) => (float[N,4096] a, float[N,4096] b, float[N,64,64] c) {
        a = Identity(x) b = Identity(x) s = Constant<value_ints=[0,64,64]>() c = Reshape(x, s) }""",
        **KINDS[kind],
    )
    x = values()
    results = net(x)
    results = [*results, *net(x)]
    for i, each in enumerate(results):
        assert not np.shares_memory(each, x)
        assert not any(np.shares_memory(each, other) for other in results[:i])
        np.testing.assert_array_equal(each.reshape(x.shape), x)


@pytest.mark.parametrize("kind", KINDS)
def test_networks_that_compute_in_place_leave_inputs_unchanged(kind):
    text = (
        HEAD
        + """g (float[N,4096] x) => (float[N,4096] y) {
        a = Relu(x) b = Neg(a) c = Relu(x) d = Add(b, c) e = Abs(x) y = Sub(e, d) }"""
    )
    net = load(text, **KINDS[kind])
    session = onnxruntime.InferenceSession(parser.parse_model(text).SerializeToString())
    x = shifted(values(), 16)
    before = x.copy()
    for _ in range(3):
        np.testing.assert_array_equal(net(x), session.run(None, {"x": x})[0])
        np.testing.assert_array_equal(x, before)


def test_threads_have_results_of_their_own(scaled):
    problems = []

    def call(seed: int) -> None:
        x = values(seed=seed)
        kept = []
        for step in range(30):
            kept = [*kept[-2:], (step, scaled(x * step))]
            problems.extend(seed for k, y in kept if not np.array_equal(y, 2 * k * x))

    threads = [threading.Thread(target=call, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems


def test_small_and_large_calls_alternate():
    for options in ({"dims": {"N": (1, 12)}}, {}):
        net = load(SCALED, **options)
        kept = []
        for rows in (1, 12, 1, 8, 3, 12, 1):
            x = values(rows, rows)
            kept.append((x, net(x)))
        for x, y in kept:
            np.testing.assert_array_equal(y, x + x)


def test_memory_of_dropped_results_is_used_again():
    resource = pytest.importorskip("resource")
    net = load(SCALED, shapes={"x": (1024, 4096)})  # 16 MB
    x = values(1024)
    y = net(x)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(20):
        y = net(x)
    kilobytes = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / (
        1024 if sys.platform == "darwin" else 1
    )
    assert kilobytes < 3 * 16384
    np.testing.assert_array_equal(y, x + x)


def test_other_element_types():
    for dtype, name in ((np.float64, "double"), (np.int8, "int8"), (np.float16, "float16")):
        text = f"""g ({name}[N,65536] x) => ({name}[N,65536] y, bool[N,65536] z) {{
            y = Identity(x) z = Greater(x, x) }}"""
        net = load(HEAD + text, dims={"N": (1, 2)})
        x = (np.arange(131072) % 100).reshape(2, 65536).astype(dtype)
        for _ in range(2):
            y, z = net(x)
            assert y.dtype == dtype
            assert z.dtype == np.bool_
            np.testing.assert_array_equal(y, x)
            assert not z.any()
