"""Segmentation networks of the sweep, and the mask decoder of Segment Anything."""

from __future__ import annotations

from typing import Any

import torch
import torchvision
import transformers
from entries import Built, Input, network
from torch import nn
from vision import IMAGE, MULTIPLES, PICTURES


class Block(nn.Module):
    """Convolution, batch normalisation and ReLU."""

    def __init__(self, channels: int, out: int, stride: int = 1) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(channels, out, 3, stride, 1), nn.BatchNorm2d(out)

    def forward(self, x: Any) -> Any:
        return self.norm(self.conv(x)).relu()


class NestedUnet(nn.Module):
    """U-Net++: each decoder block reads all blocks of its level."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.ModuleList([Block(3, 8), Block(8, 8, 2), Block(8, 8, 2)])
        self.inner = nn.ModuleList([Block(16, 8), Block(16, 8), Block(24, 8)])
        self.head = nn.Conv2d(8, 3, 1)

    def up(self, x: Any, like: Any) -> Any:
        return nn.functional.interpolate(x, size=like.shape[2:], mode="nearest")

    def forward(self, x: Any) -> Any:
        a = self.encoder[0](x)
        b = self.encoder[1](a)
        c = self.encoder[2](b)
        a1 = self.inner[0](torch.cat([self.up(b, a), a], 1))
        b1 = self.inner[1](torch.cat([self.up(c, b), b], 1))
        return self.head(self.inner[2](torch.cat([self.up(b1, a), a, a1], 1)))


@network(*PICTURES)
def unet_plus_plus() -> Built:
    return Built(NestedUnet(), IMAGE, calibrated=True)


class UnetTransposed(nn.Module):
    """U-Net with transposed convolutions, whose results are padded to the skips."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = Block(3, 8), Block(8, 16), Block(16, 16)
        self.up = nn.ConvTranspose2d(16, 8, 2, 2)
        self.last = nn.Conv2d(16, 2, 1)

    def forward(self, x: Any) -> Any:
        skip = self.first(x)
        x = self.third(self.second(nn.functional.max_pool2d(skip, 2)))
        x = self.up(x)
        dy, dx = skip.shape[2] - x.shape[2], skip.shape[3] - x.shape[3]
        x = nn.functional.pad(x, [dx // 2, dx - dx // 2, dy // 2, dy - dy // 2])
        return self.last(torch.cat([skip, x], 1))


@network(*PICTURES)
def unet_padded() -> Built:
    return Built(UnetTransposed(), IMAGE, calibrated=True)


class PyramidPooling(nn.Module):
    """PSPNet: averages of regions in several grids, enlarged to the image."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(Block(3, 8, 2), Block(8, 16, 2))
        self.parts = nn.ModuleList([nn.Conv2d(16, 4, 1) for _ in range(4)])
        self.head = nn.Conv2d(32, 5, 3, 1, 1)

    def pooled(self, x: Any, cells: int) -> Any:
        """Average of regions with matrices of weights, which every exporter can write."""
        found = x
        for axis in (2, 3):
            size = x.shape[axis]
            places = torch.arange(size)[None]
            cell = torch.arange(cells)[:, None]
            begin, end = cell * size // cells, ((cell + 1) * size + cells - 1) // cells
            weights = ((places >= begin) & (places < end)).to(x.dtype)
            weights = weights / weights.sum(1, keepdim=True)
            found = (found.transpose(axis, 3) @ weights.t()).transpose(axis, 3)
        return found

    def forward(self, image: Any) -> Any:
        x = self.encoder(image)
        found = [x]
        for part, cells in zip(self.parts, (1, 2, 3, 6)):
            y = part(self.pooled(x, cells))
            found.append(nn.functional.interpolate(y, size=x.shape[2:], mode="bilinear"))
        y = self.head(torch.cat(found, 1))
        return nn.functional.interpolate(y, size=image.shape[2:], mode="bilinear").argmax(1)


@network(*PICTURES)
def pspnet_like() -> Built:
    return Built(PyramidPooling(), IMAGE, calibrated=True)


@network(*PICTURES)
def deeplab() -> Built:
    model = torchvision.models.segmentation.lraspp_mobilenet_v3_large(
        weights=None, weights_backbone=None, num_classes=5
    )
    return Built(model, IMAGE, lambda m, x: m(x)["out"], calibrated=True)


@network(*PICTURES)
def segformer() -> Built:
    config = transformers.SegformerConfig(
        num_encoder_blocks=2, depths=[1, 1], sr_ratios=[4, 2], hidden_sizes=[16, 32],
        patch_sizes=[7, 3], strides=[4, 2], num_attention_heads=[1, 2], mlp_ratios=[2, 2],
        decoder_hidden_size=16, num_labels=5,
    )  # fmt: skip
    model = transformers.SegformerForSemanticSegmentation(config)
    return Built(model, IMAGE, lambda m, x: m(x).logits)


POINTS = (
    {"batch": 1, "points": 3, "boxes": 2}, {"points": 1, "boxes": 1}, {"points": 2, "boxes": 4},
    {"points": 5, "boxes": 3}, {"points": 24, "boxes": 12},
)  # fmt: skip


def _sam() -> Any:
    config = transformers.SamConfig(
        vision_config={"hidden_size": 32, "output_channels": 32, "num_hidden_layers": 2,
                       "num_attention_heads": 4, "image_size": 64, "patch_size": 8,
                       "num_pos_feats": 16, "window_size": 3, "global_attn_indexes": [1],
                       "mlp_dim": 64},
        prompt_encoder_config={"hidden_size": 32, "image_size": 64, "patch_size": 8,
                               "mask_input_channels": 4},
        mask_decoder_config={"hidden_size": 32, "mlp_dim": 64, "num_hidden_layers": 2,
                             "num_attention_heads": 4, "iou_head_hidden_dim": 32},
    )  # fmt: skip
    return transformers.SamModel(config)


@network(*POINTS)
def sam_mask_decoder() -> Built:
    """Prompt encoder and mask decoder for sets of points."""
    inputs = {"image_embeddings": Input((1, 32, 8, 8)),
              "input_points": Input((1, "boxes", "points", 2)),
              "input_labels": Input((1, "boxes", "points"), "ids", 2)}  # fmt: skip

    def call(model: Any, embeddings: Any, points: Any, labels: Any) -> Any:
        found = model(
            image_embeddings=embeddings, input_points=points, input_labels=labels,
            multimask_output=True,
        )  # fmt: skip
        return found.pred_masks, found.iou_scores

    return Built(_sam(), inputs, call)


class SamDecoder(nn.Module):
    """Decoder of the original export: masks are enlarged to the size of the original image, which
    is an input."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(4, 32)
        self.points = nn.Linear(2, 32)
        self.attention = nn.MultiheadAttention(32, 4, batch_first=True)
        self.up = nn.ConvTranspose2d(32, 8, 2, 2)
        self.filters = nn.Linear(32, 8)

    def forward(self, image: Any, points: Any, labels: Any, size: Any) -> Any:
        sparse = self.points(points) * (labels != -1).unsqueeze(-1)
        tokens = torch.cat([self.tokens.weight[None].expand(points.shape[0], -1, -1), sparse], 1)
        rows = image.flatten(2).transpose(1, 2)
        tokens = tokens + self.attention(tokens, rows, rows, need_weights=False)[0]
        masks = torch.einsum("btc,bchw->bthw", self.filters(tokens[:, :4]), self.up(image))
        height, width = size[0], size[1]
        return nn.functional.interpolate(masks, (height, width), mode="bilinear")


@network(*POINTS, exporters=("script",))
def sam_like() -> Built:
    """The size of the result is an operand."""
    inputs = {"image": Input((1, 32, 8, 8)), "points": Input((1, "points", 2)),
              "labels": Input((1, "points"), "ids", 2), "size": Input((2,), "ids", 60)}  # fmt: skip
    return Built(SamDecoder(), inputs)


@network(*MULTIPLES)
def mask2former_like() -> Built:
    """Queries with masked attention over pixels; the masks are products of both."""
    return Built(QueryMasks(), IMAGE, calibrated=True)


class QueryMasks(nn.Module):
    """Segmentation by queries: attention is limited to the pixels of each query's last mask."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(Block(3, 16, 2), Block(16, 32, 2))
        self.low = Block(32, 32, 2)
        self.queries = nn.Embedding(10, 32)
        self.key, self.value = nn.Linear(32, 32), nn.Linear(32, 32)
        self.labels = nn.Linear(32, 6)

    def forward(self, x: Any) -> Any:
        pixels = self.encoder(x)
        low = self.low(pixels)
        queries = self.queries.weight[None].expand(x.shape[0], -1, -1)
        for _ in range(2):
            masks = torch.einsum("bqc,bchw->bqhw", queries, pixels)
            small = nn.functional.interpolate(masks, size=low.shape[2:], mode="bilinear")
            blocked = (small.sigmoid() < 0.5).flatten(2)
            blocked = blocked & ~blocked.all(-1, keepdim=True)
            rows = low.flatten(2).transpose(1, 2)
            scores = queries @ self.key(rows).transpose(1, 2) / 32**0.5
            scores = scores.masked_fill(blocked, float("-inf")).softmax(-1)
            queries = queries + scores @ self.value(rows)
        return self.labels(queries), torch.einsum("bqc,bchw->bqhw", queries, pixels)
