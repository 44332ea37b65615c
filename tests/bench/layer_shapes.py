"""Layer shapes of public architectures, as their papers give them.

:data:`ARCHITECTURES` maps a name to its layers. Repeated blocks come from generators below, so a
row says only stages, widths and input size. A layer is a tuple of its kind and the arguments of the
function of that name in ``layer_networks.py``: sizes are those of the input, activations come last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

Layer = tuple  # kind, arguments


def conv(cin, cout, k, stride, size, act="Relu", group=1, dilation=1) -> Layer:
    """Convolution of a square image, or of ``size`` = (height, width)."""
    size = size if isinstance(size, tuple) else (size, size)
    k = k if isinstance(k, tuple) else (k, k)
    return ("conv", cin, cout, k, stride, size, act, group, dilation)


def chain(size: int, rows: Iterable[tuple], act: str = "Relu") -> list[Layer]:
    """Convolutions in sequence: (cin, cout, k, stride), or ("pool", channels, k, stride)."""
    found = []
    for first, *args in rows:
        if first == "pool":
            found.append(("pool", "MaxPool", args[0], args[1], args[2], size))
        else:
            found.append(conv(first, *args, size, act))
        size = -(-size // args[2])
    return found


def head(channels: int, size: int, classes: int = 1000) -> list[Layer]:
    """Global pooling and classifier of an image network."""
    return [("global_pool", channels, size), ("gemm", 1, channels, classes, "")]


def residual(
    size: int,
    stages: Iterable[tuple[int, int]],
    expand: int = 1,
    groups: int = 1,
    inner: float = 1,
    act: str = "Relu",
) -> Iterator[Layer]:
    """Residual stages (channels, stride): two 3x3 convolutions, or with ``expand`` a bottleneck."""
    before = 64
    for channels, stride in stages:
        wide, mid, small = channels * expand, int(channels * inner), -(-size // stride)
        if expand > 1:
            yield conv(before, mid, 1, 1, size, act)
            yield conv(mid, mid, 3, stride, size, act, groups)
            yield from (conv(mid, wide, 1, 1, small, ""), conv(wide, mid, 1, 1, small, act))
        else:
            yield from (conv(before, mid, 3, stride, size, act), conv(mid, wide, 3, 1, small, ""))
        yield conv(before, wide, 1, stride, size, "")
        yield ("elementwise", "add_relu", wide, small)
        before, size = wide, small


def inverted(size: int, stages: Iterable[tuple], act: str, before: int) -> Iterator[Layer]:
    """Inverted residuals (expanded, channels, k, stride, squeezed): 1x1, depthwise, 1x1. A row may
    end with its own activation."""
    for wide, channels, k, stride, squeezed, *own in stages:
        used, small = own[0] if own else act, -(-size // stride)
        if wide != before:
            yield conv(before, wide, 1, 1, size, used)
        yield conv(wide, wide, k, stride, size, used, wide)
        if squeezed:
            gate = "HardSigmoid" if act == "HardSwish" else "Sigmoid"
            yield ("squeeze_excite", wide, squeezed, small, gate)
        yield conv(wide, channels, 1, 1, small, "")
        before, size = channels, small


def separable(
    size: int, stages: Iterable[tuple[int, int, int]], act: str = "Relu", k: int = 3
) -> Iterator[Layer]:
    """Depthwise separable convolutions (cin, cout, stride)."""
    for cin, cout, stride in stages:
        yield conv(cin, cin, k, stride, size, act, cin)
        size = -(-size // stride)
        yield conv(cin, cout, 1, 1, size, act)


def transformer(
    length: int,
    width: int,
    heads: int,
    hidden: int,
    act: str = "gelu",
    norm: str = "layer_norm",
    past: int = 0,
    gated: bool = False,
) -> Iterator[Layer]:
    """Block of a transformer: projections, attention, feed-forward, normalisation."""
    yield ("matmul", length, width, width, "")
    yield ("matmul", length, width, hidden, "silu" if gated else act)
    yield ("matmul", length, hidden, width, "")
    yield ("attention", heads, length, past or length, width // heads)
    yield (norm, length, width)
    yield ("transpose", (1, length, heads, width // heads), (0, 2, 1, 3))
    if gated:
        yield ("elementwise", "gated_silu", hidden, (1, length))


def dense(size: int, before: int, growth: int, layers: int) -> Iterator[Layer]:
    """First and last layer of a dense block, with its concatenation and transition."""
    for cin in (before, before + growth * (layers - 1)):
        yield conv(cin, 128, 1, 1, size)
    yield conv(128, growth, 3, 1, size, "")
    total = before + growth * layers
    yield from (("elementwise", "norm_relu", total, size), ("concat", total - growth, growth, size))
    yield conv(total, total // 2, 1, 1, size, "")
    yield ("pool", "AveragePool", total // 2, 2, 2, size)


def convnext(size: int, widths: Iterable[int], k: int = 7) -> Iterator[Layer]:
    """Blocks with a large depthwise kernel and an inverted bottleneck in channels-last order."""
    for c in widths:
        yield from (conv(c, c, k, 1, size, "", c), ("layer_norm", size * size, c))
        yield ("matmul", size * size, c, 4 * c, "gelu")
        yield ("matmul", size * size, 4 * c, c, "")
        yield ("transpose", (1, c, size, size), (0, 2, 3, 1))
        size //= 2


def split_stages(size: int, widths: Iterable[int], act: str) -> Iterator[Layer]:
    """Cross-stage partial blocks of YOLO, with downsampling."""
    before = 0
    for c in widths:
        if before:
            yield conv(before, c, 3, 2, size * 2, act)
        yield from (conv(c, c // 2, 1, 1, size, act), conv(c // 2, c // 2, 3, 1, size, act))
        yield from (("concat", c // 2, c // 2, size), conv(c, c, 1, 1, size, act))
        before, size = c, size // 2


def pyramid(size: int, c: int, act: str, mode: str = "nearest") -> Iterator[Layer]:
    """Feature pyramid: resize, concatenation and merge."""
    yield from (("resize", mode, c, size // 2, 2), ("concat", c, c, size))
    yield conv(2 * c, c, 1, 1, size, act)


def generator(rows: Iterable[tuple[int, int, int, int, int]], act: str = "Relu") -> list[Layer]:
    """Transposed convolutions (cin, cout, k, stride, size)."""
    return [("conv_transpose", *row, act) for row in rows]


MBV2 = [
    (32, 16, 3, 1, 0), (96, 24, 3, 2, 0), (144, 24, 3, 1, 0), (144, 32, 3, 2, 0),
    (192, 32, 3, 1, 0), (192, 64, 3, 2, 0), (384, 64, 3, 1, 0), (384, 96, 3, 1, 0),
    (576, 96, 3, 1, 0), (576, 160, 3, 2, 0), (960, 160, 3, 1, 0), (960, 320, 3, 1, 0),
]  # fmt: skip
MBV3L = [
    (16, 16, 3, 1, 0, "Relu"), (64, 24, 3, 2, 0, "Relu"), (72, 24, 3, 1, 0, "Relu"),
    (72, 40, 5, 2, 24, "Relu"), (120, 40, 5, 1, 32, "Relu"), (240, 80, 3, 2, 0),
    (200, 80, 3, 1, 0), (184, 80, 3, 1, 0), (480, 112, 3, 1, 120), (672, 112, 3, 1, 168),
    (672, 160, 5, 2, 168), (960, 160, 5, 1, 240),
]  # fmt: skip
MBV3S = [
    (16, 16, 3, 2, 8, "Relu"), (72, 24, 3, 2, 0, "Relu"), (88, 24, 3, 1, 0, "Relu"),
    (96, 40, 5, 2, 24), (240, 40, 5, 1, 64), (120, 48, 5, 1, 32), (144, 48, 5, 1, 40),
    (288, 96, 5, 2, 72), (576, 96, 5, 1, 144),
]  # fmt: skip
B0 = [
    (32, 16, 3, 1, 8), (96, 24, 3, 2, 4), (144, 40, 5, 2, 6), (240, 40, 5, 1, 10),
    (240, 80, 3, 2, 10), (480, 80, 3, 1, 20), (480, 112, 5, 1, 20), (672, 112, 5, 1, 28),
    (672, 192, 5, 2, 28), (1152, 192, 5, 1, 48), (1152, 320, 3, 1, 48),
]  # fmt: skip
STAGES = [
    (64, 1), (128, 2), (256, 2), (512, 2),
]  # fmt: skip
VGG = [
    (3, 64, 3, 1), (64, 64, 3, 1), ("pool", 64, 2, 2), (64, 128, 3, 1), ("pool", 128, 2, 2),
    (128, 256, 3, 1), (256, 256, 3, 1), ("pool", 256, 2, 2), (256, 512, 3, 1), (512, 512, 3, 1),
    ("pool", 512, 2, 2), (512, 512, 3, 1),
]  # fmt: skip
STEM = ("pool", "MaxPool", 64, 3, 2, 112)

ARCHITECTURES: dict[str, Callable[[], Iterable[Layer]]] = {
    "vgg16": lambda: [*chain(224, VGG), ("gemm", 1, 4096, 4096, "Relu")],
    "resnet18": lambda: [conv(3, 64, 7, 2, 224), STEM, *residual(56, STAGES), *head(512, 7)],
    "resnet50": lambda: [conv(3, 64, 7, 2, 224), STEM, *residual(56, STAGES, 4), *head(2048, 7)],
    "resnext50": lambda: residual(56, STAGES, 4, 32, 2),
    "regnety_400mf": lambda: [conv(c, c, 3, 1, s, "Relu", c // 8) for c, s in ((48, 56), (104, 28),
        (208, 14), (440, 7))] + [("squeeze_excite", c, c // 4, s, "Sigmoid") for c, s in ((48, 56),
        (104, 28), (208, 14), (440, 7))],
    "squeezenet": lambda: [conv(3, 64, 3, 2, 224)] + [conv(*row) for c, e, s in ((96, 16, 55), (256,
        32, 27), (512, 64, 13)) for row in ((c, e, 1, 1, s), (e, 4 * e, 1, 1, s), (e, 4 * e, 3, 1,
        s))],
    "densenet121": lambda: [x for s, b, n in ((56, 64, 6), (28, 128, 12), (14, 256, 24))
        for x in dense(s, b, 32, n)],
    "googlenet": lambda: [conv(*row, s) for c, s in ((192, 28), (480, 14), (832, 7)) for row in ((c,
        64, 1, 1), (c, 96, 1, 1), (96, 128, 3, 1), (16, 32, 5, 1))] + [("pool", "MaxPool", 192, 3,
        1, 28)],
    "inception_v3": lambda: [conv(3, 32, 3, 2, 299), conv(64, 96, 3, 1, 35), conv(48, 64, 5, 1, 35),
        conv(128, 128, (1, 7), 1, 17), conv(192, 192, (7, 1), 1, 17), conv(768, 192, 1, 1, 17),
        ("pool", "AveragePool", 288, 3, 1, 35), conv(384, 384, (1, 3), 1, 8), conv(288, 384, 3, 2,
        35)],
    "xception": lambda: separable(147, [(64, 128, 1), (128, 128, 2), (128, 256, 2), (256, 728, 2),
        (728, 728, 1), (728, 1024, 2)]),
    "mobilenet_v1": lambda: [conv(3, 32, 3, 2, 224), *separable(112, [(32, 64, 1), (64, 128, 2),
        (128, 128, 1), (128, 256, 2), (256, 256, 1), (256, 512, 2), (512, 512, 1), (512, 1024, 2),
        (1024, 1024, 1)]), *head(1024, 7)],
    "mobilenet_v2": lambda: [conv(3, 32, 3, 2, 224, "Clip"), *inverted(112, MBV2, "Clip", 32),
        conv(320, 1280, 1, 1, 7, "Clip"), ("elementwise", "add", 24, 56), *head(1280, 7)],
    "mobilenet_v3_large": lambda: [conv(3, 16, 3, 2, 224, "HardSwish"), *inverted(112, MBV3L,
        "HardSwish", 16), conv(160, 960, 1, 1, 7, "HardSwish"), *head(960, 7), ("elementwise",
        "hard_swish", 240, 14)],
    "mobilenet_v3_small": lambda: [*inverted(112, MBV3S, "HardSwish", 16), ("elementwise",
        "hard_swish", 16, 112), ("gemm", 1, 576, 1024, "HardSwish")],
    "efficientnet_b0": lambda: [*inverted(112, B0, "silu", 32), ("elementwise", "silu", 96, 112),
        *head(1280, 7)],
    "efficientnet_v2_s": lambda: [conv(24, 24, 3, 1, 150, "silu"), conv(24, 96, 3, 2, 150, "silu"),
        conv(48, 192, 3, 1, 75, "silu"), *inverted(38, [(256, 128, 3, 2, 16), (512, 128, 3, 1, 32),
        (768, 160, 3, 1, 32)], "silu", 64)],
    "shufflenet_v1": lambda: [("channel_shuffle", 240, 3, 28), conv(240, 60, 1, 1, 28, "Relu", 3),
        conv(60, 60, 3, 1, 28, "", 60), conv(480, 120, 1, 1, 14, "Relu", 3)],
    "shufflenet_v2": lambda: [x for c, s in ((58, 28), (116, 14), (232, 7)) for x in (conv(c, c, 1,
        1, s), conv(c, c, 3, 1, s, "", c), ("channel_shuffle", 2 * c, 2, s), ("concat", c, c, s))],
    "convnext_tiny": lambda: [conv(3, 96, 4, 4, 224, ""), *convnext(56, (96, 192, 384, 768))],
    "convmixer": lambda: [conv(256, 256, 9, 1, 32, "gelu", 256), conv(256, 256, 1, 1, 32, "gelu"),
        conv(3, 256, 7, 7, 224, "gelu")],
    "mlp_mixer_s16": lambda: [("matmul", 512, 196, 256, "gelu"), ("matmul", 512, 256, 196, ""),
        ("transpose", (1, 196, 512), (0, 2, 1))],
    "vit_tiny": lambda: [conv(3, 192, 16, 16, 224, ""), *transformer(197, 192, 3, 768)],
    "vit_base": lambda: [conv(3, 768, 16, 16, 224, ""), *transformer(197, 768, 12, 3072)],
    "swin_tiny": lambda: [("attention", 192, 49, 49, 32), ("transpose", (1, 8, 7, 8, 7, 96), (0, 1,
        3, 2, 4, 5)), ("matmul", 3136, 96, 288, ""), ("matmul", 784, 768, 192, ""), ("layer_norm",
        3136, 96)],
    "segformer_b0": lambda: [conv(3, 32, 7, 4, 512, ""), conv(128, 128, 3, 1, 128, "gelu", 128),
        ("attention", 1, 16384, 256, 32), ("resize", "linear", 256, 16, 4), ("layer_norm", 16384,
        32)],
    "bert_base": lambda: [*transformer(128, 768, 12, 3072), ("gather", 30522, 768, 128), ("softmax",
        1536, 128)],
    "minilm_l6": lambda: [*transformer(64, 384, 12, 1536), ("matmul", 4096, 384, 384, ""),
        ("reduce", "ReduceMean", (1, 64, 384), 1)],
    "gpt2": lambda: [*transformer(1, 768, 12, 3072, "gelu_tanh", past=256), ("matmul", 1, 768,
        50257, ""), ("matmul", 64, 768, 2304, "")],
    "llama_110m": lambda: [*transformer(1, 768, 12, 2048, norm="rms_norm", past=256, gated=True),
        ("rms_norm", 64, 768)],
    "t5_small": lambda: [*transformer(64, 512, 8, 2048, "Relu", "rms_norm"), ("matmul", 1, 512,
        32128, "")],
    "whisper_tiny": lambda: [conv(80, 384, (1, 3), 1, (1, 3000), "gelu"), conv(384, 384, (1, 3), 2,
        (1, 3000), "gelu"), *transformer(1500, 384, 6, 1536)],
    "wav2vec2": lambda: [conv(512, 512, (1, 3), 2, (1, 1600), "gelu"), conv(1, 512, (1, 10), 5, (1,
        16000), "gelu"), ("group_norm", 512, 512, (1, 1600))],
    "conformer_s": lambda: [conv(144, 144, (1, 31), 1, (1, 256), "silu", 144), *transformer(256,
        144, 4, 576, "silu"), ("elementwise", "glu", 144, (1, 256))],
    "deepspeech2": lambda: [conv(1, 32, (41, 11), 2, (161, 200), "Clip"), ("recurrent", "GRU", 50,
        672, 512, 2)],
    "crnn_ocr": lambda: [conv(1, 64, 3, 1, (32, 100)), conv(256, 512, 3, 1, (4, 25)), ("recurrent",
        "LSTM", 26, 512, 256, 2), ("softmax", 26, 37)],
    "lstm_tagger": lambda: [("gather", 10000, 100, 40), ("recurrent", "LSTM", 40, 100, 128, 2),
        ("matmul", 40, 256, 32, "")],
    "nnsplit": lambda: [("recurrent", "LSTM", 500, 32, 64, 2)],
    "tacotron2": lambda: [conv(512, 512, (1, 5), 1, (1, 100), "Tanh"), ("recurrent", "LSTM", 1, 768,
        1024, 1), ("recurrent", "LSTM", 100, 512, 256, 2)],
    "hifigan": lambda: [("conv_transpose_1d", 512, 256, 16, 8, 64, "LeakyRelu"), conv(256, 256, (1,
        11), 1, (1, 512), "LeakyRelu"), conv(32, 32, (1, 7), 1, (1, 16384), "LeakyRelu", 1, 3),
        conv(32, 1, (1, 7), 1, (1, 16384), "Tanh")],
    "tcn": lambda: [conv(64, 64, (1, 3), 1, (1, 400), "Relu", 1, d) for d in (1, 4, 16)],
    "kws_dscnn": lambda: [conv(1, 64, (10, 4), 2, (49, 10)), *separable(25, [(64, 64, 1)])],
    "text_cnn": lambda: [conv(1, 100, (k, 300), 1, (56, 300)) for k in (3, 5)] + [("reduce",
        "ReduceMax", (1, 100, 54), 2)],
    "yolo_v3_tiny": lambda: chain(416, [(3, 16, 3, 1), ("pool", 16, 2, 2), (16, 32, 3, 1), ("pool",
        32, 2, 2), (32, 64, 3, 1), ("pool", 64, 2, 2), (64, 128, 3, 1), ("pool", 128, 2, 2), (128,
        256, 3, 1)], "LeakyRelu"),
    "yolo_v5n": lambda: [conv(3, 16, 6, 2, 640, "silu"), *split_stages(160, (32, 64, 128, 256),
        "silu"), *pyramid(40, 64, "silu"), ("pool", "MaxPool", 128, 5, 1, 20)],
    "yolox_nano": lambda: [*separable(52, [(64, 64, 1), (64, 128, 2)], "silu"), *separable(13,
        [(256, 256, 1)], "silu", 5), ("space_to_depth", 3, 416), ("transpose", (1, 85, 3549), (0, 2,
        1))],
    "nanodet_picodet": lambda: [*separable(40, [(96, 96, 1)], "HardSwish", 5), *pyramid(40, 96,
        "HardSwish"), conv(96, 32, 1, 1, 40, "Sigmoid")],
    "ssd_mobilenet": lambda: [conv(576, 24, 1, 1, 19, ""), conv(1280, 546, 1, 1, 10, ""),
        *inverted(10, [(256, 512, 3, 2, 0)], "Clip", 1280)],
    "blazeface": lambda: separable(64, [(24, 28, 1), (28, 32, 2), (48, 96, 2), (96, 96, 1)], "Relu",
        5),
    "retinaface": lambda: [conv(64, 64, 3, 1, 80, "LeakyRelu"), conv(64, 16, 3, 1, 40, ""),
        ("reduce", "ArgMax", (1, 4200, 21), 2)],
    "hrnet_w18": lambda: [conv(c, c, 3, 1, s) for c, s in ((18, 56), (36, 28), (72, 14), (144,
        7))] + [("resize", "nearest", 18, 28, 2)],
    "unet": lambda: [conv(1, 64, 3, 1, 128), conv(64, 64, 3, 1, 128), conv(128, 64, 3, 1, 128),
        *generator([(128, 64, 2, 2, 64), (512, 256, 2, 2, 16)], ""), ("concat", 64, 64, 128)],
    "deeplab_v3": lambda: [conv(320, 256, 3, 1, 33, "Relu", 1, d) for d in (6, 12)] + [conv(960,
        960, 3, 1, 33, "Relu", 960, 2), ("resize", "linear", 21, 65, 8), ("reduce", "ArgMax", (1,
        21, 257, 257), 1)],
    "dcgan": lambda: generator([(100, 512, 4, 1, 1), (512, 256, 4, 2, 4), (256, 128, 4, 2, 8), (128,
        64, 4, 2, 16), (64, 3, 4, 2, 32)]),
    "cyclegan": lambda: [conv(3, 64, 7, 1, 128), conv(64, 128, 3, 2, 128), ("group_norm", 256, 256,
        32), *generator([(256, 128, 3, 2, 32)])],
    "style_transfer": lambda: [conv(3, 32, 9, 1, 224), conv(32, 3, 9, 1, 224, ""), ("group_norm",
        32, 32, 224), ("resize", "nearest", 64, 56, 2)],
    "espcn": lambda: [conv(1, 64, 5, 1, 128, "Tanh"), conv(64, 32, 3, 1, 128, "Tanh"), conv(32, 9,
        3, 1, 128, ""), ("depth_to_space", 9, 3, 128)],
    "edsr": lambda: [conv(64, 64, 3, 1, 96), conv(64, 256, 3, 1, 48, ""), ("depth_to_space", 256, 2,
        48), conv(64, 3, 3, 1, 96, "")],
    "stable_diffusion_unet": lambda: [("group_norm", 320, 32, 32), conv(320, 320, 3, 1, 32, "silu"),
        ("attention", 8, 1024, 77, 40), ("elementwise", "gated_gelu", 1280, (1, 256)),
        ("elementwise", "silu", 320, 32)],
    "dlrm": lambda: [("gemm", 128, 512, 256, "Relu"), ("gemm", 128, 13, 512, "Relu"), ("gemm", 128,
        256, 1, "Sigmoid"), ("batch_matmul", 128, 27, 64, 27)],
    "pointnet": lambda: [conv(64, 128, 1, 1, (1, 1024)), conv(128, 1024, 1, 1, (1, 1024)), conv(3,
        64, 1, 1, (1, 1024)), ("reduce", "ReduceMax", (1, 1024, 1024), 2)],
}  # fmt: skip


def layers() -> dict[Layer, list[str]]:
    """Return all distinct layers, each with the architectures that have it."""
    found: dict[Layer, list[str]] = {}
    for name, make in ARCHITECTURES.items():
        for layer in make():
            names = found.setdefault(layer, [])
            if name not in names:
                names.append(name)
    return found
