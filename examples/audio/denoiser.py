"""Write a small network that removes steady noise from sound, block by block.

    python examples/audio/denoiser.py denoise.onnx

It takes the newest 512 samples and the noise spectrum that it returned for the block before, and
returns 512 samples to overlap and add, and the new noise spectrum. The weights are the matrices of
a discrete Fourier transform, so nothing is trained: magnitudes that are not well above the noise
are attenuated.
"""

from __future__ import annotations

import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

WINDOW, BINS = 512, 257
RISE = 1.02  # of the noise from block to block, until a smaller magnitude is seen
OVERESTIMATE = 12.0  # the smallest magnitudes are seen, the mean is several times as large
LEAST_GAIN = 0.05


def constants() -> dict[str, np.ndarray]:
    """Return the network's weights: sine windows, transforms, numbers."""
    n, k = np.arange(WINDOW), np.arange(BINS)
    angles = 2 * np.pi * np.outer(n, k) / WINDOW
    weight = np.where((k == 0) | (k == BINS - 1), 1.0, 2.0)[:, None] / WINDOW  # mirrored bins
    found = {
        "taper": np.sin(np.pi * (n + 0.5) / WINDOW)[None],  # overlapping halves add to 1
        "to_real": np.cos(angles),
        "to_imaginary": -np.sin(angles),
        "from_real": weight * np.cos(angles.T),
        "from_imaginary": weight * -np.sin(angles.T),
        "rise": np.array(RISE),
        "over": np.array(OVERESTIMATE),
        "one": np.array(1.0),
        "least": np.array(LEAST_GAIN),
        "tiny": np.array(1e-12),
    }
    return {name: array.astype(np.float32) for name, array in found.items()}


NODES = """
tapered = Mul(window, taper)
real = MatMul(tapered, to_real)
imaginary = MatMul(tapered, to_imaginary)
real2 = Mul(real, real)
imaginary2 = Mul(imaginary, imaginary)
power = Add(real2, imaginary2)
positive = Add(power, tiny)
magnitude = Sqrt(positive)
risen = Mul(noise, rise)
new_noise = Min(magnitude, risen)
expected = Mul(new_noise, over)
share = Div(expected, magnitude)
left = Sub(one, share)
gain = Max(left, least)
real_out = Mul(real, gain)
imaginary_out = Mul(imaginary, gain)
a = MatMul(real_out, from_real)
b = MatMul(imaginary_out, from_imaginary)
sound = Add(a, b)
samples = Mul(sound, taper)
"""


def denoiser() -> onnx.ModelProto:
    """Return the network: (window [1, 512], noise [1, 257]) to (samples, new_noise)."""
    nodes = []
    for line in NODES.strip().splitlines():
        result, _, call = line.partition(" = ")
        operator, _, operands = call.rstrip(")").partition("(")
        nodes.append(helper.make_node(operator, operands.split(", "), [result], result))

    def tensor(name: str, extent: int) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, extent))

    graph = helper.make_graph(
        nodes,
        "denoise",
        [tensor("window", WINDOW), tensor("noise", BINS)],
        [tensor("samples", WINDOW), tensor("new_noise", BINS)],
        [numpy_helper.from_array(array, name) for name, array in constants().items()],
    )
    opset = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opset, ir_version=8)


if __name__ == "__main__":
    onnx.save(denoiser(), sys.argv[1] if len(sys.argv) > 1 else "denoise.onnx")
