"""Small networks of PyTorch with random weights, quantised by ``torchao.quantization.pt2e``.

Activations are int8 or uint8, as the quantiser chooses; biases are float32.
"""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("onnxscript")
pt2e = pytest.importorskip("torchao.quantization.pt2e")
nn, functional = torch.nn, torch.nn.functional


def conv(i: int, o: int, k=3, stride: int = 1, groups: int = 1, act=nn.ReLU) -> nn.Sequential:
    pads = tuple(n // 2 for n in k) if isinstance(k, tuple) else k // 2
    layers = [nn.Conv2d(i, o, k, stride, pads, groups=groups, bias=False), nn.BatchNorm2d(o)]
    return nn.Sequential(*layers, *([act()] if act else []))


class DsCnn(nn.Module):
    """The keyword network of MLPerf Tiny."""

    shape = (1, 1, 49, 10)

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        blocks = [(conv(width, width, 3, 1, width), conv(width, width, 1)) for _ in range(4)]
        self.layers = nn.Sequential(conv(1, width, (10, 4), 2), *sum(blocks, ()))
        self.words = nn.Linear(width, 12)

    def forward(self, x):
        return self.words(functional.adaptive_avg_pool2d(self.layers(x), 1).flatten(1))


class _Inverted(nn.Module):
    def __init__(self, i: int, o: int, stride: int, factor: int) -> None:
        super().__init__()
        wide = i * factor
        first = [] if factor == 1 else [conv(i, wide, 1, act=nn.ReLU6)]
        depthwise = conv(wide, wide, 3, stride, wide, nn.ReLU6)
        self.layers = nn.Sequential(*first, depthwise, conv(wide, o, 1, act=None))
        self.adds = stride == 1 and i == o

    def forward(self, x):
        return x + self.layers(x) if self.adds else self.layers(x)


class MobileNetV2(nn.Module):
    """MobileNetV2 of width 1/4 with 7 of its 17 blocks."""

    shape = (1, 3, 64, 64)

    def __init__(self) -> None:
        super().__init__()
        layers, last = [conv(3, 8, 3, 2, act=nn.ReLU6)], 8
        for factor, o, stride in (
            (1, 8, 1), (6, 8, 2), (6, 8, 1), (6, 16, 2), (6, 16, 1), (6, 24, 2), (6, 32, 1)
        ):  # fmt: skip
            layers.append(_Inverted(last, o, stride, factor))
            last = o
        self.layers = nn.Sequential(*layers, conv(last, 128, 1, act=nn.ReLU6))
        self.classes = nn.Linear(128, 10)

    def forward(self, x):
        return self.classes(self.layers(x).mean((2, 3)))


class _Residual(nn.Module):
    def __init__(self, i: int, o: int, stride: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(conv(i, o, 3, stride), conv(o, o, act=None))
        self.skip = nn.Identity() if i == o else conv(i, o, 1, stride, act=None)

    def forward(self, x):
        return torch.relu(self.layers(x) + self.skip(x))


class ResNet8(nn.Module):
    """The image classifier of MLPerf Tiny."""

    shape = (1, 3, 32, 32)

    def __init__(self) -> None:
        super().__init__()
        blocks = (_Residual(16, 16, 1), _Residual(16, 32, 2), _Residual(32, 64, 2))
        self.layers = nn.Sequential(conv(3, 16), *blocks, nn.AvgPool2d(8))
        self.classes = nn.Linear(64, 10)

    def forward(self, x):
        return torch.softmax(self.classes(self.layers(x).flatten(1)), 1)


class _Dilated(nn.Module):
    def __init__(self, width: int, step: int) -> None:
        super().__init__()
        self.step = step
        self.wide = nn.Sequential(nn.Conv2d(width, width, (1, 3), dilation=(1, step)), nn.ReLU())
        self.last = nn.Conv2d(width, width, 1)

    def forward(self, x):
        y = self.last(self.wide(functional.pad(x, (2 * self.step, 0))))
        return torch.relu(x + y)


class KeywordTcn(nn.Module):
    """Causal convolutions over time, whose distances grow."""

    shape = (1, 16, 1, 50)

    def __init__(self, width: int = 24) -> None:
        super().__init__()
        blocks = [_Dilated(width, step) for step in (1, 2, 4, 8)]
        self.layers = nn.Sequential(conv(16, width, 1), *blocks)
        self.words = nn.Linear(width, 12)

    def forward(self, x):
        return self.words(self.layers(x).mean((2, 3)))


class Detector(nn.Module):
    """Two grids of boxes at two sizes, with SiLU, a joined pooling and an upsampled branch."""

    shape = (1, 3, 64, 64)

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        w, act = width, nn.SiLU
        first = conv(3, w // 4, 3, 2, act=act), conv(w // 4, w // 2, 3, 2, act=act)
        self.fine = nn.Sequential(*first, conv(w // 2, w, 3, 2, act=act))
        self.coarse, self.mix = conv(w, w, 3, 2, act=act), conv(2 * w, w, 1, act=act)
        self.join = conv(2 * w, w, 3, act=act)
        self.heads = nn.ModuleList([nn.Conv2d(w, 3 * (5 + 4), 1) for _ in range(2)])

    def forward(self, x):
        fine = self.fine(x)
        coarse = self.coarse(fine)
        coarse = self.mix(torch.cat([coarse, functional.max_pool2d(coarse, 5, 1, 2)], 1))
        fine = self.join(torch.cat([fine, functional.interpolate(coarse, scale_factor=2.0)], 1))
        boxes = [head(x).flatten(2) for head, x in zip(self.heads, (fine, coarse))]
        return torch.cat(boxes, 2)


NETWORKS = {each.__name__: each for each in (DsCnn, MobileNetV2, ResNet8, KeywordTcn, Detector)}


def quantizer(name: str, in_training: bool):
    """Return a quantiser: ``arm`` and ``x86`` of torchao, ``xnnpack`` of ExecuTorch."""
    if name == "xnnpack":
        module = pytest.importorskip("executorch.backends.xnnpack.quantizer.xnnpack_quantizer")
        config = module.get_symmetric_quantization_config(is_per_channel=True, is_qat=in_training)
        return module.XNNPACKQuantizer().set_global(config)
    module = pytest.importorskip(f"torchao.quantization.pt2e.quantizer.{name}_inductor_quantizer")
    config = getattr(module, f"get_default_{name}_inductor_quantization_config")
    kind = {"arm": "ArmInductorQuantizer", "x86": "X86InductorQuantizer"}[name]
    return getattr(module, kind)().set_global(config(is_qat=in_training))


def quantized_program(network: str, quantizer_name: str, in_training: bool = False):
    """Return the exported program of a network after quantisation, or training with it."""
    from torchao.quantization.pt2e import move_exported_model_to_eval, quantize_pt2e

    torch.manual_seed(0)
    module = NETWORKS[network]()
    for each in module.modules():
        if isinstance(each, nn.BatchNorm2d):
            each.running_mean.normal_(0, 0.2)
            each.running_var.uniform_(0.5, 2)
    module.train(in_training)
    example = (torch.randn(module.shape),)
    captured = torch.export.export(module, example).module()
    kind = quantize_pt2e.prepare_qat_pt2e if in_training else quantize_pt2e.prepare_pt2e
    prepared = kind(captured, quantizer(quantizer_name, in_training))
    if in_training:
        optimizer = torch.optim.SGD(prepared.parameters(), lr=1e-3)
    for _ in range(4):
        output = prepared(torch.randn(module.shape))
        if in_training:
            optimizer.zero_grad()
            output.square().mean().backward()
            optimizer.step()
    move_exported_model_to_eval(prepared)
    return torch.export.export(quantize_pt2e.convert_pt2e(prepared), example)
