"""Export one network with random weights and dynamic axes, with the usual exporter.

Run by ``bench_exports.py`` in an environment with torch, as ``python export_networks.py NAME
OUT.onnx``; without arguments it prints the names.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

TIMM = (
    "resnet18 resnet50 resnext50_32x4d wide_resnet50_2 seresnet50 resnest14d res2net50_26w_4s "
    "densenet121 vgg11 inception_v3 xception41 dpn68 regnetx_004 regnety_004 "
    "mobilenetv2_100 mobilenetv3_small_100 mobilenetv4_conv_small efficientnet_b0 "
    "efficientnet_lite0 efficientnetv2_rw_t mnasnet_100 ghostnet_100 ghostnetv2_100 lcnet_100 "
    "tinynet_e hrnet_w18_small convnext_atto convnextv2_atto edgenext_xx_small poolformer_s12 "
    "caformer_s18 repvgg_a0 mobileone_s0 fastvit_t8 starnet_s1 darknet53 cspresnet50 vovnet39a "
    "dla34 selecsls42b rexnet_100 levit_128s pit_ti_224 vit_tiny_patch16_224 "
    "deit_tiny_patch16_224 swin_tiny_patch4_window7_224 swinv2_tiny_window8_256 mobilevit_xxs"
).split()
SEGMENTATION = "Unet UnetPlusPlus FPN PSPNet Linknet PAN DeepLabV3 DeepLabV3Plus".split()
DETECTION = (
    "yolov3-tiny yolov5n yolov6n yolov8n yolov9t yolov10n yolo11n yolo12n yolov8n-seg yolov8n-pose "
    "yolov8n-cls yolov8n-obb yolo11n-seg yolo11n-pose yolo11n-cls yolov8n-nms yolo11n-seg-nms"
).split()
LANGUAGE = (
    "Bert Roberta DistilBert Electra Albert MPNet Deberta DebertaV2 MobileBert ModernBert "
    "XLMRoberta GPT2 GPTNeo GPTNeoX OPT Llama Mistral Qwen2 Qwen3 Gemma Phi Falcon Bloom T5Encoder"
).split()
SMALL: dict[str, Any] = {
    "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 100,
    "intermediate_size": 128, "num_key_value_heads": 2, "head_dim": 16, "pad_token_id": 0,
}  # fmt: skip


def _torch_export(model: Any, inputs: dict[str, Any], axes: dict[str, Any], out: Path) -> None:
    import torch

    names = list(inputs)
    torch.onnx.export(
        model.eval(), tuple(inputs.values()), str(out), input_names=names, dynamic_axes=axes,
        opset_version=17, dynamo=False,
    )  # fmt: skip


def _calibrate(model: Any, size: int) -> None:
    """Give batch normalisations the statistics of made-up images. Without them the values of a deep
    network with random weights vanish or overflow."""
    import torch

    torch.manual_seed(0)
    for module in model.modules():
        if isinstance(module, torch.nn.modules.batchnorm._BatchNorm):
            module.momentum = None  # the mean of all batches
    with torch.no_grad():
        model.train()(torch.randn(4, 3, size, size))
    model.eval()


def _picture(model: Any, out: Path, size: int) -> None:
    import torch

    _calibrate(model, size)
    axes = {"x": {0: "batch", 2: "height", 3: "width"}}
    _torch_export(model, {"x": torch.zeros(1, 3, size, size)}, axes, out)


def export_timm(name: str, out: Path) -> None:
    """Export classifiers; those with positional embeddings for one size have that size dynamic,
    too."""
    import timm

    model = timm.create_model(name, pretrained=False, exportable=True)
    _picture(model, out, model.default_cfg["input_size"][-1])


def export_segmentation(name: str, out: Path) -> None:
    """Export segmentation networks with a ResNet18 backbone."""
    import segmentation_models_pytorch as smp

    model = getattr(smp, name)(encoder_name="resnet18", encoder_weights=None, classes=3)
    _picture(model, out, 256)


def export_detection(name: str, out: Path) -> None:
    """Export detectors with the package's own exporter and ``dynamic=True``; ``-nms`` includes box
    suppression, with a threshold that random weights reach."""
    from ultralytics import YOLO

    model = YOLO(f"{name.removesuffix('-nms')}.yaml")
    _calibrate(model.model, 256)
    more = {"nms": True, "conf": 0.001} if name.endswith("-nms") else {}
    Path(model.export(format="onnx", dynamic=True, simplify=False, **more)).rename(out)


def export_language(name: str, out: Path) -> None:
    """Export encoders and decoders of two layers, with dynamic batch and length."""
    import torch
    import transformers

    base, kind = (
        (name.removesuffix("Encoder"), "EncoderModel") if "Enc" in name else (name, "Model")
    )
    config_class = getattr(transformers, f"{base}Config")
    known = set(vars(config_class()))
    config = config_class(**{k: v for k, v in SMALL.items() if k in known}, use_cache=False)
    model = getattr(transformers, f"{base}{kind}")(config)

    class Plain(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, input_ids: Any, attention_mask: Any) -> Any:
            return self.model(input_ids, attention_mask=attention_mask)[0]

    ones = torch.ones(2, 9, dtype=torch.int64)
    axes = {n: {0: "batch", 1: "length"} for n in ("input_ids", "attention_mask")}
    _torch_export(Plain(), {"input_ids": ones, "attention_mask": ones}, axes, out)


Exporter = Callable[[str, Path], None]
NETWORKS: dict[str, tuple[str, Exporter]] = {
    **{n: ("vision", export_timm) for n in TIMM},
    **{n: ("vision", export_segmentation) for n in SEGMENTATION},
    **{n: ("vision", export_detection) for n in DETECTION},
    **{n: ("language", export_language) for n in LANGUAGE},
}

if __name__ == "__main__":
    if len(sys.argv) == 3:
        NETWORKS[sys.argv[1]][1](sys.argv[1], Path(sys.argv[2]).absolute())
    else:
        print("\n".join(NETWORKS))
