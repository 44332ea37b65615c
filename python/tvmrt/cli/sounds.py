"""Sounds as inputs of networks: ``.wav`` by Python's own library."""

from __future__ import annotations

import wave
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tvmrt.network.inputs import TensorInfo

if TYPE_CHECKING:
    import numpy as np

SUFFIXES = (".wav",)


def is_sound(path: Path) -> bool:
    """Whether a file's name is that of a sound."""
    return path.suffix.lower() in SUFFIXES


def load(path: Path, infos: Sequence[TensorInfo]) -> dict[str, np.ndarray]:
    """A sound as the only input of a network, by its name: channels are averaged, floats lie
    between -1 and 1, 16-bit integers are the samples. It is cut to the input's length, or filled up
    with silence; its rate is the caller's to see to.

    Raises
    ------
    ValueError where the network does not take one line of samples, or the file is no PCM sound;
    OSError where it cannot be read.
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
    """The mean of all channels, from -1 to 1."""
    import numpy as np

    try:
        with wave.open(str(path), "rb") as sound:
            width, channels = sound.getsampwidth(), sound.getnchannels()
            data = sound.readframes(sound.getnframes())
    except (wave.Error, EOFError) as error:
        raise ValueError(f"{path} is not a PCM sound file ({error}); convert it") from None
    data = data[: len(data) // (width * channels) * width * channels]
    if width == 1:  # without a sign
        whole = np.frombuffer(data, np.uint8).astype(np.int64) - 128
    else:  # of 24 bits, too, numpy has no type: into the upper bytes of 32
        padded = np.zeros((len(data) // width, 4), np.uint8)
        padded[:, 4 - width :] = np.frombuffer(data, np.uint8).reshape(-1, width)
        whole = padded.view("<i4").reshape(-1).astype(np.int64) >> (8 * (4 - width))
    return whole.reshape(-1, channels).mean(axis=1) / (1 << (8 * width - 1))
