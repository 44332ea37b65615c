"""Make the .tflite files in this folder: small Keras networks with random weights.

``python make_networks.py [--open] [NAME...]`` in an environment with TensorFlow; the tests need the
files alone. With ``--open`` those of the folder ``open``, which leave the batch open. Each network
is converted in float, with dynamic ranges, in int8, and with int16 activations where LiteRT has
kernels for all of it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import tensorflow as tf
from tensorflow.keras import Model, layers
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

FOLDER = Path(__file__).parent
NETWORKS: dict[str, tuple[Callable[[], Model], tuple[str, ...]]] = {}
BATCH: dict[int, int | None] = {1: 1, 2: 2}  # one per network, or None: dynamic
ALL = ("float", "dynamic", "int8", "int16")  # dynamic: layers of 1024 weights or more


def network(*kinds: str) -> Callable[[Callable[[], Model]], Callable[[], Model]]:
    """Decorate a function that builds a network: convert it to these kinds."""

    def add(build: Callable[[], Model]) -> Callable[[], Model]:
        NETWORKS[build.__name__] = (build, kinds)
        return build

    return add


def image(height: int = 12, width: int = 10, channels: int = 3):
    return layers.Input((height, width, channels), batch_size=BATCH[1])


@network(*ALL)
def convolutional() -> Model:
    x = inputs = image()
    x = layers.Conv2D(8, 3, padding="same", activation="relu")(x)
    x = layers.MaxPooling2D(2)(x)
    x = layers.Conv2D(12, 3, strides=2, padding="same", activation="relu6")(x)
    x = layers.AveragePooling2D(2, strides=1, padding="same")(x)
    x = layers.Flatten()(x)
    x = layers.Dense(10)(x)
    return Model(inputs, layers.Softmax()(x))


@network("float", "int8", "int16")
def separable() -> Model:
    x = inputs = image(13, 11, 4)
    x = layers.DepthwiseConv2D(3, strides=2, padding="same", depth_multiplier=2)(x)
    x = layers.BatchNormalization(
        beta_initializer="random_normal", moving_mean_initializer="random_normal"
    )(x)
    x = layers.ReLU(6.0)(x)
    x = layers.SeparableConv2D(12, 3, padding="valid", activation="tanh")(x)
    x = layers.GlobalAveragePooling2D()(x)
    return Model(inputs, layers.Dense(5, activation="sigmoid")(x))


@network("float", "int8", "int16")
def residual() -> Model:
    x = inputs = image(10, 10, 4)
    y = layers.Conv2D(4, 3, padding="same", activation="relu")(x)
    x = layers.Add()([x, layers.Conv2D(4, 3, padding="same")(y)])
    x = layers.ReLU()(x)
    y = layers.ZeroPadding2D(((0, 1), (1, 0)))(x)
    y = layers.Conv2D(6, 3, strides=2)(y)
    z = layers.Conv2D(6, 1, strides=2)(x[:, 1:-1, :-2, :])
    x = layers.Concatenate()([layers.Subtract()([y[:, :4, :4], z]), z])
    return Model(inputs, layers.Maximum()([x, layers.Minimum()([x, y[:, :4, :4, :1]])]))


@network("float", "int8")
def squeeze_excite() -> Model:
    x = inputs = image(9, 9, 3)
    x = layers.Conv2D(8, 3, strides=2, padding="same")(x)
    x = x * layers.ReLU(6.0)(x + 3.0) * (1 / 6)
    s = layers.GlobalAveragePooling2D(keepdims=True)(x)
    s = layers.Conv2D(4, 1, activation="relu")(s)
    s = layers.Conv2D(8, 1, activation="sigmoid")(s)
    x = layers.Multiply()([x, s])
    return Model(inputs, layers.Conv2D(4, 1)(x))


@network("float", "int8")
def upsampling() -> Model:
    x = inputs = image(5, 6, 3)
    x = layers.Conv2DTranspose(6, 3, strides=2, padding="same", activation="relu")(x)
    x = layers.UpSampling2D(2, interpolation="nearest")(x)
    x = layers.Conv2D(4, 3, padding="same", dilation_rate=2)(x)
    return Model(inputs, layers.UpSampling2D(2, interpolation="bilinear")(x))


@network("float", "int8")
def activations() -> Model:
    x = inputs = layers.Input((16,), batch_size=BATCH[2])
    found = [
        layers.Dense(6, activation=name)(x)
        for name in ("elu", "gelu", "hard_sigmoid", "silu", "softplus", "exponential", "tanh")
    ]
    found.append(layers.LeakyReLU(0.2)(layers.Dense(6)(x)))
    found.append(layers.PReLU(alpha_initializer="random_uniform")(layers.Dense(6)(x)))
    x = layers.Concatenate()(found)
    return Model(inputs, layers.Dense(7)(x))


@network("float", "int8")
def one_dimension() -> Model:
    x = inputs = layers.Input((24, 3), batch_size=BATCH[1])
    x = layers.Conv1D(8, 5, padding="causal", dilation_rate=2, activation="relu")(x)
    x = layers.MaxPooling1D(2)(x)
    x = layers.SeparableConv1D(6, 3, padding="same")(x)
    x = layers.LayerNormalization()(x)
    return Model(inputs, layers.Dense(4)(layers.GlobalMaxPooling1D()(x)))


@network("float", "int8")
def recurrent() -> Model:
    x = inputs = layers.Input((4, 5), batch_size=BATCH[1])
    x = layers.LSTM(6, return_sequences=True, unroll=True)(x)
    x = layers.LSTM(5, unroll=True)(x)
    return Model(inputs, layers.Dense(4)(x))


@network("float", "int8")
def gated() -> Model:
    x = inputs = layers.Input((4, 5), batch_size=BATCH[1])
    x = layers.GRU(6, unroll=True, return_sequences=True)(x)
    x = layers.SimpleRNN(5, unroll=True)(x)
    return Model(inputs, layers.Dense(3)(x))


@network("float", "int8")
def attention() -> Model:
    x = inputs = layers.Input((8, 12), batch_size=BATCH[1])
    y = layers.MultiHeadAttention(2, 6)(x, x)
    x = layers.LayerNormalization()(layers.Add()([x, y]))
    y = layers.Dense(20, activation="gelu")(x)
    x = layers.LayerNormalization()(layers.Add()([x, layers.Dense(12)(y)]))
    return Model(inputs, layers.Dense(3, activation="softmax")(x[:, 0]))


@network("float", "dynamic")
def text() -> Model:
    x = inputs = layers.Input((9,), batch_size=BATCH[1], dtype="int32")
    x = layers.Embedding(64, 16)(x)
    x = layers.Conv1D(24, 3, activation="relu")(x)
    x = layers.GlobalAveragePooling1D()(x)
    return Model(inputs, layers.Dense(4, activation="softmax")(x))


@network(*ALL)
def gated_units() -> Model:
    x = inputs = image(7, 8, 3)
    x = layers.Conv2D(12, 3, padding="same", activation="swish")(x)
    x = layers.Conv2D(12, 3, padding="same", activation="tanh")(x)
    x = layers.Conv2DTranspose(6, 2, strides=2, padding="same")(x)
    return Model(inputs, tf.keras.ops.mean(layers.LeakyReLU(0.1)(x), axis=(1, 2)))


@network("float")
def looping() -> Model:
    x = inputs = layers.Input((5, 4), batch_size=BATCH[1])
    return Model(inputs, layers.Dense(2)(layers.GRU(3)(x)))


def convert(model: Model, kind: str) -> bytes:
    """Return the network as a file of that kind."""
    concrete = tf.function(lambda x: model(x, training=False)).get_concrete_function(
        tf.TensorSpec(model.inputs[0].shape, model.inputs[0].dtype)
    )
    # weights as constants: the converter supports resource variables in float only
    converter = tf.lite.TFLiteConverter.from_concrete_functions(
        [convert_variables_to_constants_v2(concrete)]
    )
    if kind == "float":
        return converter.convert()
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if kind == "dynamic":
        return converter.convert()
    rng = np.random.default_rng(7)
    shape = (model.inputs[0].shape[0] or 1, *model.inputs[0].shape[1:])

    def samples():
        for _ in range(24):
            yield [rng.standard_normal(shape).astype(np.float32)]

    converter.representative_dataset = samples
    ops = tf.lite.OpsSet
    both = ops.EXPERIMENTAL_TFLITE_BUILTINS_ACTIVATIONS_INT16_WEIGHTS_INT8
    converter.target_spec.supported_ops = [ops.TFLITE_BUILTINS_INT8 if kind == "int8" else both]
    whole = tf.int8 if kind == "int8" else tf.int16
    converter.inference_input_type = converter.inference_output_type = whole
    return converter.convert()


def main(names: list[str]) -> None:
    folder = FOLDER
    if names[:1] == ["--open"]:
        names, folder = names[1:], FOLDER / "open"
        BATCH.update(dict.fromkeys(BATCH))
    for name, (build, kinds) in NETWORKS.items():
        if names and name not in names:
            continue
        tf.keras.utils.set_random_seed(3)
        model = build()
        for kind in kinds:
            path = folder / f"{name}_{kind}.tflite"
            try:
                path.write_bytes(convert(model, kind))
                print(path.name, path.stat().st_size)
            except Exception as problem:
                print(path.name, "failed:", str(problem).splitlines()[0][:200])


if __name__ == "__main__":
    main(sys.argv[1:])
