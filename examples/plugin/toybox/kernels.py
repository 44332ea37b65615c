"""A kernel for processors with the feature "toycore"."""

from pathlib import Path

import numpy as np

from tvmrt.compiler.sdk.codegen import Im2colBuffer, MicroKernel, MicroLayerF32, MicroWeights

INCLUDE = Path(__file__).parent / "include"
KERNEL: MicroKernel[MicroLayerF32] = MicroKernel(
    header="board/toy_rows_f32.h",
    name="toy_rows_f32",
    cost=1.0,
    supports=lambda layer: layer.shape.pointwise and layer.only_clamps,
    pack=lambda layer: MicroWeights(np.ascontiguousarray(layer.weights.T), layer.biases),
    scratch=lambda layer: Im2colBuffer(layer.shape.elements, 0),
    required_features=frozenset({"toycore"}),
    may_overwrite_input=False,  # it reads a pixel again for each channel that it writes
)
