"""Train a small Keras network on handwritten digits and convert it: ``digits_int8.tflite``.

    python examples/keras/digits.py [FOLDER]

Takes half a minute. Needs tensorflow, onnx and scikit-learn, which brings the images; the test
images are those of ``examples/digits``.
"""

from __future__ import annotations

import sys
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from keras import layers

sys.path.insert(0, str(Path(__file__).parents[1] / "digits"))
from train import PIXEL_MAX, split_digits


def network() -> keras.Model:
    """Images float32 ``[1, 8, 8, 1]``, 0 to 1, to probabilities float32 ``[1, 10]``."""
    return keras.Sequential(
        [
            layers.Input((8, 8, 1)),
            layers.Conv2D(16, 3, padding="same", activation="relu"),
            layers.DepthwiseConv2D(3, padding="same", activation="relu"),
            layers.Conv2D(32, 1, activation="relu"),
            layers.MaxPooling2D(2),
            layers.Conv2D(32, 3, activation="relu"),
            layers.Flatten(),
            layers.Dense(10, activation="softmax"),
        ]
    )


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent)
    keras.utils.set_random_seed(3)
    images, labels, test_images, test_labels = split_digits()
    images, test_images = (
        (part[..., None] / PIXEL_MAX).astype(np.float32) for part in (images, test_images)
    )
    model = network()
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    model.fit(images, labels, epochs=30, batch_size=32, verbose=0)
    _, right = model.evaluate(test_images, test_labels, verbose=0)
    print(f"{right:.1%} of the test images are right in float")

    converter = tf.lite.TFLiteConverter.from_keras_model(model)
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converter.representative_dataset = lambda: ([image[None]] for image in images[:200])
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
    converter.inference_input_type = converter.inference_output_type = tf.int8
    (folder / "digits_int8.tflite").write_bytes(converter.convert())


if __name__ == "__main__":
    main()
