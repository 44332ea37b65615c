"""Float layers of microcontrollers as their kernels see them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...c.initializers import float_literal
from .kernel import MicroKernel, pad_to_multiple
from .shape import MicroShape


@dataclass(frozen=True)
class MicroLayerF32:
    """A float layer.

    ``w``: [out_c, in_c / groups, rows, columns]; ``bias``: of all channels, or None; ``low`` and
    ``high``: clamp bounds; ``may_overwrite_input``: the result may overwrite the input;
    ``only_clamps``: nothing but clamping follows the sums.
    """

    shape: MicroShape
    w: np.ndarray
    bias: np.ndarray | None = None
    low: float = -np.inf
    high: float = np.inf
    may_overwrite_input: bool = False
    only_clamps: bool = False

    @property
    def parts(self) -> tuple[MicroLayerF32]:
        return (self,)

    @property
    def weights(self) -> np.ndarray:
        """[out_c, element of the window], channels innermost."""
        return self.w.transpose(0, 2, 3, 1).reshape(len(self.w), -1)

    @property
    def biases(self) -> np.ndarray:
        """One per channel, zeros if the bias is None."""
        if self.bias is None:
            return np.zeros(self.shape.out_c, np.float32)
        return self.bias.reshape(-1).astype(np.float32)

    def members(self, kernel: MicroKernel, residual_stride: int) -> dict[str, object]:
        """Return the members of the layer's ``tvmrt_micro_conv_f32``."""
        return {
            "shape": self.shape.members(kernel.scratch(self)),
            "residual_stride": residual_stride,
            "lo": float_literal(self.low),
            "hi": float_literal(self.high),
        }


def pack_blocks_of_4(layer: MicroLayerF32) -> np.ndarray:
    """Pack weights as [four output channels][element of the window][channel]."""
    full = pad_to_multiple(layer.weights, 4)
    fours = full.reshape(-1, 4, full.shape[1]).transpose(0, 2, 1)
    return np.ascontiguousarray(fours).reshape(-1)
