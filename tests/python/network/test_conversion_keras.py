"""Models of Keras and TensorFlow: converted so that they compute the same results, or refused."""

from __future__ import annotations

import numpy as np
import pytest

import tvmrt

pytestmark = pytest.mark.slow
rng = np.random.default_rng(6)


@pytest.fixture(scope="module")
def keras():
    """Return Keras. It is not imported for the collection of tests, since it takes seconds."""
    pytest.importorskip("tensorflow")
    pytest.importorskip("tf2onnx")
    return pytest.importorskip("keras")


def test_models_of_several_inputs_and_of_integers(keras):
    layers = keras.layers
    a, ids = layers.Input((4,), name="values"), layers.Input((3,), dtype="int32", name="ids")
    joined = layers.Concatenate()([a, layers.Flatten()(layers.Embedding(20, 2)(ids))])
    outputs = [layers.Dense(2)(joined), layers.Dense(3)(a)]
    x, y = rng.standard_normal((3, 4)).astype(np.float32), rng.integers(0, 20, (3, 3), np.int32)
    for inputs, given in (([ids, a], [y, x]), ({"values": a, "ids": ids}, {"values": x, "ids": y})):
        model = keras.Model(inputs, outputs)
        for example in (None, given):
            net = tvmrt.load(model, example=example, cache=False)
            for found, right in zip(net(ids=y, values=x), model(given)):
                np.testing.assert_allclose(found, np.asarray(right), 1e-4, 1e-5)


def _deciding(keras, kind):
    class ByBatch(keras.Model):
        def call(self, x):
            return x if x.shape[0] is None else x * x.shape[0]

    class Calls(keras.Model):
        calls = 0

        def call(self, x):
            self.calls += 1
            return x * self.calls

    class Eager(keras.Model):
        def call(self, x):
            try:
                return x + float(np.asarray(x).max())
            except (TypeError, NotImplementedError):  # in the graph of the exporter
                return x + 1.0

    return {"ByBatch": ByBatch, "Calls": Calls, "Eager": Eager}[kind]()


@pytest.mark.parametrize("kind", ["ByBatch", "Calls", "Eager"])
def test_models_that_decide_in_python_are_refused(keras, kind):
    for call in (tvmrt.load, tvmrt.compile):
        with pytest.raises(ValueError, match=f"a {kind} (has|gives) other results"):
            call(_deciding(keras, kind), example=np.ones((2, 3), np.float32))


def test_files_with_lambda_layers_need_trust(keras, tmp_path):
    layers = keras.layers
    given = layers.Input((4,))
    model = keras.Model(given, layers.Lambda(lambda x: x * 3)(given))
    plain = keras.Model(given, layers.Dense(2)(given))
    model.save(tmp_path / "net.keras")
    model.save(tmp_path / "net.h5")
    plain.save(tmp_path / "plain.keras")
    x = rng.standard_normal((2, 4)).astype(np.float32)
    found = tvmrt.load(tmp_path / "plain.keras", cache=False)(x)
    np.testing.assert_allclose(found, np.asarray(plain(x)), 1e-4, 1e-5)
    with pytest.raises(ValueError, match=r"Lambda.*can run any code, give trusted=True"):
        tvmrt.load(tmp_path / "net.keras")
    with pytest.raises(ValueError, match="give trusted=True"):
        tvmrt.load(tmp_path / "net.h5")
    for name in ("net.keras", "net.h5"):
        np.testing.assert_allclose(tvmrt.load(tmp_path / name, trusted=True)(x), 3 * x, 1e-6)


def test_saved_models_are_compared(keras, tmp_path):
    import tensorflow

    class Pair(tensorflow.Module):
        @tensorflow.function(
            input_signature=[
                tensorflow.TensorSpec([None, 3], tensorflow.float32, name="b"),
                tensorflow.TensorSpec([None, 3], tensorflow.float32, name="a"),
            ]
        )
        def __call__(self, b, a):
            return {"z": a - 2 * b, "c": tensorflow.concat([a, b], 1)}

    module, folder = Pair(), str(tmp_path / "saved")
    tensorflow.saved_model.save(module, folder, signatures=module.__call__)
    with pytest.raises(ValueError, match=r"SavedModel, which can run .* give trusted=True"):
        tvmrt.load(folder)
    a, b = rng.standard_normal((2, 1, 3)).astype(np.float32)
    example = {"a": a, "b": b}
    for options in ({}, {"example": example}):
        found = tvmrt.load(folder, trusted=True, cache=False, **options)(example)
        np.testing.assert_allclose(found["z"], a - 2 * b, 1e-5)
        np.testing.assert_allclose(found["c"], np.concatenate([a, b], 1), 1e-5)
    with pytest.raises(ValueError, match=r"the model has the inputs \w, \w; give each of them"):
        tvmrt.load(folder, trusted=True, example={"a": a})
