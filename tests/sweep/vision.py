"""Image networks of the sweep: classifiers, features, depth, restoration, diffusion."""

from __future__ import annotations

from typing import Any

import timm
import torch
import transformers
from entries import Built, Input, network
from torch import nn

BATCHES = ({"batch": 2}, {"batch": 1}, {"batch": 3}, {"batch": 5}, {"batch": 16})
PICTURES = (
    {"batch": 2, "height": 64, "width": 96}, {"batch": 1, "height": 32, "width": 32},
    {"height": 96, "width": 64}, {"batch": 3, "height": 70, "width": 83},
    {"batch": 1, "height": 320, "width": 448},
)  # fmt: skip
MULTIPLES = (*PICTURES[:3], {"batch": 3, "height": 128, "width": 160}, PICTURES[4])
IMAGE = {"pixel_values": Input(("batch", 3, "height", "width"))}


def of_timm(name: str, **more: Any) -> Built:
    """Return a classifier of timm at any resolution."""
    return Built(timm.create_model(name, num_classes=10, **more), IMAGE, calibrated=True)


@network(*PICTURES)
def resnet18() -> Built:
    return of_timm("resnet18")


@network(*PICTURES)
def conv_same() -> Built:
    """Padding as TensorFlow's SAME, computed from the size, as EfficientNet has it."""
    layers: list[nn.Module] = []
    for channels, out, kernel in ((3, 8, 3), (8, 16, 5), (16, 16, 3)):
        conv = timm.layers.create_conv2d(channels, out, kernel, stride=2, padding="same")
        layers += [conv, nn.SiLU()]
    return Built(nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten()), IMAGE)


@network(*PICTURES)
def convnext() -> Built:
    return of_timm("convnext_atto", depths=(1, 1, 1, 1), dims=(8, 16, 24, 32))


@network(*MULTIPLES)
def vit_dynamic() -> Built:
    """Position embeddings resampled to the image."""
    return of_timm(
        "vit_tiny_patch16_224", embed_dim=32, depth=2, num_heads=2, dynamic_img_size=True,
        img_size=64,
    )  # fmt: skip


@network(*PICTURES)
def mobilevit() -> Built:
    """Patches by reshapes, after a resize to multiples of them."""
    return of_timm("mobilevit_xxs")


@network(*MULTIPLES)
def swin() -> Built:
    config = transformers.SwinConfig(
        image_size=64, patch_size=4, embed_dim=16, depths=[2, 2], num_heads=[2, 2], window_size=4
    )
    return Built(transformers.SwinModel(config), IMAGE, lambda m, x: m(x)[0])


@network(*MULTIPLES)
def dinov2() -> Built:
    config = transformers.Dinov2Config(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, image_size=64, patch_size=16
    )
    return Built(transformers.Dinov2Model(config), IMAGE, lambda m, x: m(x)[0])


@network(*MULTIPLES)
def vit_interpolated() -> Built:
    config = transformers.ViTConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
        image_size=64, patch_size=16,
    )  # fmt: skip
    model = transformers.ViTModel(config)
    return Built(model, IMAGE, lambda m, x: m(x, interpolate_pos_encoding=True)[0])


@network(*BATCHES)
def siglip_vision() -> Built:
    config = transformers.SiglipVisionConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
        image_size=64, patch_size=16,
    )  # fmt: skip
    inputs = {"pixel_values": Input(("batch", 3, 64, 64))}
    return Built(transformers.SiglipVisionModel(config), inputs, lambda m, x: m(x).pooler_output)


@network(*MULTIPLES)
def dpt_depth() -> Built:
    config = transformers.DepthAnythingConfig(
        backbone_config=transformers.Dinov2Config(
            hidden_size=32, num_hidden_layers=2, num_attention_heads=4, image_size=64,
            patch_size=16, out_indices=[1, 2], reshape_hidden_states=False,
        ), patch_size=16, reassemble_hidden_size=32, neck_hidden_sizes=[16, 16],
        reassemble_factors=[4, 2], fusion_hidden_size=16, head_hidden_size=8,
    )  # fmt: skip
    model = transformers.DepthAnythingForDepthEstimation(config)
    return Built(model, IMAGE, lambda m, x: m(x).predicted_depth)


class Upscaler(nn.Module):
    """Residual blocks and a pixel shuffle, plus the image enlarged by bicubic interpolation."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.middle = nn.Conv2d(3, 16, 3, 1, 1), nn.Conv2d(16, 16, 3, 1, 1)
        self.last = nn.Conv2d(16, 12, 3, 1, 1)

    def forward(self, x: Any) -> Any:
        y = self.first(x).relu()
        y = nn.functional.pixel_shuffle(self.last(y + self.middle(y).relu()), 2)
        return y + nn.functional.interpolate(x, scale_factor=2, mode="bicubic")


@network(*PICTURES)
def upscaler() -> Built:
    return Built(Upscaler(), IMAGE)


class WindowRestorer(nn.Module):
    """Image padded to windows by reflection, attention within them, cut to its size: SwinIR."""

    def __init__(self, window: int = 8) -> None:
        super().__init__()
        self.window = window
        self.into, self.out = nn.Conv2d(3, 16, 3, 1, 1), nn.Conv2d(16, 3, 3, 1, 1)
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)

    def forward(self, x: Any) -> Any:
        _, _, height, width = x.shape
        w = self.window
        x = nn.functional.pad(x, (0, (w - width % w) % w, 0, (w - height % w) % w), "reflect")
        y = self.into(x)
        n, c, rows, columns = y.shape
        y = y.view(n, c, rows // w, w, columns // w, w).permute(0, 2, 4, 3, 5, 1)
        y = y.reshape(-1, w * w, c)
        y = y + self.attention(y, y, y, need_weights=False)[0]
        y = y.view(n, rows // w, columns // w, w, w, c).permute(0, 5, 1, 3, 2, 4)
        return self.out(y.reshape(n, c, rows, columns))[:, :, :height, :width]


@network(*PICTURES)
def swinir_like() -> Built:
    return Built(WindowRestorer(), IMAGE)


class DiffusionUnet(nn.Module):
    """U-Net with a time embedding, group normalisation, and attention at the lowest resolution."""

    def __init__(self) -> None:
        super().__init__()
        self.time = nn.Sequential(nn.Linear(16, 32), nn.SiLU(), nn.Linear(32, 16))
        self.first, self.down = nn.Conv2d(4, 16, 3, 1, 1), nn.Conv2d(16, 16, 3, 2, 1)
        self.norm = nn.GroupNorm(4, 16)
        self.query, self.text = nn.Linear(16, 16), nn.Linear(24, 32)
        self.up, self.last = nn.Conv2d(32, 16, 3, 1, 1), nn.Conv2d(16, 4, 3, 1, 1)

    def forward(self, sample: Any, timestep: Any, states: Any) -> Any:
        steps = torch.exp(torch.arange(8) * -0.5)
        angles = timestep[:, None].to(torch.float32) * steps
        time = self.time(torch.cat([angles.cos(), angles.sin()], -1))
        skip = self.first(sample) + time[:, :, None, None]
        x = nn.functional.silu(self.norm(self.down(skip)))
        n, c, height, width = x.shape
        keys, values = self.text(states).chunk(2, -1)
        rows = self.query(x.flatten(2).transpose(1, 2))
        heads = (each[:, None] for each in (rows, keys, values))
        rows = nn.functional.scaled_dot_product_attention(*heads)[:, 0]
        x = x + rows.transpose(1, 2).reshape(n, c, height, width)
        x = nn.functional.interpolate(x, size=skip.shape[2:], mode="nearest")
        return self.last(self.up(torch.cat([x, skip], 1)).relu())


@network(
    {"batch": 2, "height": 16, "width": 24, "length": 7},
    {"batch": 1, "height": 8, "width": 8, "length": 1}, {"height": 32, "width": 16, "length": 9},
    {"batch": 1, "height": 17, "width": 25, "length": 5},
    {"batch": 1, "height": 96, "width": 128, "length": 56},
)  # fmt: skip
def diffusion_unet() -> Built:
    inputs = {"sample": Input(("batch", 4, "height", "width")),
              "timestep": Input(("batch",), "ids", 900),
              "states": Input(("batch", "length", 24))}  # fmt: skip
    return Built(DiffusionUnet(), inputs)


@network(
    {"batch": 2, "images": 3, "texts": 2}, {"images": 1, "texts": 1}, {"images": 2, "texts": 5},
    {"images": 4, "texts": 4}, {"images": 16, "texts": 20},
)  # fmt: skip
def clip() -> Built:
    """Both towers, with the similarity of each image to each text."""
    config = transformers.CLIPConfig(
        text_config={"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1,
                     "num_attention_heads": 4, "vocab_size": 50, "eos_token_id": 2},
        vision_config={"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1,
                       "num_attention_heads": 4, "image_size": 32, "patch_size": 16},
        projection_dim=16,
    )  # fmt: skip
    inputs = {"input_ids": Input(("texts", 8), "ids"),
              "pixel_values": Input(("images", 3, 32, 32)),
              "attention_mask": Input(("texts", 8), "mask")}  # fmt: skip

    def call(model: Any, ids: Any, pixels: Any, mask: Any) -> Any:
        found = model(input_ids=ids, pixel_values=pixels, attention_mask=mask)
        return found.logits_per_image, found.text_embeds, found.image_embeds

    return Built(transformers.CLIPModel(config), inputs, call)
