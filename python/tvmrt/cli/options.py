"""Options shared by several commands, and parsers of their ``NAME=VALUE`` forms."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Callable

import click

from tvmrt import plugin
from tvmrt.compiler import request
from tvmrt.compiler.export import formats
from tvmrt.option import Option, OptionDescription

HELP_COLUMNS = 44  # width of click's second column in a terminal of 80

PATH = click.Path(path_type=Path)


class FiniteRange(click.FloatRange):
    """A finite number in a range; click's range accepts nan and infinity."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


class Formats(click.Choice):
    """The folder formats of plug-ins, which are looked up only when needed."""

    def __init__(self) -> None:
        click.ParamType.__init__(self)  # not click.Choice: choices is a property here
        self.case_sensitive = True

    @property
    def choices(self) -> Sequence[str]:  # type: ignore[override]
        return formats.formats()

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        absent = plugin.why_missing("exporters", value)
        if absent or not self.choices:
            self.fail(absent or f"no plug-in adds the format {value}.", param, ctx)
        return super().convert(value, param, ctx)


# a named dimension of a shape, with optional bounds
_DIM = re.compile(r"[A-Za-z_]\w*|[^<=,]+(?:<=\d+|=\d+\.\.\d+)")


def _split(text: str, form: str) -> tuple[str, str]:
    name, equals, value = text.rpartition("=")
    if not (name and equals and value):
        raise click.UsageError(f"'{text}' does not have the form {form}")
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
            raise click.UsageError(
                f"'{text}' does not have the form INPUT=DIM,DIM,...; dimensions are whole numbers "
                "from 1, or names that are declared: N, N<=8, N=1..8"
            )
        shapes[name] = tuple(int(d) if d.isdecimal() else d for d in value.split(","))
    return shapes


def _is_shape(text: str) -> bool:
    return all(int(dim) > 0 if dim.isdecimal() else _DIM.fullmatch(dim) for dim in text.split(","))


def parse_dims(texts: Iterable[str]) -> dict[str, tuple[int, int]]:
    """Turn ``["batch=1..8", "seq<=128"]`` into ``{"batch": (1, 8), "seq": (1, 128)}``."""
    from tvmrt.compiler.frontend.dims import parse_dim

    dims = {}
    for text in texts:
        try:
            name, bounds = parse_dim(text)
        except ValueError as problem:
            raise click.UsageError(str(problem)) from None
        if dims.setdefault(name, bounds) != bounds:
            raise click.UsageError(f"--dim declares {name} twice; declare it once")
    return dims


def parse_sequences(texts: Iterable[str]) -> dict[str, int | None]:
    """Turn ``["x=3", "state=none"]`` into ``{"x": 3, "state": None}``."""
    result: dict[str, int | None] = {}
    for text in texts:
        name, equals, value = text.rpartition("=")
        if not (name and equals and (value.isdecimal() or value == "none")):
            raise click.UsageError(
                f"'{text}' does not have the form INPUT=COUNT; COUNT is a whole number, or none"
            )
        result[name] = None if value == "none" else int(value)
    return result


_BYTES = re.compile(r"(\d+(?:\.\d+)?) ?(?:([kKMG])(iB|B)?|B)?")
_EXPONENTS = {None: 0, "k": 1, "K": 1, "M": 2, "G": 3}


def parse_bytes(text: str) -> int:
    """Return the bytes of a size: ``65536``, ``64KiB``, ``64k`` (both 1,024 bytes each), ``64kB``
    (1,000 bytes each), ``1.5MiB``. Raise ValueError for other texts and parts of a byte."""
    if found := _BYTES.fullmatch(text.strip()):
        number, prefix, unit = found.groups()
        base = 1000 if unit == "B" else 1024
        size = float(number) * base ** _EXPONENTS[prefix]
        if size.is_integer():
            return int(size)
    raise ValueError(f"{text!r} is not a size; write bytes, such as 65536, or 64KiB, 1.5MiB")


class ByteSize(click.IntRange):
    """A number of bytes, with an optional unit."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            size = value if isinstance(value, int) else parse_bytes(value)
        except ValueError as problem:
            self.fail(f"{problem}.", param, ctx)
        return super().convert(size, param, ctx)


class GroupedOption(click.Option):
    """An option with a heading of the help; ``common``: whether the short help shows it."""

    def __init__(
        self, *arguments: Any, group: str = "Options", common: bool = True, **more: Any
    ) -> None:
        super().__init__(*arguments, **more)
        self.group = group
        self.common = common


def parse_pools(texts: Iterable[str]) -> dict[str, int | tuple[int, str]]:
    """Turn ``["sram=64KiB", "dtcm=16384@.dtcm"]`` into ``{"sram": 65536, "dtcm": (16384,
    ".dtcm")}``."""
    pools: dict[str, int | tuple[int, str]] = {}
    for text in texts:
        name, value = _split(text, "POOL=BYTES or POOL=BYTES@SECTION")
        size, at, section = value.partition("@")
        try:
            nbytes = parse_bytes(size)
        except ValueError as problem:
            raise click.UsageError(f"'{text}': {problem}") from None
        if name in pools:
            raise click.UsageError(f"'{text}': there is a pool {name} already")
        if at and not section:
            raise click.UsageError(f"'{text}': name the section after @")
        pools[name] = (nbytes, section) if at else nbytes
    return pools


def parse_placements(texts: Iterable[str]) -> dict[str, str]:
    """Turn ``["conv1*=dtcm"]`` into ``{"conv1*": "dtcm"}``."""
    return dict(_split(text, "PATTERN=POOL or PATTERN=flash[@SECTION]") for text in texts)


def by_network(
    options: dict[str, Any], networks: list[str], what: str = "INPUT"
) -> dict[str, dict[str, Any]]:
    """Turn ``{"a:x": (1, 3)}`` into ``{"a": {"x": (1, 3)}}`` for the networks of an image; ``what``
    names the key in errors."""
    result: dict[str, dict[str, Any]] = {}
    for key, value in options.items():
        network, colon, name = key.partition(":")
        if not colon or network not in networks:
            raise click.UsageError(
                f"'{key}': of several networks ({', '.join(networks)}), "
                f"name one: NETWORK:{what}=..."
            )
        result.setdefault(network, {})[name] = value
    return result


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
            raise click.UsageError(f"'{text}' does not have the form DEVICE:KEY=VALUE")
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


def load_operators(paths: Iterable[Path]) -> Any:
    """Return the operators of files and installed packages as a ``tvmrt.custom.Catalogue``."""
    from tvmrt.compiler.custom import gather

    return gather(paths)


# Parsers of option values, by option name.
PARSERS: dict[str, Callable[[Any], Any]] = {
    "devices": parse_names,
    "require_device": parse_names,
    "levels": parse_names,
    "device_options": parse_device_options,
    "shapes": parse_shapes,
    "dims": parse_dims,
    "sequences": parse_sequences,
    "pools": parse_pools,
    "place": parse_placements,
}


def _targets() -> list[str]:
    from tvmrt.compiler.codegen.target import target_names

    return target_names()


def _boards() -> list[str]:
    from tvmrt.compiler.codegen.mcu_families import MCU_FAMILIES

    return list(MCU_FAMILIES)


def _levels() -> list[str]:
    from tvmrt.compiler.codegen.target import LEVELS

    return list(dict.fromkeys(level.name for each in LEVELS.values() for level in each))


def _devices() -> list[str]:
    from tvmrt.compiler.devices import names

    return names()


# Values for shell completion, by option name.
VALUES: dict[str, Callable[[], list[str]]] = {
    "target": _targets, "board": _boards, "levels": _levels, "devices": _devices,
    "require_device": _devices,
}  # fmt: skip


def _complete(name: str, begun: str) -> list[str]:
    """Return the completions of a value; in a comma-separated list, of the last item."""
    before, comma, last = begun.rpartition(",")
    known = [each for each in VALUES[name]() if each not in before.split(",")]
    return [f"{before}{comma}{each}" for each in known if each.startswith(last)]


def request_option(name: str, **changes: Any) -> Callable:
    """Return the command-line option for an option of ``tvmrt.compile``; its value has the form
    that ``tvmrt.compile`` takes. ``changes`` override arguments of ``click.option``."""
    default, row = request.rows()[name]
    arguments = {**_arguments(name, default, row), **changes}
    return click.option(row.flag, name, cls=GroupedOption, **arguments)


def added_option(name: str, row: Option) -> click.Option:
    """Return the command-line option for an option of a plug-in."""
    return GroupedOption([row.flag, name], **_arguments(name, row.default, row))


def _arguments(name: str, default: Any, row: OptionDescription) -> dict[str, Any]:
    """Return the arguments of ``click.option`` for an option."""
    arguments: dict[str, Any] = {
        "help": help_text(row), "default": default, "group": row.group, "common": row.common,
    }  # fmt: skip
    if row.kind == "bool":
        arguments["is_flag"] = True
    else:
        arguments.update(type=_type_of(row), metavar=row.form or None, multiple=row.repeated)
        arguments["default"] = () if row.repeated else default
        arguments["show_default"] = bool(arguments["default"])
    if name in PARSERS:
        arguments["callback"] = lambda _context, _option, texts: PARSERS[name](texts)
    if name in VALUES:
        arguments["shell_complete"] = lambda _context, _option, begun: _complete(name, begun)
    return arguments


def help_text(row: OptionDescription) -> str:
    """Return an option's help; click does not wrap its table, which is a paragraph with ``\\b``."""
    text = row.text.replace("``", "")
    if row.table is None:
        return text
    lines = [f"{key}: {meaning}" for key, meaning in row.table.items()]
    wrapped = [textwrap.fill(line, HELP_COLUMNS, subsequent_indent="  ") for line in lines]
    return "\n".join([text, "", "\b", *wrapped])


def _type_of(row: OptionDescription) -> Any:
    if row.values:
        return click.Choice(row.values)
    if row.kind == "int":
        return (ByteSize if row.unit == "bytes" else click.IntRange)(min=row.least)
    return {"path": PATH, "float": float, "str": str}[row.kind]


def request_options(*names: str) -> Callable:
    """Return a decorator that adds these options of ``tvmrt.compile``, in this order."""

    def add(function: Callable) -> Callable:
        for name in reversed(names):
            function = request_option(name)(function)
        return function

    return add


threads = click.option(
    "--threads", type=click.IntRange(min=1), default=1, show_default=True, cls=GroupedOption,
    group="Target",
    help="Maximum number of threads for one operator.",
)  # fmt: skip


inputs_option = click.option(
    "--inputs", "inputs_file", type=PATH, metavar="IN.npz",
    help="Inputs by name. Default: random inputs.",
)  # fmt: skip


def host_compile_options(function: Callable) -> Callable:
    """Add the options with which ``verify`` and ``bench`` compile for this machine."""
    function = threads(function)
    function = request_options(
        "devices", "operators", "shapes", "dims", "sequences", "target", "levels",
        "precision", "winograd", "row_chains", "cc",
    )(function)  # fmt: skip
    return request_option("executor", default="graph", show_default=True)(function)
