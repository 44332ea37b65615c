"""Pictures as network inputs: formats such as ``.png`` and ``.jpg``, read with Pillow."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tvmrt.file_suffix import suffix_of
from tvmrt.network.inputs import TensorInfo

if TYPE_CHECKING:
    import numpy as np

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".webp")
LAYOUTS = ("auto", "nchw", "nhwc")
SCALES = {"0..255": (0.0, 255.0), "0..1": (0.0, 1.0), "-1..1": (-1.0, 1.0)}
MODES = {1: "L", 3: "RGB", 4: "RGBA"}


def is_image(path: Path) -> bool:
    """Return whether a file name has the suffix of a picture."""
    return suffix_of(path) in SUFFIXES


def load(
    path: Path, infos: Sequence[TensorInfo], layout: str = "auto", scale: str | None = None
) -> dict[str, np.ndarray]:
    """Load a picture as the only input of a network, resized to fit; return it by name.

    Parameters
    ----------
    layout
        Position of the channels, ``nchw`` or ``nhwc``; ``auto``: the axis of extent 1, 3 or 4.
    scale
        Range of the pixel values, a key of SCALES. The default is 0 to 1 for floats, and 0 to 255
        or -128 to 127 for 8-bit integers.

    Raises
    ------
    ValueError if the network does not take one picture, or the file is not a picture; OSError if
    it cannot be read; ImportError without Pillow.
    """
    import numpy as np

    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError:
        raise ImportError(
            f"{path}: reading pictures needs Pillow: pip install 'tvmrt[images]', or give an "
            ".npz file"
        ) from None
    if len(infos) != 1:
        names = ", ".join(info.name for info in infos)
        raise ValueError(
            f"{path}: a picture can set one input, and the network has {names}; give an .npz file"
        )
    (info,) = infos
    channels_first, (height, width, channels) = _axes(info, layout, path)
    try:
        with Image.open(path) as image:
            sized = image.convert(MODES[channels]).resize((width, height), Image.BILINEAR)
            pixels = np.asarray(sized).reshape(height, width, channels)
    except UnidentifiedImageError:
        raise ValueError(
            f"{path}: Pillow cannot read this picture; convert it, or give an .npz file"
        ) from None
    values = _scale_pixels(pixels, info, scale)
    values = values.transpose(2, 0, 1) if channels_first else values
    return {info.name: np.ascontiguousarray(values.reshape(info.shape))}


def _axes(info: TensorInfo, layout: str, path: Path) -> tuple[bool, tuple[int, int, int]]:
    """Return whether channels come first, and height, width, channels."""
    shape = info.shape[1:] if len(info.shape) == 4 and info.shape[0] == 1 else info.shape
    orders = {"nchw": [True], "nhwc": [False], "auto": [True, False]}[layout]
    found = []
    for first in orders if len(shape) == 3 else ():
        channels, height, width = shape if first else (shape[2], *shape[:2])
        if channels in MODES and all(isinstance(extent, int) for extent in shape):
            found.append((first, (height, width, channels)))
    if found:  # prefer the layout without alpha, which few networks use
        return min(found, key=lambda way: way[1][2] == 4)
    hint = "" if layout == "auto" else f" with --layout {layout}"
    shown = " x ".join(map(str, info.shape))
    raise ValueError(
        f"{path}: input {info.name}, {shown}, is not a picture of 1, 3 or 4 channels{hint}; give "
        "an .npz file"
    )


def _scale_pixels(pixels: np.ndarray, info: TensorInfo, scale: str | None) -> np.ndarray:
    import numpy as np

    from tvmrt.compiler.ir.float_to_int import to_integers

    if scale is None and info.dtype == "uint8":
        return pixels
    if scale is None and info.dtype == "int8":
        return (pixels.astype(np.int16) - 128).astype(np.int8)
    low, high = SCALES[scale or "0..1"]
    values = low + pixels.astype(np.float64) * ((high - low) / 255)
    if not info.dtype.startswith("float"):
        return to_integers(np.rint(values), info.dtype)
    return values.astype(info.dtype)
