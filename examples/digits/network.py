"""The layers of the digits network in numpy: forward, backward, and an Adam step.

Arrays are float32 in ONNX order: images ``[N, C, H, W]``, convolution weights ``[OC, IC, KH, KW]``
(``[C, 1, KH, KW]`` where each channel is filtered alone). Nothing here knows of ONNX or of files.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view


def windows(x: np.ndarray, kernel: int, stride: int, pad: int) -> np.ndarray:
    """Return every window that a square kernel sees, as a view ``[N, C, OH, OW, KH, KW]``."""
    padded = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    return sliding_window_view(padded, (kernel, kernel), axis=(2, 3))[:, :, ::stride, ::stride]


def scatter_windows(dwin: np.ndarray, shape: tuple[int, ...], stride: int, pad: int) -> np.ndarray:
    """Sum gradients of windows back into an image gradient of ``shape``; undoes ``windows``."""
    n, c, h, w = shape
    _, _, oh, ow, kh, kw = dwin.shape
    dx = np.zeros((n, c, h + 2 * pad, w + 2 * pad), np.float32)
    for i in range(kh):
        for j in range(kw):
            dx[:, :, i : i + stride * oh : stride, j : j + stride * ow : stride] += dwin[..., i, j]
    return dx[:, :, pad : pad + h, pad : pad + w]


@dataclass
class Layer:
    """One named step. ``params`` are trained; ``grads`` holds their gradients after backward."""

    name: str
    params: dict[str, np.ndarray] = field(default_factory=dict)
    grads: dict[str, np.ndarray] = field(default_factory=dict)

    def forward(self, x: np.ndarray) -> np.ndarray:
        """Return what the layer makes of a batch."""
        raise NotImplementedError

    def backward(self, dy: np.ndarray) -> np.ndarray:
        """Return the gradient of the input, from that of the output."""
        raise NotImplementedError


@dataclass
class Conv(Layer):
    """Convolution with bias; ``depthwise`` filters each channel alone."""

    stride: int = 1
    pad: int = 0
    depthwise: bool = False

    def forward(self, x: np.ndarray) -> np.ndarray:
        """Return ``[N, OC, OH, OW]``."""
        w = self.params["weight"]
        self.x_shape = x.shape
        self.win = windows(x, w.shape[2], self.stride, self.pad)
        if self.depthwise:
            y: np.ndarray = np.einsum("nchwij,cij->nchw", self.win, w[:, 0])
        else:
            y = np.tensordot(self.win, w, axes=([1, 4, 5], [1, 2, 3])).transpose(0, 3, 1, 2)
        return y + self.params["bias"][:, None, None]

    def backward(self, dy: np.ndarray) -> np.ndarray:
        """Return the gradient of the input."""
        w = self.params["weight"]
        self.grads["bias"] = dy.sum(axis=(0, 2, 3))
        if self.depthwise:
            self.grads["weight"] = np.einsum("nchw,nchwij->cij", dy, self.win)[:, None]
            dwin = dy[..., None, None] * w[:, 0, None, None]
        else:
            self.grads["weight"] = np.tensordot(dy, self.win, axes=([0, 2, 3], [0, 2, 3]))
            dwin = np.tensordot(dy, w, axes=(1, 0)).transpose(0, 3, 1, 2, 4, 5)
        return scatter_windows(dwin, self.x_shape, self.stride, self.pad)


@dataclass
class Relu(Layer):
    """Rectifier."""

    def forward(self, x: np.ndarray) -> np.ndarray:
        """Return ``max(x, 0)``."""
        self.positive = x > 0
        return x * self.positive

    def backward(self, dy: np.ndarray) -> np.ndarray:
        """Pass the gradient where the input was positive."""
        return dy * self.positive


@dataclass
class MaxPool(Layer):
    """2 x 2 maximum with stride 2; height and width are even."""

    def forward(self, x: np.ndarray) -> np.ndarray:
        """Return ``[N, C, H / 2, W / 2]``."""
        n, c, h, w = x.shape
        blocks = x.reshape(n, c, h // 2, 2, w // 2, 2)
        y = blocks.max(axis=(3, 5), keepdims=True)
        self.winner = blocks == y
        return y[:, :, :, 0, :, 0]

    def backward(self, dy: np.ndarray) -> np.ndarray:
        """Give the gradient to every element that reached the maximum."""
        blocks = self.winner * dy[:, :, :, None, :, None]
        n, c, h, _, w, _ = blocks.shape
        return blocks.reshape(n, c, 2 * h, 2 * w)


@dataclass
class Dense(Layer):
    """Matrix product with bias over the flattened input; ``weight`` is ``[OUT, IN]``."""

    def forward(self, x: np.ndarray) -> np.ndarray:
        """Return ``[N, OUT]``."""
        self.x_shape = x.shape
        self.flat = x.reshape(len(x), -1)
        return self.flat @ self.params["weight"].T + self.params["bias"]

    def backward(self, dy: np.ndarray) -> np.ndarray:
        """Return the gradient of the input in its own shape."""
        self.grads["weight"] = dy.T @ self.flat
        self.grads["bias"] = dy.sum(axis=0)
        return (dy @ self.params["weight"]).reshape(self.x_shape)


def _parameters(rng: np.random.Generator, shape: tuple[int, ...]) -> dict[str, np.ndarray]:
    fan_in = int(np.prod(shape[1:]))
    weight = rng.normal(0.0, np.sqrt(2.0 / fan_in), shape).astype(np.float32)
    return {"weight": weight, "bias": np.zeros(shape[0], np.float32)}


def build(rng: np.random.Generator) -> list[Layer]:
    """Return the untrained network: 1 x 8 x 8 pixels in, 10 scores out."""
    return [
        Conv("conv1", _parameters(rng, (8, 1, 3, 3)), pad=1),
        Relu("relu1"),
        Conv("conv2", _parameters(rng, (16, 8, 3, 3)), stride=2, pad=1),
        Relu("relu2"),
        Conv("depthwise", _parameters(rng, (16, 1, 3, 3)), pad=1, depthwise=True),
        Relu("relu3"),
        Conv("pointwise", _parameters(rng, (32, 16, 1, 1))),
        Relu("relu4"),
        MaxPool("pool"),
        Dense("dense", _parameters(rng, (10, 32 * 2 * 2))),
    ]


def forward(layers: list[Layer], x: np.ndarray) -> np.ndarray:
    """Return the scores ``[N, 10]`` of images ``[N, 1, 8, 8]``."""
    for layer in layers:
        x = layer.forward(x)
    return x


def activations(layers: list[Layer], x: np.ndarray) -> dict[str, np.ndarray]:
    """Return what every layer gives for ``x``, by layer name."""
    values = {}
    for layer in layers:
        x = layer.forward(x)
        values[layer.name] = x
    return values


def accuracy(layers: list[Layer], x: np.ndarray, labels: np.ndarray) -> float:
    """Return the share of images whose best score is the label."""
    return float(np.mean(forward(layers, x).argmax(axis=1) == labels))


class Adam:
    """The Adam optimiser over all parameters of a list of layers."""

    def __init__(self, layers: list[Layer]):
        self.layers = layers
        self.step_count = 0
        self.mean: dict[tuple[str, str], np.ndarray] = {}
        self.square: dict[tuple[str, str], np.ndarray] = {}

    def step(self, rate: float, beta1: float = 0.9, beta2: float = 0.999) -> None:
        """Move every parameter against its gradient by about ``rate``."""
        self.step_count += 1
        for layer in self.layers:
            for key, grad in layer.grads.items():
                at = (layer.name, key)
                self.mean[at] = beta1 * self.mean.get(at, 0.0) + (1 - beta1) * grad
                self.square[at] = beta2 * self.square.get(at, 0.0) + (1 - beta2) * grad**2
                mean = self.mean[at] / (1 - beta1**self.step_count)
                square = self.square[at] / (1 - beta2**self.step_count)
                update = rate * mean / (np.sqrt(square) + 1e-8)
                layer.params[key] = (layer.params[key] - update).astype(np.float32)


def shift_randomly(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Move a third of the images by up to one pixel each way; zeros come in at the edge."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    moved = x.copy()
    h, w = x.shape[2:]
    for image in np.flatnonzero(rng.random(len(x)) < 1 / 3):
        dy, dx = rng.integers(0, 3, 2)
        moved[image] = padded[image, :, dy : dy + h, dx : dx + w]
    return moved


def train(
    layers: list[Layer],
    x: np.ndarray,
    labels: np.ndarray,
    rng: np.random.Generator,
    epochs: int = 60,
    batch: int = 32,
    rate: float = 4e-3,
) -> None:
    """Train in place by Adam on softmax cross-entropy; the rate falls to zero along a cosine."""
    optimiser = Adam(layers)
    total = epochs * (len(x) // batch)
    for _ in range(epochs):
        order = rng.permutation(len(x))
        for start in range(0, len(x) - batch + 1, batch):
            chosen = order[start : start + batch]
            scores = forward(layers, shift_randomly(x[chosen], rng))
            shifted = np.exp(scores - scores.max(axis=1, keepdims=True))
            gradient = shifted / shifted.sum(axis=1, keepdims=True)
            gradient[np.arange(batch), labels[chosen]] -= 1.0
            gradient /= batch
            for layer in reversed(layers):
                gradient = layer.backward(gradient)
            optimiser.step(rate * 0.5 * (1 + np.cos(np.pi * optimiser.step_count / total)))
