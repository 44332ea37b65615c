"""Train small networks for tasks that are drawn: ``python tests/bench/trained_networks.py FOLDER
[NAME...]`` writes ``NAME.onnx`` and ``NAME.npz``.

The networks are those of MLPerf Tiny. Its data sets are in no package; drawn ones have labels, too:

| name | network | task |
|---|---|---|
| kws | DS-CNN | ten words of four synthesised sounds, other words, noise |
| ic | ResNet-8 | five shapes, plain or striped |
| vww | MobileNetV1 0.25 | whether some strokes are a person |

``NAME.npz`` has the samples ``x`` and ``label`` that training did not see. Needs torch and
onnxscript, and at most two minutes of one processor for each network.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from torch import nn

Samples = tuple[np.ndarray, np.ndarray]  # inputs of networks, labels
HELD_OUT = 2400  # samples that a network is not trained with
BATCH = 50

RATE, MEL, COEFFICIENTS = 8000, 40, 10  # samples per second; features of a spectrum
# first and second formant in Hz, share of voice, level
SOUNDS = {
    "a": (730, 1090, 1, 1), "e": (530, 1840, 1, 0.9), "i": (270, 2290, 1, 0.7),
    "o": (570, 840, 1, 0.9), "u": (300, 870, 1, 0.7), "m": (250, 1100, 1, 0.4),
    "s": (2800, 3400, 0, 0.5), "x": (1900, 2400, 0, 0.6), "f": (1100, 1500, 0, 0.3),
}  # fmt: skip
WORDS = "sami semi xami mosa misa soxu suxo mexi mixe fasu".split()


def _uniform(rng: np.random.Generator, low: float, high: float, *shape: int) -> np.ndarray:
    return rng.uniform(low, high, shape).astype(np.float32)


def _mfcc(sound: np.ndarray) -> np.ndarray:
    """Return 49 rows of mel frequency cepstral coefficients for each second of sound."""
    edges = 700 * (np.exp(np.linspace(0.03, np.log1p(RATE / 2 / 700), MEL + 2)) - 1)
    bins = np.fft.rfftfreq(256, 1 / RATE)[:, None]
    rising = (bins - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - bins) / (edges[2:] - edges[1:-1])
    filters = np.clip(np.minimum(rising, falling), 0, None)
    angles = np.pi / MEL * (np.arange(MEL) + 0.5)[:, None] * np.arange(COEFFICIENTS)
    frames = np.lib.stride_tricks.sliding_window_view(sound, 240, axis=1)[:, ::160]
    power = np.abs(np.fft.rfft(frames * np.hanning(240), 256)) ** 2
    return np.log(power @ filters + 1e-2) @ (np.cos(angles) * np.sqrt(2 / MEL))


def words(count: int, rng: np.random.Generator) -> Samples:
    """Synthesise sounds of one second: words by voices of any pitch and size, with noise."""
    labels = rng.integers(0, len(WORDS) + 2, count)
    table = np.array(list(SOUNDS.values()), np.float32)
    order = np.array([[list(SOUNDS).index(sound) for sound in word] for word in WORDS])
    others = np.stack([rng.integers(low, high, count) for low, high in ((5, 9), (0, 5)) * 2], 1)
    spoken = np.where((labels < len(WORDS))[:, None], order[labels % len(WORDS)], others)
    duration = _uniform(rng, 0.4, 0.8, count, 1)
    start = rng.uniform(-0.05, 1.05 - duration).astype(np.float32)
    at = 4 * (np.arange(RATE, dtype=np.float32) / RATE - start) / duration
    middle = np.clip(at - 0.5, 0, 2.999)
    first = middle.astype(int)
    part = np.clip((middle - first - 0.25) * 2, 0, 1)[..., None]
    sounds = np.arange(count)[:, None]
    track = table[spoken[sounds, first]] * (1 - part) + table[spoken[sounds, first + 1]] * part
    size = _uniform(rng, 0.8, 1.25, count, 1)
    walk = np.cumsum(rng.standard_normal(at.shape, np.float32) * 0.6, 1)
    phase = [np.cumsum(2 * np.pi / RATE * track[..., i] * size, 1) for i in (0, 1)]
    pitch = _uniform(rng, 80, 250, count, 1) * (1 + _uniform(rng, -0.05, 0.05, count, 1) * at)
    pulse = (0.5 + 0.5 * np.cos(np.cumsum(2 * np.pi / RATE * pitch, 1))) ** 4
    voice = 2 * pulse * (np.sin(phase[0]) + 0.6 * np.sin(phase[1]))
    hiss = np.sin(phase[0] + walk) + np.sin(phase[1] - walk)
    level = track[..., 3] * np.clip(5 * np.minimum(at, 4 - at), 0, 1)
    level *= (labels <= len(WORDS))[:, None] * _uniform(rng, 0.4, 1, count, 1)
    noise = rng.standard_normal(at.shape, np.float32) * _uniform(rng, 0.05, 0.6, count, 1)
    sound = level * (voice * track[..., 2] + hiss * (1 - track[..., 2])) + noise
    return _mfcc(sound)[:, None].astype(np.float32), labels


def _canvas(count: int, size: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Return pictures of two colours that waves mix, and the coordinates of their elements."""
    y, x = np.meshgrid(*[np.linspace(-1, 1, size, dtype=np.float32)] * 2, indexing="ij")
    turns = [_uniform(rng, -4, 4, count, 1, 1) for _ in range(6)]
    waves = np.sin(turns[0] * x + turns[1] * y + turns[2])
    waves = waves + np.sin(turns[3] * x + 3 * turns[4] * y + turns[5])
    one, other = (_uniform(rng, 0, 0.6, count, 3, 1, 1) for _ in range(2))
    return [one + (other - one) * (0.5 + 0.25 * waves)[:, None], x, y]


def _paint(pictures: np.ndarray, inside: np.ndarray, colours: np.ndarray) -> None:
    """Mix colours into pictures; ``inside`` is the distance to the edge in elements, from 0 on
    inside."""
    pictures += np.clip(inside + 0.5, 0, 1)[:, None] * (colours - pictures)


def _stroke(x: np.ndarray, y: np.ndarray, ends: np.ndarray, radius: np.ndarray) -> np.ndarray:
    """Return how far each element is inside a line with round ends."""
    x0, y0, x1, y1 = ends.astype(np.float32).T[..., None, None]
    along = ((x - x0) * (x1 - x0) + (y - y0) * (y1 - y0)) / ((x1 - x0) ** 2 + (y1 - y0) ** 2 + 1e-6)
    along = np.clip(along, 0, 1)
    away = np.sqrt((x - x0 - along * (x1 - x0)) ** 2 + (y - y0 - along * (y1 - y0)) ** 2)
    return (radius.astype(np.float32)[:, None, None] - away) * x.shape[-1] / 2


def _finish(pictures: np.ndarray, noise: float, rng: np.random.Generator) -> np.ndarray:
    sigma = _uniform(rng, 0.02, noise, len(pictures), 1, 1, 1)
    return np.clip(pictures + sigma * rng.standard_normal(pictures.shape, np.float32), 0, 1)


def shapes(count: int, rng: np.random.Generator) -> Samples:
    """Draw discs, rings, squares, triangles and crosses, plain or striped, partly covered."""
    labels = rng.integers(0, 10, count)
    pictures, x, y = _canvas(count, 32, rng)
    size, angle = _uniform(rng, 0.4, 0.7, count, 1, 1), _uniform(rng, -0.5, 0.5, count, 1, 1)
    x0, y0 = (axis - _uniform(rng, -0.4, 0.4, count, 1, 1) for axis in (x, y))
    a = (np.cos(angle) * x0 + np.sin(angle) * y0) / size
    b = (np.cos(angle) * y0 - np.sin(angle) * x0) / size
    radius, wide, narrow = np.hypot(a, b), np.maximum(abs(a), abs(b)), np.minimum(abs(a), abs(b))
    inside = np.stack([
        1 - radius, 0.25 - abs(radius - 0.75), 0.85 - wide,
        np.minimum(0.55 + b, 0.5 - 0.5 * b - 0.87 * abs(a)), np.minimum(1 - wide, 0.3 - narrow),
    ])[labels // 2, np.arange(count)]  # fmt: skip
    stripes = (
        np.sin(a * _uniform(rng, 6, 9, count, 1, 1) + _uniform(rng, 0, 6.3, count, 1, 1)) > 0.4
    )
    one, other = (_uniform(rng, 0.3 * i, 0.5 + 0.5 * i, count, 3, 1, 1) for i in (1, 0))
    striped = (stripes & (labels % 2 == 1)[:, None, None])[:, None]
    _paint(pictures, inside * size * 16, np.where(striped, other, one))
    for _ in range(2):
        ends = rng.uniform(-1, 1, (count, 4))
        cover = _stroke(x, y, ends, _uniform(rng, 0.02, 0.1, count))
        _paint(pictures, cover, _uniform(rng, 0, 1, count, 3, 1, 1))
    return _finish(pictures, 0.1, rng), labels


# a person of height 2: ends and radius of the head, the body, two arms and two legs
PERSON = np.array([
    (0, -0.8, 0, -0.75, 0.2), (0, -0.35, 0, 0.1, 0.22), (-0.2, -0.4, -0.5, 0.1, 0.08),
    (0.2, -0.4, 0.5, 0.1, 0.08), (-0.13, 0.2, -0.25, 1, 0.1), (0.13, 0.2, 0.25, 1, 0.1),
])  # fmt: skip


def people(count: int, rng: np.random.Generator) -> Samples:
    """Draw twelve strokes: half of them are a person, or all are scattered."""
    labels = rng.integers(0, 2, count)
    pictures, x, y = _canvas(count, 96, rng)
    size, place = rng.uniform(0.5, 0.8, (count, 1)), rng.uniform(-0.3, 0.3, (count, 2))
    colours = [_uniform(rng, 0.3, 1, count, 3, 1, 1) for _ in range(3)]
    for number in range(2 * len(PERSON)):  # scattered ones first
        *ends, radius = PERSON[number % len(PERSON)]
        ends = np.array(ends) + rng.normal(0, 0.06, (count, 4))
        scattered = ends[:, rng.permutation(4)] + np.tile(rng.uniform(-1, 1, (count, 2)), 2)
        person = (labels == 1)[:, None] & (number >= len(PERSON))
        ends = np.where(person, ends, scattered) * size + np.tile(place, 2)
        clutter = _uniform(rng, 0, 1, count, 3, 1, 1)
        colour = clutter if number < len(PERSON) else colours[(0, 1, 1, 1, 2, 2)[number % 6]]
        _paint(pictures, _stroke(x, y, ends, radius * size[:, 0]), colour)
    return _finish(pictures, 0.1, rng), labels


def _layer(inputs: int, outputs: int, kernel: Any, *, relu: bool = True, **options: Any) -> Any:
    """Return a convolution without bias and a batch normalisation."""
    parts = [nn.Conv2d(inputs, outputs, kernel, bias=False, **options), nn.BatchNorm2d(outputs)]
    return nn.Sequential(*parts, *[nn.ReLU()] * relu)


def _separable(inputs: int, outputs: int, stride: int = 1) -> Any:
    depthwise = _layer(inputs, inputs, 3, stride=stride, padding=1, groups=inputs)
    return nn.Sequential(depthwise, _layer(inputs, outputs, 1))


def _classifier(inputs: int, classes: int) -> list[Any]:
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes)]


class _Residual(nn.Module):
    """Two convolutions, whose result is added to their input."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.branch = nn.Sequential(
            _layer(inputs, outputs, 3, stride=stride, padding=1),
            _layer(outputs, outputs, 3, padding=1, relu=False),
        )
        same = stride == 1
        self.shortcut = nn.Identity() if same else nn.Conv2d(inputs, outputs, 1, stride=stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.branch(x) + self.shortcut(x))


def ds_cnn() -> Any:
    """Return the network of MLPerf Tiny's keyword spotting."""
    first = _layer(1, 64, (10, 4), stride=2, padding=(5, 1))
    return nn.Sequential(first, *[_separable(64, 64) for _ in range(4)], *_classifier(64, 12))


def resnet8() -> Any:
    """Return the network of MLPerf Tiny's image classification."""
    blocks = [_Residual(16, 16, 1), _Residual(16, 32, 2), _Residual(32, 64, 2)]
    return nn.Sequential(_layer(3, 16, 3, padding=1), *blocks, *_classifier(64, 10))


def mobilenet_v1() -> Any:
    """Return the network of MLPerf Tiny's visual wake words, a quarter of MobileNet's width."""
    widths = [8, 16, 32, 32, 64, 64, *[128] * 6, 256, 256]
    strides = [1, 2, 1, 2, 1, 2, 1, 1, 1, 1, 1, 2, 1]
    blocks = [_separable(*each) for each in zip(widths, widths[1:], strides)]
    return nn.Sequential(_layer(3, 8, 3, stride=2, padding=1), *blocks, *_classifier(256, 2))


@dataclass(frozen=True)
class Task:
    """A network, what draws its samples, and with how many batches it is trained."""

    network: Callable[[], Any]
    draw: Callable[[int, np.random.Generator], Samples]
    batches: int


TASKS = {
    "kws": Task(ds_cnn, words, 400),
    "ic": Task(resnet8, shapes, 800),
    "vww": Task(mobilenet_v1, people, 550),
}


def draw_batches(task: Task, count: int, seed: int) -> Iterator[Samples]:
    """Return batches of samples with labels, the same for a seed."""
    rng = np.random.default_rng(seed)
    return (task.draw(BATCH, rng) for _ in range(count))


def train(task: Task) -> Any:
    """Return the trained network. It sees each sample once."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    network = task.network().to(memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(network.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.01, total_steps=task.batches)
    for batch in draw_batches(task, task.batches, 1):
        x, labels = map(torch.from_numpy, batch)
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(x), labels).backward()
        optimizer.step()
        schedule.step()
    return network.to(memory_format=torch.contiguous_format).eval()


def write(name: str, folder: Path) -> tuple[Path, Path]:
    """Train a network unless the folder has it; return its files: network and held-out samples."""
    paths = folder / f"{name}.onnx", folder / f"{name}.npz"
    if not all(path.exists() for path in paths):
        start = time.process_time()
        task = TASKS[name]
        x, labels = map(np.concatenate, zip(*draw_batches(task, HELD_OUT // BATCH, 2)))
        program = torch.onnx.export(
            train(task), (torch.from_numpy(x[:2]),), dynamo=True, input_names=["x"],
            dynamic_shapes=({0: torch.export.Dim("batch")},), verbose=False,
        )  # fmt: skip
        onnx.save(program.model_proto, paths[0])
        np.savez(paths[1], x=x, label=labels)
        print(f"{name}: trained in {time.process_time() - start:.0f} s", file=sys.stderr)
    return paths


if __name__ == "__main__":
    for each in sys.argv[2:] or TASKS:
        write(each, Path(sys.argv[1]))
