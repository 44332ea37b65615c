"""Sessions, which keep the caches of decoders and other states; compared with onnxruntime, whose
caller feeds outputs back as inputs."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper, parser

import tvmrt

ROOT = Path(__file__).parents[3]
HEAD = '<ir_version: 8, opset_import: ["" : 18]>\n'
# A decoder's layer whose caches grow.
GROWING = """g (float[batch, seq, 64] x, float[batch, 4, past, 16] past_key,
  float[batch, 4, past, 16] past_value) => (float[batch, seq, 64] y,
  float[batch, 4, total, 16] present_key, float[batch, 4, total, 16] present_value) {
  shape = Constant<value_ints=[0, 0, 4, 16]>()
  flat = Constant<value_ints=[0, 0, 64]>()
  rows = Reshape(x, shape)
  q = Transpose<perm=[0, 2, 1, 3]>(rows)
  k = Tanh(q)
  v = Sin(q)
  present_key = Concat<axis=2>(past_key, k)
  present_value = Concat<axis=2>(past_value, v)
  turned = Transpose<perm=[0, 1, 3, 2]>(present_key)
  scores = MatMul(q, turned)
  weights = Softmax<axis=-1>(scores)
  heads = MatMul(weights, present_value)
  joined = Transpose<perm=[0, 2, 1, 3]>(heads)
  y = Reshape(joined, flat)
}"""
# Rows of a table are replaced. OTHER reads the table, too.
UPDATED = """g (int64[1, 1] at, float[1, 3] row, float[8, 3] cache) =>
  (float[3] y, float[8, 3] cache_out) {
  turned = Neg(row)
  cache_out = ScatterND(cache, at, turned)
  axis = Constant<value_ints=[0]>()
  y = ReduceSum<keepdims=0>(OTHER, axis)
}"""
RECURRENT = """g (float[1, batch, 3] x, float[1, batch, 4] h_in, float[1, batch, 4] c_in) =>
  (float[1, 1, batch, 4] y, float[1, batch, 4] h_out, float[1, batch, 4] c_out)
  <float[1, 16, 3] w, float[1, 16, 4] r> {
  y, h_out, c_out = LSTM<hidden_size=4>(x, w, r, , , h_in, c_in)
}"""
AVERAGE = """g (float[4] x, float[4] state) => (float[4] y, float[4] next) {
  sum = Add(x, state)
  next = Tanh(sum)
  y = Sigmoid(sum)
}"""


def model_of(text: str) -> onnx.ModelProto:
    model = parser.parse_model(HEAD + text)
    rng = np.random.default_rng(1)
    for info in model.graph.value_info:
        shape = [dim.dim_value for dim in info.type.tensor_type.shape.dim]
        values = rng.standard_normal(shape).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(values, info.name))
    del model.graph.value_info[:]
    return model


class Caller:
    """onnxruntime and a caller that feeds the last outputs back to the last inputs."""

    def __init__(self, model: onnx.ModelProto, states: dict[str, np.ndarray]) -> None:
        self.session = onnxruntime.InferenceSession(model.SerializeToString())
        self.states = states

    def __call__(self, **inputs: np.ndarray) -> np.ndarray:
        results = self.session.run(None, {**inputs, **self.states})
        self.states = dict(zip(self.states, results[1:]))
        return results[0]


def check(session, caller: Caller, steps: list[dict[str, np.ndarray]]) -> None:
    for inputs in steps:
        y = session(**inputs)
        np.testing.assert_allclose(y, caller(**inputs), 1e-4, 1e-5)
        assert session.states.keys() == caller.states.keys()
        for name, value in session.states.items():
            np.testing.assert_allclose(value, caller.states[name], 1e-4, 1e-5)


def tokens(batch: int, *lengths: int) -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(batch)
    return [{"x": rng.standard_normal((batch, n, 64)).astype(np.float32)} for n in lengths]


def empty(batch: int) -> dict[str, np.ndarray]:
    none = np.zeros((batch, 4, 0, 16), np.float32)
    return {"past_key": none, "past_value": none}


def rows(*numbers: int) -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(3)
    return [
        {"at": np.array([[i]]), "row": rng.standard_normal((1, 3)).astype(np.float32)}
        for i in numbers
    ]


BOUNDS = {"past": (0, 400), "seq": (1, 16), "batch": (1, 4)}


@pytest.fixture(
    scope="module",
    params=[{}, {"dims": BOUNDS}, {"dims": BOUNDS, "executor": "aot"}],
    ids=["open", "bounded graph", "bounded"],
)
def growing(request):
    return tvmrt.load(model_of(GROWING), cache=False, **request.param)


@pytest.mark.parametrize("batch", [1, 3])
def test_caches_that_grow(growing, batch):
    caller = Caller(model_of(GROWING), empty(batch))
    check(growing.session(), caller, tokens(batch, 5, 1, 1, 2, *[1] * 60, 9, 1))


def test_large_caches_and_results(growing):
    """Arrays of 32 KiB are neither copied into the network nor out of it."""
    caller = Caller(model_of(GROWING), empty(4))
    with growing.session() as session:
        assert [each.name for each in session.inputs] == ["x"]
        check(session, caller, tokens(4, *[16] * 20))
        kept = session(*tokens(4, 16)[0].values())
        before = kept.copy()
        session(*tokens(4, 16)[0].values())
        np.testing.assert_array_equal(kept, before)
        assert list(session(tokens(4, 1)[0])) == ["y"]


def test_a_reset_takes_another_batch_or_earlier_states(growing):
    session = growing.session()
    assert session.states == {}
    check(session, Caller(model_of(GROWING), empty(2)), tokens(2, 4, 1))
    saved = session.states
    first = session(**tokens(2, 1)[0])
    session.reset()
    check(session, Caller(model_of(GROWING), empty(3)), tokens(3, 2, 1))
    session.reset(saved)
    for name, value in session.states.items():
        np.testing.assert_array_equal(value, saved[name])
    np.testing.assert_array_equal(session(**tokens(2, 1)[0]), first)
    beams = {name: value[[1, 1]] for name, value in saved.items()}
    session.reset(beams)
    check(session, Caller(model_of(GROWING), beams), tokens(2, 1, 1))


def test_a_failing_call_changes_no_state(growing):
    session = growing.session()
    with pytest.raises(ValueError):
        session(np.zeros((3, 1, 63), np.float32))
    caller = Caller(model_of(GROWING), empty(2))
    check(session, caller, tokens(2, 3))
    with pytest.raises(ValueError):
        session(**tokens(3, 1)[0])  # another batch
    check(session, caller, tokens(2, 1, 1))


@pytest.mark.parametrize("other", ["cache_out", "cache"])
@pytest.mark.parametrize("executor", ["graph", "aot"])
def test_caches_of_fixed_size(other, executor):
    """They stay in one place if nothing else reads them."""
    model = model_of(UPDATED.replace("OTHER", other))
    session = tvmrt.load(model, cache=False, executor=executor).session()
    caller = Caller(model, {"cache": np.zeros((8, 3), np.float32)})
    places = set()
    for i in (1, 2, 7, 2, 0):
        check(session, caller, rows(i))
        places.add(session._network._executor.get_input("cache").data_address)
    assert len(places) in ((1,) if other == "cache_out" else (2, 3))
    session.reset()
    check(session, Caller(model, {"cache": np.zeros((8, 3), np.float32)}), rows(3, 3, 4))


def test_libraries_and_copies_know_the_states(tmp_path):
    model = model_of(UPDATED.replace("OTHER", "cache_out"))
    tvmrt.compile(model, target="native").export_library(tmp_path / "net.so")
    for _ in range(2):
        session = tvmrt.load(tmp_path / "net.so").session()
        check(session, Caller(model, {"cache": np.zeros((8, 3), np.float32)}), rows(1, 2))


def test_states_of_recurrent_layers():
    model = model_of(RECURRENT)
    session = tvmrt.load(model, cache=False).session()
    state = np.zeros((1, 2, 4), np.float32)
    rng = np.random.default_rng(0)
    steps = [{"x": rng.standard_normal((1, 2, 3)).astype(np.float32)} for _ in range(3)]
    check(session, Caller(model, {"h_in": state, "c_in": state}), steps)


def test_sessions_of_several_threads(growing):
    problems = []

    def run(batch: int) -> None:
        try:
            steps = tokens(batch, 3, *[1] * 40)
            check(growing.session(), Caller(model_of(GROWING), empty(batch)), steps)
        except Exception as problem:
            problems.append(problem)

    threads = [threading.Thread(target=run, args=(batch,)) for batch in (1, 2, 3, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems


def test_sizes_that_need_a_variant():
    """The compiler assumes that both windows are equally wide."""
    text = """g (float[1,1,H,W] a, float[1,1,H,V] b, float[n,2] x, float[past,2] past_x) =>
      (float[1,1,h,w] y, float[total,2] present_x) {
      p = AveragePool<kernel_shape=[3,3]>(a) q = MaxPool<kernel_shape=[3,3]>(b) y = Add(p, q)
      t = Tanh(x) present_x = Concat<axis=0>(past_x, t) }"""
    rng = np.random.default_rng(2)
    net = tvmrt.load(model_of(text), cache=False)
    caller = Caller(model_of(text), {"past_x": np.zeros((0, 2), np.float32)})
    sizes = [(6, 6), (6, 3), (5, 5), (9, 3)]
    steps = [
        {
            name: rng.standard_normal(shape).astype(np.float32)
            for name, shape in (("a", (1, 1, 5, w)), ("b", (1, 1, 5, v)), ("x", (2, 2)))
        }
        for w, v in sizes
    ]
    check(net.session(), caller, steps)
    assert net.variants.networks


def test_pairs_that_are_not_certain_are_not_guessed():
    net = tvmrt.load(model_of(AVERAGE), cache=False)
    with pytest.raises(ValueError, match=r"next values of state .*states=.*\{'state': 'next'\}"):
        net.session()
    zeros = np.zeros(4, np.float32)
    steps = [{"x": np.float32([1, 2, 3, -i])} for i in range(4)]
    check(net.session({"state": "next"}), Caller(model_of(AVERAGE), {"state": zeros}), steps)
    echoed = """g (float[1, 3] x, float[1, past, 3] past_x, float[4] cache) =>
      (float[1, total, 3] present_x, float[4] cache_out) {
      axes = Constant<value_ints=[1]>() row = Unsqueeze(x, axes)
      present_x = Concat<axis=1>(past_x, row) cache_out = Identity(cache) }"""
    with pytest.raises(ValueError, match=r"next values of cache .*states="):
        tvmrt.load(model_of(echoed), cache=False).session()
    swapped = model_of(GROWING.replace("Concat<axis=2>(past_value, v)", "Concat<axis=2>(v, k)"))
    with pytest.raises(ValueError, match=r"next values of past_value .*states="):
        tvmrt.load(swapped, cache=False).session()


@pytest.mark.parametrize(
    ("states", "message"),
    [
        ({"past_key": "missing"}, "not a pair of an input and an output; .*present_key"),
        ({"past_key": "y"}, "output y of shape .* cannot be the input past_key"),
        ({"past_key": "present_key", "past_value": "present_key"}, "an output of its own"),
        ({}, "an output of its own"),
    ],
)
def test_pairs_that_do_not_fit(growing, states, message):
    with pytest.raises(ValueError, match=message):
        growing.session(states)


def test_wrong_first_states(growing):
    session = growing.session()
    with pytest.raises(ValueError, match="states: give all of past_key, past_value"):
        session.reset({"past_key": np.zeros((1, 4, 2, 16))})
    session.close()
    with pytest.raises(ValueError, match="closed"):
        session.reset()


def test_half_precision():
    text = GROWING.replace("float[", "float16[")
    session = tvmrt.load(model_of(text), cache=False).session()
    exact = tvmrt.load(model_of(GROWING), cache=False).session()
    for inputs in tokens(2, 3, 1, 1):
        x = inputs["x"].astype(np.float16)
        np.testing.assert_allclose(session(x), exact(x.astype(np.float32)), 1e-2, 1e-2)
    assert {each.dtype for each in session.states.values()} == {np.dtype(np.float16)}


def published(models_dir) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """Return a decoder with its empty caches."""
    model = onnx.load(models_dir / "stories260k_step_f32.onnx")
    names = [each.name for each in model.graph.input[2:]]
    return model, {name: np.zeros((1, 64, 4, 8), np.float32) for name in names}


def test_a_published_decoder(models_dir):
    model, states = published(models_dir)
    steps = [{"tokens": np.array([[7 * i % 500]]), "pos": np.array([i])} for i in range(20)]
    check(tvmrt.load(model).session(), Caller(model, states), steps)


def test_the_example_generates_text(models_dir, tmp_path):
    """At temperature 0, the tokens are those that onnxruntime finds."""
    tokenizers = pytest.importorskip("tokenizers")
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel()
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=512, initial_alphabet=alphabet)
    tokenizer.train_from_iterator([f"once {a}{b}" for a in "rstlne" for b in range(99)], trainer)
    assert tokenizer.get_vocab_size() <= 512
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    model, states = published(models_dir)
    caller, ids = Caller(model, states), tokenizer.encode("once r1").ids
    for i in range(len(ids) + 11):
        logits = caller(tokens=np.array([[ids[i]]]), pos=np.array([i]))
        ids += [int(logits.argmax())] if i + 1 == len(ids) else []
    network = str(models_dir / "stories260k_step_f32.onnx")
    command = [sys.executable, str(ROOT / "examples/text/generate.py"), network]
    more = [str(tmp_path / "tokenizer.json"), "once r1", "--tokens", "12", "--temperature"]
    texts = [
        subprocess.run([*command, *more, t], check=True, capture_output=True, text=True).stdout
        for t in ("0", "0.8", "0.8")
    ]
    assert texts[0].strip("\n") == tokenizer.decode(ids).strip("\n")
    assert texts[1] == texts[2] != texts[0]
