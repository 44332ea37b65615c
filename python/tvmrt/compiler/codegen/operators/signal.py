"""Integer audio feature extraction, and fast Fourier transforms."""

from __future__ import annotations

from functools import cache
from math import prod

import numpy as np

from tvmrt.compiler.ir.dtype import to_integers
from tvmrt.compiler.ir.program import Step
from tvmrt.compiler.ir.signal import radices

from ..c.initializers import print_static_struct, print_struct
from ..c.inputs import input_pointer, input_pointers
from ..c.writer import FunctionWriter
from ..lowering import Lowering, Scratch, lowers


@lowers("signal_filter_bank")
class FilterBankLowering(Lowering):
    def macs(self) -> int:
        return 2 * self.node.inputs[1].type.size

    def emit(self, step: Step, f: FunctionWriter) -> None:
        f.include("op/signal.h")
        names = ("weights", "unweights", "first", "first_weight", "widths")
        tables = dict(zip(names, input_pointers(f, *names, first=1)))
        tables["channels"] = str(self.node.output.type.size)
        print_struct(f, "const tvmrt_signal_bank bank", tables)
        x = input_pointer(f, 0, "x")
        f.line(f"tvmrt_signal_filter_bank(&bank, {x}, {f.write()});")


def _twiddle_factors(phases: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return e^(i phase) as pairs; in fixed point, halves are rounded up."""
    pairs = np.stack([np.cos(phases), np.sin(phases)], axis=-1)
    if dtype.kind == "f":
        return pairs.astype(dtype)
    return to_integers(np.floor(0.5 + np.iinfo(dtype).max * pairs), dtype)


@cache
def tables(size: int, inverse: bool, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the twiddle factors of a complex FFT, and of its conversion from or to real data."""
    sign, kind = 1 if inverse else -1, np.dtype(dtype)
    stages = sign * 2 * np.pi * np.arange(size) / size
    splitting = sign * np.pi * ((np.arange(size // 2) + 1) / size + 0.5)
    return _twiddle_factors(stages, kind), _twiddle_factors(splitting, kind)


def _print_tables(f: FunctionWriter, size: int, inverse: bool, dtype: str) -> None:
    """Print the variable ``fft``."""
    factors = radices(size)
    stages, splitting = tables(size, inverse, dtype)
    print_struct(
        f,
        "const tvmrt_fft fft",
        {
            "size": size,
            "stages": len(factors),
            "inverse": int(inverse),
            "radices": f.constant("radices", np.array(factors, np.uint8)),
            "twiddles": f.constant("twiddles", stages),
            "splitting": f.constant("splitting", splitting),
        },
    )


@lowers("spectrogram")
class SpectrogramLowering(Lowering):
    """Spectrogram, one frame at a time in scratch memory."""

    def scratch(self, step: Step) -> Scratch:
        return Scratch(4 * (self.node.inputs[1].shape[0] + self.node.attrs["length"] + 2))

    def macs(self) -> int:
        length, (channels, frames, _) = self.node.attrs["length"], self.node.output.shape
        return 2 * length * max(length.bit_length() - 1, 1) * channels * frames

    def emit(self, step: Step, f: FunctionWriter) -> None:
        f.include("op/spectrogram.h")
        attrs, (channels, frames, _) = self.node.attrs, self.node.output.shape
        _print_tables(f, attrs["length"] // 2, False, "float32")
        layer = print_static_struct(
            f,
            "tvmrt_spectrogram_f32_layer",
            "layer",
            {
                "channels": channels,
                "frames": frames,
                "step": attrs["step"],
                "width": self.node.inputs[1].shape[0],
                "squared": int(attrs["squared"]),
            },
        )
        x, window = input_pointers(f, "x", "window")
        work = f"(float *)(void *){f.scratch()}"
        f.line(f"tvmrt_spectrogram_f32(&{layer}, &fft, {x}, {window}, {f.write()}, {work});")


@lowers("signal_rfft", "signal_irfft")
class FftLowering(Lowering):
    """FFT of each row in the memory of its result; the tables are constants."""

    def macs(self) -> int:
        length = self.node.attrs["length"]
        return 2 * length * max(length.bit_length() - 1, 1) * prod(self.node.output.shape[:-1])

    def emit(self, step: Step, f: FunctionWriter) -> None:
        f.include("op/fft.h")
        x, y = self.node.inputs[0], self.node.output
        inverse, size = self.node.op == "signal_irfft", self.node.attrs["length"] // 2
        _print_tables(f, size, inverse, x.dtype.name)
        rows, count = prod(y.shape[:-1]), x.shape[-1]
        source, target = input_pointer(f, 0, "x"), f.write()
        i = f.fresh("i")
        name, extra = ("irfft", "") if inverse else ("rfft", f"{count}, ")
        with f.block(f"for (int64_t {i} = 0; {i} < {rows}; ++{i})"):
            into = f"{target} + {i} * {y.shape[-1]}"
            of = f"{source} + {i} * {count}"
            f.line(f"tvmrt_{name}_{x.dtype.name}(&fft, {of}, {extra}{into});")
