"""``.tflite`` networks with the architectures of ST's model zoo and random weights.

Widths and blocks follow the papers of ResNet v1, MobileNet v1 and v2, and YAMNet's first layers.
As in the zoo, images are uint8 and class probabilities are float32.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tiny_networks import MOBILENET_V2, Int8Network, inverted_residual


def _picture(seed: int, *shape: int) -> Int8Network:
    """Return a network whose uint8 input is converted to int8."""
    net = Int8Network(seed, *shape)
    net.quantize_input()
    return net


def _classified(net: Int8Network, classes: int) -> bytes:
    """Add the classifier of all networks, and return the file."""
    net.average()
    net.dense(classes)
    net.softmax()
    net.dequantize()
    return net.file()


def resnet_v1(blocks: int, classes: int) -> bytes:
    """Three groups of residual ``blocks``, of 16, 32 and 64 channels, for 32 x 32 pixels."""
    net = _picture(11, 32, 32, 3)
    net.conv(16, (3, 3))
    for channels in (16, 32, 64):
        for block in range(blocks):
            net.residual(channels, 2 if channels > 16 and block == 0 else 1)
    return _classified(net, classes)


def mobilenet_v1(alpha: float, size: int, channels: int, classes: int) -> bytes:
    """MobileNet v1 with ``alpha`` times the channels."""
    net = _picture(12, size, size, channels)
    net.conv(int(32 * alpha), (3, 3), 2, "relu6")
    for width, stride in ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2),
                          *[(512, 1)] * 5, (1024, 2), (1024, 1)):  # fmt: skip
        net.separable(int(width * alpha), (3, 3), stride, "relu6")
    return _classified(net, classes)


def mobilenet_v2(alpha: float, size: int, classes: int) -> bytes:
    """MobileNet v2 with ``alpha`` times the channels, in multiples of 8."""
    net = _picture(13, size, size, 3)
    net.conv(_multiple_of_8(32 * alpha), (3, 3), 2, "relu6")
    for kernel, expand, width, stride in MOBILENET_V2:
        inverted_residual(net, kernel, expand, _multiple_of_8(width * alpha), stride)
    net.conv(_multiple_of_8(1280 * max(1.0, alpha)), (1, 1), act="relu6")
    return _classified(net, classes)


def _multiple_of_8(channels: float) -> int:
    """Round as the paper does: at most 10 % down."""
    rounded = max(8, int(channels + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * channels else rounded


def yamnet_256() -> bytes:
    """The layers of YAMNet of up to 256 channels, for 64 mels of 96 frames and 10 classes."""
    net = _picture(14, 64, 96, 1)
    net.conv(32, (3, 3), 2)
    for width, stride in ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1)):
        net.separable(width, (3, 3), stride)
    return _classified(net, 10)


BUILDERS: dict[str, Callable[[], bytes]] = {
    "resnet8": partial(resnet_v1, 1, 10),
    "resnet32": partial(resnet_v1, 5, 100),
    "mobilenet_v1_0.25_96_gray": partial(mobilenet_v1, 0.25, 96, 1, 5),
    "mobilenet_v1_0.25_96": partial(mobilenet_v1, 0.25, 96, 3, 5),
    "mobilenet_v1_0.25_224": partial(mobilenet_v1, 0.25, 224, 3, 5),
    "mobilenet_v1_0.5_224": partial(mobilenet_v1, 0.5, 224, 3, 5),
    "mobilenet_v1_1.0_224": partial(mobilenet_v1, 1.0, 224, 3, 1000),
    "mobilenet_v2_0.35_128": partial(mobilenet_v2, 0.35, 128, 5),
    "mobilenet_v2_0.35_224": partial(mobilenet_v2, 0.35, 224, 5),
    "mobilenet_v2_1.0_224": partial(mobilenet_v2, 1.0, 224, 1000),
    "mobilenet_v2_1.4_224": partial(mobilenet_v2, 1.4, 224, 1000),
    "yamnet_256": yamnet_256,
}  # fmt: skip
