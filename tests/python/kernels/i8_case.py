"""Int8 convolutions as layers of a weight format, and the formats that this processor can run."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from kernel_build import OPTIMISE

from tvmrt.compiler import processor
from tvmrt.compiler.codegen.geometry import Window
from tvmrt.compiler.codegen.window.layer_i8 import LayerI8

AMX = "amx_int8" in processor.flags()
FLAGS = {
    # on other processors, by a model of the registers
    "amx": [
        *[*OPTIMISE, "-march=native"],
        *([] if AMX else ["-include", str(Path(__file__).parent / "amx_model.h")]),
    ],
    "vnni512": [*OPTIMISE, "-march=native"],
    # in AVX-512 encoding: no processor with the VEX encoding is available
    "avxvnni": [*OPTIMISE, "-mavx2", "-mfma", "-mavx512vl", "-mavx512vnni"],
    "avx2": [*OPTIMISE, "-mavx2", "-mfma", "-mno-avx512f"],
    "plain": ["-O2"],
}


@lru_cache(maxsize=1)
def usable_formats() -> tuple[str, ...]:
    """Return the formats that this processor can run."""
    try:
        flags = Path("/proc/cpuinfo").read_text().split()
    except OSError:
        flags = []
    names = ["plain"]
    if "avx2" in flags and "fma" in flags:
        names.append("avx2")
    if "avx512_vnni" in flags and "avx512bw" in flags and "avx512vl" in flags:
        names += ["vnni512", "avxvnni", "amx"]
    if AMX:  # arch_prctl(ARCH_REQ_XCOMP_PERM, XTILEDATA): Linux enables the registers on request
        assert ctypes.CDLL(None).syscall(158, 0x1023, 18) == 0
    return tuple(names)


@dataclass(frozen=True)
class Shape:
    """A convolution as ONNX describes it; pads are (start, end) per axis."""

    batch: int = 1
    in_c: int = 8
    out_c: int = 8
    size: tuple[int, ...] = (7, 7)
    kernel: tuple[int, ...] = (3, 3)
    stride: tuple[int, ...] = (1, 1)
    dilation: tuple[int, ...] = (1, 1)
    pad: tuple[tuple[int, int], ...] = ((1, 1), (1, 1))
    groups: int = 1

    @property
    def out(self) -> tuple[int, ...]:
        return tuple(
            (s + sum(p) - (k - 1) * d - 1) // st + 1
            for s, p, k, d, st in zip(self.size, self.pad, self.kernel, self.dilation, self.stride)
        )


def three(values: tuple[int, ...], fill: int) -> tuple[int, int, int]:
    """Return the last three extents, padded in front with `fill`."""
    return (*([fill] * (3 - len(values))), *values)  # type: ignore[return-value]


def layer(s: Shape, x_signed: bool, x_zero: int, threads: int = 0) -> LayerI8:
    pads = tuple(p[0] for p in s.pad)
    window = Window(
        s.batch,
        three(s.size, 1),
        three(s.out, 1),
        s.in_c,
        s.out_c,
        three(s.kernel, 1),
        three(s.stride, 1),
        three(s.dilation, 1),
        three(pads, 0),
    )
    return LayerI8(window, s.in_c, s.out_c, s.groups, x_signed, x_zero, threads)


def random_bytes(rng: np.random.Generator, signed: bool, shape: tuple[int, ...]) -> np.ndarray:
    low = -128 if signed else 0
    return rng.integers(low, low + 256, shape).astype(np.int8 if signed else np.uint8)


def requantise(acc: np.ndarray, scale: np.ndarray, zero: int, low: int, high: int) -> np.ndarray:
    """Compute clamp(round_half_even(float32(acc) * scale) + zero)."""
    q = np.rint(acc.astype(np.float32) * scale.astype(np.float32)).astype(np.int64) + zero
    return np.clip(q, low, high)


def int8_range(
    zero: int, signed: bool, low: int | None = None, high: int | None = None
) -> np.ndarray:
    """Return a tvmrt_i8_range."""
    least = -128 if signed else 0
    return np.array(
        [zero, least if low is None else low, least + 255 if high is None else high, signed],
        np.int32,
    )
