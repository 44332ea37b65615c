"""Parsers of option values in the forms of the command line, such as ``NAME=VALUE``.

Each raises ValueError for a malformed text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from tvmrt.units import BYTES

# a named dimension of a shape, with optional bounds
_DIM = re.compile(r"[A-Za-z_]\w*|[^<=,]+(?:<=\d+|=\d+\.\.\d+)")


def _split(text: str, form: str) -> tuple[str, str]:
    name, equals, value = text.rpartition("=")
    if not (name and equals and value):
        raise ValueError(f"'{text}' does not have the form {form}")
    return name, value


def parse_shapes(texts: Iterable[str]) -> dict[str, tuple[int | str, ...]]:
    """Turn ``["x=1,3,H<=224,W=32..224"]`` into ``{"x": (1, 3, "H<=224", "W=32..224")}``."""
    shapes = {}
    for text in texts:
        name, equals, value = text.partition("=")
        while equals and not _is_shape(value):  # a name may contain "="
            more, equals, value = value.partition("=")
            name = f"{name}={more}"
        if not (name and equals):
            raise ValueError(
                f"'{text}' does not have the form INPUT=DIM,DIM,...; dimensions are whole numbers "
                "from 1, or names that are declared: N, N<=8, N=1..8"
            )
        shapes[name] = tuple(int(d) if d.isdecimal() else d for d in value.split(","))
    return shapes


def _is_shape(text: str) -> bool:
    return all(int(dim) > 0 if dim.isdecimal() else _DIM.fullmatch(dim) for dim in text.split(","))


def parse_dims(texts: Iterable[str]) -> dict[str, Any]:
    """Turn ``["batch=1..8", "seq<=128"]`` into ``{"batch": (1, 8), "seq": (1, 128)}``."""
    from tvmrt.compiler.frontend.dims import parse_dim

    dims: dict[str, Any] = {}
    for text in texts:
        name, bounds = parse_dim(text)
        if dims.setdefault(name, bounds) != bounds:
            raise ValueError(f"'{text}' declares {name} again; declare it once")
    return dims


def parse_example(path: str) -> dict[str, Any]:
    """Return the arrays of an .npz file, by name."""
    import numpy as np

    try:
        with np.load(path, allow_pickle=False) as arrays:
            return dict(arrays)
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise ValueError(f"{path} is not an .npz file of arrays ({error})") from None


def parse_sequences(texts: Iterable[str]) -> dict[str, int | None]:
    """Turn ``["x=3", "state=none"]`` into ``{"x": 3, "state": None}``."""
    result: dict[str, int | None] = {}
    for text in texts:
        name, equals, value = text.rpartition("=")
        if not (name and equals and (value.isdecimal() or value == "none")):
            raise ValueError(
                f"'{text}' does not have the form INPUT=COUNT; COUNT is a whole number, or none"
            )
        result[name] = None if value == "none" else int(value)
    return result


def parse_values(texts: Iterable[str]) -> dict[str, list[int]]:
    """Turn ``["axes=0,-1", "k=5"]`` into ``{"axes": [0, -1], "k": [5]}``."""
    form = "INPUT=VALUE[,VALUE...]"
    result: dict[str, list[int]] = {}
    for text in texts:
        name, numbers = _split(text, form)
        try:
            result[name] = [int(number) for number in numbers.split(",")]
        except ValueError:
            raise ValueError(f"'{text}' does not have the form {form} of whole numbers") from None
    return result


def parse_pools(texts: Iterable[str]) -> dict[str, int | tuple[int, str]]:
    """Turn ``["sram=64KiB", "dtcm=16384@.dtcm"]`` into ``{"sram": 65536, "dtcm": (16384,
    ".dtcm")}``."""
    pools: dict[str, int | tuple[int, str]] = {}
    for text in texts:
        name, value = _split(text, "POOL=BYTES or POOL=BYTES@SECTION")
        size, at, section = value.partition("@")
        try:
            nbytes = int(BYTES.parse(size))
        except ValueError as problem:
            raise ValueError(f"'{text}': {problem}") from None
        if name in pools:
            raise ValueError(f"'{text}': there is a pool {name} already")
        if at and not section:
            raise ValueError(f"'{text}': name the section after @")
        pools[name] = (nbytes, section) if at else nbytes
    return pools


def parse_placements(texts: Iterable[str]) -> dict[str, str]:
    """Turn ``["conv1*=dtcm"]`` into ``{"conv1*": "dtcm"}``."""
    return dict(_split(text, "PATTERN=POOL or PATTERN=flash[@SECTION]") for text in texts)


def parse_names(texts: Iterable[str]) -> list[str]:
    """Turn ``["a,b", "c"]`` into ``["a", "b", "c"]``."""
    return [name.strip() for text in texts for name in text.split(",") if name.strip()]


def parse_device_options(texts: Iterable[str]) -> dict[str, dict[str, object]]:
    """Turn ``["npu:precision=int8", "npu:lanes=4"]`` into ``{"npu": {"precision": "int8", "lanes":
    4}}``; numbers, true and false are converted."""
    result: dict[str, dict[str, object]] = {}
    for text in texts:
        name, value = _split(text, "DEVICE:KEY=VALUE")
        device, colon, key = name.partition(":")
        if not (device and colon and key):
            raise ValueError(f"'{text}' does not have the form DEVICE:KEY=VALUE")
        result.setdefault(device, {})[key] = _plain(value)
    return result


def _plain(text: str) -> object:
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
