"""Weights of the float kernels of microcontrollers (``kernels/board/*_f32.h``)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tvmrt.ir.rounding import round_up

from .shape import MicroShape, Ring, Windows, ring_of_rows

STACK_WINDOWS = 128  # bytes, TVMRT_MICRO_F32_STACK_WINDOWS
PIXELS = 4  # TVMRT_MICRO_F32_PIXELS
SMALL_MACS = 512  # of a product whose code is to be small rather than fast


@dataclass(frozen=True)
class MicroLayer:
    """A float layer as the kernels of microcontrollers compute it.

    ``over_input``: whether its result may come to lie where its input lies.
    """

    shape: MicroShape
    over_input: bool

    @property
    def header(self) -> str:
        return f"board/{self._kind}_f32.h"

    @property
    def function(self) -> str:
        return f"tvmrt_micro_{self._kind}_f32_run"

    @property
    def _kind(self) -> str:
        return "depthwise" if self.shape.depthwise else "conv"

    @property
    def scratch(self) -> Windows | Ring:
        """What the kernel keeps in scratch."""
        if self.shape.depthwise:
            return ring_of_rows(self.shape, 4)
        few, length = self.shape.pixels < PIXELS, self.shape.window
        if few and self.shape.pointwise and not self.over_input:
            return Windows(length, 0)  # they are read where they lie
        windows = (1 if few else PIXELS) * length * 4
        return Windows(length, windows if windows > STACK_WINDOWS else 0)

    def initializer(self, residual_stride: int, low: str, high: str) -> list[str]:
        """The members of the layer's ``tvmrt_micro_conv_f32``."""
        shape = self.shape.initializer(self.scratch)
        return [
            f".shape = {shape}",
            f".residual_stride = {residual_stride}",
            f".lo = {low}",
            f".hi = {high}",
        ]

    def pack(self, weights: np.ndarray) -> np.ndarray:
        """Weights [out_c, in_c / groups, rows, columns] by four output channels."""
        flat = weights.transpose(0, 2, 3, 1).reshape(len(weights), -1)
        full = np.zeros((round_up(len(flat), 4), flat.shape[1]), np.float32)
        full[: len(flat)] = flat
        fours = full.reshape(-1, 4, flat.shape[1]).transpose(0, 2, 1)
        return np.ascontiguousarray(fours).reshape(-1)

    def pad_channels(self, bias: np.ndarray | None) -> np.ndarray:
        """Biases, zeros for None, to a multiple of four."""
        out = np.zeros(round_up(self.shape.out_c, 4), np.float32)
        if bias is not None:
            out[: self.shape.out_c] = bias.reshape(-1)
        return out


def pack_dense(weights: np.ndarray, bias: np.ndarray | None) -> np.ndarray:
    """[inputs, results] and a bias per result, for ``tvmrt_micro_dense_f32``."""
    first = np.zeros((weights.shape[1], 1), np.float32)
    if bias is not None:
        first[:, 0] = bias.reshape(-1)
    return np.concatenate([first, weights.T.astype(np.float32)], axis=1).reshape(-1)
