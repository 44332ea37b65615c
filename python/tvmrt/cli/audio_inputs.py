"""Sounds as network inputs: ``.wav``, read with Python's standard library."""

from __future__ import annotations

import wave
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tvmrt.file_suffix import suffix_of
from tvmrt.network.inputs import TensorInfo

if TYPE_CHECKING:
    import numpy as np

SUFFIXES = (".wav",)


def is_sound(path: Path) -> bool:
    """Return whether a file name has the suffix of a sound."""
    return suffix_of(path) in SUFFIXES


def load(path: Path, infos: Sequence[TensorInfo]) -> dict[str, np.ndarray]:
    """Load a sound as the only input of a network; return it by name. Channels are averaged. Floats
    are scaled to -1..1; 16-bit integers are the samples. The sound is cut to the input's length or
    padded with silence. It is not resampled; the caller must provide the right sample rate.

    Raises
    ------
    ValueError if the network does not take one row of samples, or the file is not a PCM sound;
    OSError if it cannot be read.
    """
    import numpy as np

    from tvmrt.compiler.ir.float_to_int import to_integers

    if len(infos) != 1:
        names = ", ".join(info.name for info in infos)
        raise ValueError(
            f"{path}: a sound can set one input, and the network has {names}; give an .npz file"
        )
    (info,) = infos
    long = [extent for extent in info.shape if extent != 1]
    shown = " x ".join(map(str, info.shape))
    if len(long) != 1 or not isinstance(long[0], int):
        raise ValueError(
            f"{path}: input {info.name}, {shown}, is not a single row of samples; give an .npz file"
        )
    if not info.dtype.startswith("float") and info.dtype != "int16":
        raise ValueError(
            f"{path}: input {info.name} has type {info.dtype}, which cannot hold samples; give "
            "an .npz file"
        )
    samples = _samples(path)[: long[0]]
    values = np.zeros(long[0])
    values[: len(samples)] = samples
    if info.dtype == "int16":
        values = to_integers(np.rint(values * 32768), np.int16)
    return {info.name: values.astype(info.dtype).reshape(info.shape)}


def _samples(path: Path) -> np.ndarray:
    """Return the mean of all channels, scaled to -1..1."""
    import numpy as np

    try:
        with wave.open(str(path), "rb") as sound:
            width, channels = sound.getsampwidth(), sound.getnchannels()
            data = sound.readframes(sound.getnframes())
    except (wave.Error, EOFError) as error:
        raise ValueError(f"{path} is not a PCM sound file ({error}); convert it") from None
    data = data[: len(data) // (width * channels) * width * channels]
    if width == 1:  # unsigned
        whole = np.frombuffer(data, np.uint8).astype(np.int64) - 128
    else:  # NumPy lacks 24-bit integers: put samples in the upper bytes of 32 bits, then shift
        padded = np.zeros((len(data) // width, 4), np.uint8)
        padded[:, 4 - width :] = np.frombuffer(data, np.uint8).reshape(-1, width)
        whole = padded.view("<i4").reshape(-1).astype(np.int64) >> (8 * (4 - width))
    return whole.reshape(-1, channels).mean(axis=1) / (1 << (8 * width - 1))
