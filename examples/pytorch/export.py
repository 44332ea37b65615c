"""A small network of PyTorch, with what it answers: ``keyword.onnx`` and ``keyword.npz``.

    python examples/pytorch/export.py [FOLDER]

It reads 16 features of each frame of a sound, of any number of frames, for any number of sounds,
and classifies it as one of ten words. Its weights are random. Needs torch and onnxscript.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
import torch
from torch import nn


class Keyword(nn.Module):
    """Two convolutions over time, the mean of what they find, and a score for each word.

    Input: float32 ``[batch, 16, frames]``, from 8 frames on. Output: float32 ``[batch, 10]``, the
    logarithm of the probabilities.
    """

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv1d(16, 24, 5, stride=2, padding=2), nn.BatchNorm1d(24), nn.ReLU(),
            nn.Conv1d(24, 24, 3, padding=1, groups=24), nn.Conv1d(24, 32, 1), nn.Hardswish(),
        )  # fmt: skip
        self.words = nn.Linear(32, 10)

    def forward(self, sound: torch.Tensor) -> torch.Tensor:
        return self.words(self.features(sound).mean(dim=-1)).log_softmax(dim=-1)


def without_notes(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model without what the exporter notes at each node: paths and lines of its sources."""
    for part in (model.graph, *model.graph.node, *model.graph.value_info, *model.graph.initializer):
        part.ClearField("metadata_props")
        part.ClearField("doc_string")
    return model


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent)
    torch.manual_seed(7)
    model = Keyword().eval()
    batch, frames = torch.export.Dim("batch"), torch.export.Dim("frames", min=8)
    program = torch.onnx.export(
        model, (torch.randn(2, 16, 50),), dynamo=True, input_names=["sound"],
        output_names=["words"], dynamic_shapes={"sound": {0: batch, 2: frames}},
    )  # fmt: skip
    onnx.save(without_notes(program.model_proto), folder / "keyword.onnx")
    answers = {}
    with torch.no_grad():
        for size in ((1, 8), (3, 49), (2, 200)):
            sound = torch.randn(size[0], 16, size[1])
            answers["sound_{}x{}".format(*size)] = sound.numpy()
            answers["words_{}x{}".format(*size)] = model(sound).numpy()
    np.savez(folder / "keyword.npz", **answers)


if __name__ == "__main__":
    main()
