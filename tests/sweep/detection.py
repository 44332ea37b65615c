"""Detectors of the sweep: transformers, torchvision's with proposals, and one-stage heads."""

from __future__ import annotations

from typing import Any

import torch
import torchvision
import transformers
from entries import Built, Input, network
from segmentation import Block
from torch import nn
from torchvision.models import detection, resnet
from vision import IMAGE, MULTIPLES, PICTURES

SCENES = ({"height": 64, "width": 96}, {"height": 48, "width": 48}, {"height": 96, "width": 64},
          {"height": 70, "width": 83}, {"height": 256, "width": 352})  # fmt: skip
ONE = {"pixel_values": Input((1, 3, "height", "width"), "unit")}


def _backbone(stages: list[int] | None = None) -> Any:
    return transformers.RTDetrResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], layer_type="basic",
        out_features=["stage2", "stage3", "stage4"],
    )  # fmt: skip


def _rtdetr_options(**more: Any) -> dict[str, Any]:
    return {
        "backbone_config": _backbone(), "encoder_hidden_dim": 32, "encoder_ffn_dim": 32,
        "encoder_attention_heads": 4, "encoder_in_channels": [16, 24, 32], "d_model": 32,
        "num_queries": 20, "decoder_in_channels": [32, 32, 32], "decoder_ffn_dim": 32,
        "decoder_layers": 2, "decoder_attention_heads": 4, "num_denoising": 0,
        "hidden_expansion": 0.5, "num_labels": 5, "anchor_image_size": None, **more,
    }  # fmt: skip


def _boxes(model: Any, pixels: Any) -> Any:
    found = model(pixel_values=pixels)
    return found.logits, found.pred_boxes


@network(*MULTIPLES)
def rtdetr() -> Built:
    """The best queries of all pixels by TopK, deformable attention."""
    config = transformers.RTDetrConfig(**_rtdetr_options())
    return Built(transformers.RTDetrForObjectDetection(config), IMAGE, _boxes, calibrated=True)


@network(*MULTIPLES)
def dfine() -> Built:
    config = transformers.DFineConfig(**_rtdetr_options(max_num_bins=8))
    return Built(transformers.DFineForObjectDetection(config), IMAGE, _boxes, calibrated=True)


def _resnet() -> Any:
    return transformers.ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], layer_type="basic",
        out_features=["stage2", "stage3", "stage4"],
    )  # fmt: skip


@network(*MULTIPLES)
def detr() -> Built:
    config = transformers.DetrConfig(
        backbone_config=_resnet(), use_timm_backbone=False, use_pretrained_backbone=False,
        d_model=32, encoder_layers=1, decoder_layers=1, encoder_ffn_dim=32, decoder_ffn_dim=32,
        encoder_attention_heads=4, decoder_attention_heads=4, num_queries=10, num_labels=5,
        backbone=None,
    )  # fmt: skip
    return Built(transformers.DetrForObjectDetection(config), IMAGE, _boxes, calibrated=True)


@network(*MULTIPLES)
def deformable_detr() -> Built:
    config = transformers.DeformableDetrConfig(
        backbone_config=_resnet(), use_timm_backbone=False, use_pretrained_backbone=False,
        d_model=32, encoder_layers=1, decoder_layers=2, encoder_ffn_dim=32, decoder_ffn_dim=32,
        encoder_attention_heads=4, decoder_attention_heads=4, num_queries=10, num_labels=5,
        num_feature_levels=3, backbone=None, disable_custom_kernels=True,
    )  # fmt: skip
    model = transformers.DeformableDetrForObjectDetection(config)
    return Built(model, IMAGE, _boxes, calibrated=True)


@network(*MULTIPLES)
def yolos() -> Built:
    config = transformers.YolosConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
        image_size=[64, 96], patch_size=16, num_detection_tokens=10, num_labels=5,
        use_mid_position_embeddings=False,
    )  # fmt: skip
    return Built(transformers.YolosForObjectDetection(config), IMAGE, _boxes)


def _pyramid() -> Any:
    body = resnet.ResNet(resnet.BasicBlock, [1, 1, 1, 1], norm_layer=nn.BatchNorm2d)
    return detection.backbone_utils.BackboneWithFPN(
        body, {"layer2": "0", "layer3": "1", "layer4": "2"}, [128, 256, 512], 16,
        extra_blocks=torchvision.ops.feature_pyramid_network.LastLevelMaxPool(),
    )  # fmt: skip


ANCHORS = detection.rpn.AnchorGenerator(((8,), (16,), (32,), (64,)), ((0.5, 1.0, 2.0),) * 4)


def of_torchvision(model: Any, *keys: str) -> Built:
    """Return a detector of one image, with these results."""

    def call(model: Any, pixels: Any) -> Any:
        found = model([pixels[0]])
        found = found[1] if isinstance(found, tuple) else found
        return tuple(found[0][key] for key in keys)

    for each in model.modules():  # weights of heads are so small that all scores are alike
        if isinstance(each, (nn.Conv2d, nn.Linear)) and each.weight.std() < 0.02:
            nn.init.normal_(each.weight, std=0.1)
    return Built(model, ONE, call)


@network(*SCENES)
def maskrcnn() -> Built:
    model = detection.MaskRCNN(
        _pyramid(), 4, min_size=64, max_size=128, rpn_anchor_generator=ANCHORS,
        rpn_pre_nms_top_n_test=40, rpn_post_nms_top_n_test=12, box_detections_per_img=8,
        box_score_thresh=0.01,
    )  # fmt: skip
    return of_torchvision(model, "boxes", "labels", "scores", "masks")


@network(*SCENES)
def retinanet() -> Built:
    model = detection.RetinaNet(
        _pyramid(), 4, min_size=64, max_size=128, anchor_generator=ANCHORS, topk_candidates=30,
        detections_per_img=10, score_thresh=0.005,
    )  # fmt: skip
    return of_torchvision(model, "boxes", "labels", "scores")


@network(*SCENES)
def fasterrcnn() -> Built:
    model = detection.FasterRCNN(
        _pyramid(), 4, min_size=64, max_size=128, rpn_anchor_generator=ANCHORS,
        rpn_pre_nms_top_n_test=40, rpn_post_nms_top_n_test=12, box_detections_per_img=8,
        box_score_thresh=0.01,
    )  # fmt: skip
    return of_torchvision(model, "boxes", "labels", "scores")


class YoloHead(nn.Module):
    """Backbone with a pyramid and a decoupled head; anchors are made from the sizes of the feature
    maps, distances are decoded from distributions."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(Block(3, 8, 2), Block(8, 16, 2))
        self.pool = nn.MaxPool2d(5, 1, 2)
        self.down = Block(16, 16, 2)
        self.fuse = Block(32, 16)
        self.boxes, self.classes = nn.Conv2d(16, 4 * 8, 1), nn.Conv2d(16, 3, 1)

    def anchors(self, maps: list[Any]) -> tuple[Any, Any]:
        points, strides = [], []
        for each, stride in zip(maps, (4.0, 8.0)):
            height, width = each.shape[2:]
            y, x = torch.meshgrid(
                torch.arange(height) + 0.5, torch.arange(width) + 0.5, indexing="ij"
            )
            points.append(torch.stack([x, y], -1).view(-1, 2))
            strides.append(torch.full((height * width, 1), stride))
        return torch.cat(points), torch.cat(strides)

    def forward(self, x: Any) -> Any:
        a = self.stem(x)
        b = self.down(a)
        b = b + self.pool(b)
        a = self.fuse(torch.cat([a, nn.functional.interpolate(b, size=a.shape[2:])], 1))
        maps = [a, b]
        boxes = torch.cat([self.boxes(each).flatten(2) for each in maps], 2)
        classes = torch.cat([self.classes(each).flatten(2) for each in maps], 2)
        points, strides = self.anchors(maps)
        parts = boxes.view(x.shape[0], 4, 8, -1).softmax(2)
        sides = (parts * torch.arange(8.0)[None, None, :, None]).sum(2)
        low, high = points.t() - sides[:, :2], points.t() + sides[:, 2:]
        return torch.cat([low, high], 1) * strides.t(), classes.sigmoid()


@network(*PICTURES)
def yolo_like() -> Built:
    return Built(YoloHead(), IMAGE, calibrated=True)


class YoloTopk(nn.Module):
    """Head without suppression, as YOLOv10: the best boxes by TopK and Gather."""

    def __init__(self) -> None:
        super().__init__()
        self.yolo = YoloHead()

    def forward(self, x: Any) -> Any:
        boxes, scores = self.yolo(x)
        best, labels = scores.max(1)
        values, places = best.topk(20)
        rows = boxes.transpose(1, 2).gather(1, places.unsqueeze(-1).expand(-1, -1, 4))
        return rows, values, labels.gather(1, places)


@network(*PICTURES)
def yolo_topk() -> Built:
    return Built(YoloTopk(), IMAGE, calibrated=True)


class YoloSuppressed(nn.Module):
    """Head with suppression of overlapping boxes in the network."""

    def __init__(self) -> None:
        super().__init__()
        self.yolo = YoloHead()

    def forward(self, x: Any) -> Any:
        boxes, scores = self.yolo(x)
        boxes, (best, labels) = boxes[0].t(), scores[0].max(0)
        chosen = best > best.mean()
        boxes, best, labels = boxes[chosen], best[chosen], labels[chosen]
        kept = torchvision.ops.nms(boxes, best, 0.5)
        return boxes[kept], best[kept], labels[kept]


@network(*SCENES)
def yolo_nms() -> Built:
    return Built(YoloSuppressed(), ONE, calibrated=True)


@network(
    {"boxes": 5, "height": 16, "width": 24}, {"boxes": 1, "height": 9, "width": 9},
    {"boxes": 8, "height": 24, "width": 16}, {"boxes": 3, "height": 17, "width": 13},
    {"boxes": 40, "height": 64, "width": 96},
)  # fmt: skip
def roi_head() -> Built:
    """Second stage: regions of a feature map, and a classifier of each."""
    inputs = {"features": Input((1, 8, "height", "width")), "boxes": Input(("boxes", 4), "boxes")}

    def call(model: Any, features: Any, boxes: Any) -> Any:
        zeros = torch.zeros(boxes.shape[0], 1)
        rows = torch.cat([zeros, boxes], 1)
        found = torchvision.ops.roi_align(features, rows, (3, 3), sampling_ratio=2)
        return model(found.flatten(1))

    return Built(nn.Linear(72, 5), inputs, call)


@network(*SCENES)
def keypoints() -> Built:
    """Maxima of a heat map above a threshold, with a descriptor of each, as SuperPoint."""
    return Built(HeatMap(), ONE, calibrated=True)


class HeatMap(nn.Module):
    """Local maxima by pooling, their coordinates by NonZero, descriptors by grid_sample."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(Block(3, 8), Block(8, 8))
        self.score, self.descriptors = nn.Conv2d(8, 1, 1), nn.Conv2d(8, 16, 3, 2, 1)

    def forward(self, x: Any) -> Any:
        features = self.encoder(x)
        scores = self.score(features).sigmoid()[0, 0]
        best = nn.functional.max_pool2d(scores[None, None], 5, 1, 2)[0, 0]
        places = torch.nonzero((scores == best) & (scores > 0.1))
        height, width = scores.shape
        sizes = torch.tensor([width - 1, height - 1], dtype=torch.float32)
        grid = places.flip(1).to(torch.float32) / sizes * 2 - 1
        rows = nn.functional.grid_sample(
            self.descriptors(features), grid[None, None], align_corners=True
        )[0, :, 0]
        return places, scores[places[:, 0], places[:, 1]], nn.functional.normalize(rows, dim=0)
