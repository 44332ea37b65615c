"""Options that several commands share, and the forms ``NAME=VALUE`` that they take."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Callable

import click

PATH = click.Path(path_type=Path)


def _split(text: str, form: str) -> tuple[str, str]:
    name, equals, value = text.rpartition("=")
    if not (name and equals and value):
        raise click.UsageError(f"'{text}' does not have the form {form}")
    return name, value


def parse_shapes(texts: Iterable[str]) -> dict[str, tuple[int, ...]]:
    """Turn ``["x=1,3,224,224"]`` into ``{"x": (1, 3, 224, 224)}``."""
    shapes = {}
    for text in texts:
        name, value = _split(text, "INPUT=DIM,DIM,...")
        try:
            dims = tuple(int(dim) for dim in value.split(","))
        except ValueError:
            dims = (0,)
        if min(dims) < 1:
            raise click.UsageError(f"'{text}': dimensions must be whole numbers from 1")
        shapes[name] = dims
    return shapes


def parse_pools(texts: Iterable[str]) -> dict[str, int | tuple[int, str]]:
    """Turn ``["sram=65536", "dtcm=16384@.dtcm"]`` into ``{"sram": 65536, "dtcm": (16384,
    ".dtcm")}``."""
    pools: dict[str, int | tuple[int, str]] = {}
    for text in texts:
        name, value = _split(text, "POOL=BYTES or POOL=BYTES@SECTION")
        size, at, section = value.partition("@")
        if not size.isdecimal():
            raise click.UsageError(f"'{text}': the size must be a whole number of bytes")
        if name in pools:
            raise click.UsageError(f"'{text}': there is a pool {name} already")
        if at and not section:
            raise click.UsageError(f"'{text}': name the section after @")
        pools[name] = (int(size), section) if at else int(size)
    return pools


def parse_places(texts: Iterable[str]) -> dict[str, str]:
    """Turn ``["conv1*=dtcm"]`` into ``{"conv1*": "dtcm"}``."""
    return dict(_split(text, "PATTERN=POOL or PATTERN=flash[@SECTION]") for text in texts)


def shapes_by_network(
    shapes: dict[str, tuple[int, ...]], networks: list[str]
) -> dict[str, dict[str, tuple[int, ...]]]:
    """Turn ``{"a:x": (1, 3)}`` into ``{"a": {"x": (1, 3)}}`` for the networks of an image."""
    found: dict[str, dict[str, tuple[int, ...]]] = {}
    for key, shape in shapes.items():
        network, colon, name = key.partition(":")
        if not colon or network not in networks:
            raise click.UsageError(
                f"'{key}': of several networks ({', '.join(networks)}), name one: NETWORK:INPUT=..."
            )
        found.setdefault(network, {})[name] = shape
    return found


def parse_names(texts: Iterable[str]) -> list[str]:
    """Turn ``["a,b", "c"]`` into ``["a", "b", "c"]``."""
    return [name.strip() for text in texts for name in text.split(",") if name.strip()]


def parse_device_options(texts: Iterable[str]) -> dict[str, dict[str, object]]:
    """Turn ``["tpu:precision=int8", "tpu:lanes=4"]`` into ``{"tpu": {"precision": "int8", "lanes":
    4}}``: whole numbers, numbers, true and false become what they say."""
    found: dict[str, dict[str, object]] = {}
    for text in texts:
        name, value = _split(text, "DEVICE:KEY=VALUE")
        device, colon, key = name.partition(":")
        if not (device and colon and key):
            raise click.UsageError(f"'{text}' does not have the form DEVICE:KEY=VALUE")
        found.setdefault(device, {})[key] = _plain(value)
    return found


def _plain(text: str) -> object:
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def load_operators(paths: Iterable[Path]) -> Any:
    """The operators of files and of installed wheels, a ``tvmrt.custom.Catalogue``."""
    from tvmrt.custom import gather

    return gather(paths)


executor = click.option(
    "--executor", type=click.Choice(["graph", "aot"]), default="graph", show_default=True,
    help="Run by the runtime from a graph, or by one generated function (ahead of time).",
)  # fmt: skip
device = click.option(
    "--device", "devices", multiple=True, metavar="NAME[,NAME...]",
    help="Devices that may take parts of the network, in order of preference.",
)  # fmt: skip
operators = click.option(
    "--operators", multiple=True, type=PATH, metavar="FILE",
    help="A Python file or shared library with operators of one's own.",
)  # fmt: skip
shape = click.option(
    "--shape", "shapes", multiple=True, metavar="INPUT=DIM,...",
    help="Shape of an input whose dimensions the file leaves open.",
)  # fmt: skip
target = click.option(
    "--target", default="native", show_default=True,
    help="native (this machine), host (any of its kind), or a board: cortex-m4, cortex-m55, "
    "riscv32.",
)  # fmt: skip
c_compiler = click.option("--cc", help="C compiler to use instead of the one found.")
threads = click.option(
    "--threads", type=click.IntRange(min=1), default=1, show_default=True,
    help="How many threads may run one operator.",
)  # fmt: skip


def compile_here(function: Callable) -> Callable:
    """Add the options by which ``verify`` and ``bench`` compile for this machine."""
    for option in (threads, c_compiler, target, shape, operators, device, executor):
        function = option(function)
    return function
