"""Output of commands: tables, key-value lists, JSON and progress.

Tables and results go to standard output. Progress goes to standard error if it is a terminal.
Redirected output is never wrapped or decorated, so that other programs can read it.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from typing import Any, Callable

import click

from tvmrt.cli import verbosity
from tvmrt.cli.table import HEADINGS
from tvmrt.network.progress import format_stage

Progress = Callable[[str, int, int], None]

json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object instead of text."
)

UNWRAPPED = 10_000  # columns; longer than any line of redirected output


def _console(stderr: bool = False):
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    return Console(
        file=stream,
        width=None if stream.isatty() else UNWRAPPED,
        highlight=False,
        soft_wrap=not stream.isatty(),
    )


def print_json(form: str, value: Any) -> None:
    """Print a result, a mapping or a dataclass, as JSON that conforms to the named schema."""
    from tvmrt.cli.schema_types import tag

    click.echo(json.dumps({"schema": tag(form), **_plain(value)}, indent=2, allow_nan=False))


def _plain(item: Any) -> Any:
    """Convert a value for JSON: dataclasses become objects, NumPy scalars numbers, and NaN and
    infinities strings."""
    if is_dataclass(item):
        item = {field.name: getattr(item, field.name) for field in fields(item)}
    if isinstance(item, Mapping):
        return {str(name): _plain(each) for name, each in item.items()}
    if isinstance(item, (list, tuple)):
        return [_plain(each) for each in item]
    if hasattr(item, "tolist"):
        return _plain(item.tolist())
    if isinstance(item, float) and not math.isfinite(item):
        return "NaN" if math.isnan(item) else "Infinity" if item > 0 else "-Infinity"
    if item is None or isinstance(item, (bool, int, float, str)):
        return item
    return str(item)


def print_table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], left: Sequence[str] = ()
) -> None:
    """Print rows under a title; columns named in ``left`` align left, the others right."""
    from rich import box
    from rich.table import Table

    terminal = sys.stdout.isatty()
    table = Table(
        title=title,
        title_justify="left",
        box=box.SIMPLE_HEAD if terminal else None,
        pad_edge=False,
    )
    for column in columns:
        side = "left" if column in left else "right"
        table.add_column(HEADINGS.get(column, column), justify=side, no_wrap=not terminal)
    for row in rows:
        table.add_row(*(_plain_cell(cell) for cell in row))
    printer = _console()
    if terminal:
        printer.print(table)
        return
    with printer.capture() as captured:
        printer.print(table)
    click.echo("\n".join(line.rstrip(" ") for line in captured.get().split("\n")), nl=False)


def _plain_cell(cell: Any):
    from rich.text import Text

    return Text(str(cell))  # not markup: a layer may be named [bold]


def note(text: str) -> None:
    """Print information that needs no action to standard error, unless ``--quiet`` is given."""
    if verbosity.level() is verbosity.Level.QUIET:
        return
    click.echo(f"tvmrt: note: {text}", err=True)


def print_pairs(pairs: Mapping[str, Any]) -> None:
    """Print ``name  value`` lines, values aligned."""
    width = max((len(name) for name in pairs), default=0)
    for name, value in pairs.items():
        click.echo(f"{name:<{width}}  {value}".rstrip())


def _print_stage(stage: str, done: int, total: int) -> None:
    click.echo(f"tvmrt: {format_stage(stage, done, total)}", err=True)


@contextmanager
def progress(enabled: bool = True):
    """Show stages of long work on a terminal, and with ``--verbose`` as lines elsewhere.

    Yields a function ``(stage, done, total)`` to call as work proceeds, or None if not shown.
    """
    if enabled and verbosity.level() is verbosity.Level.VERBOSE:
        yield _print_stage
        return
    if not enabled or not sys.stderr.isatty() or verbosity.level() is verbosity.Level.QUIET:
        yield None
        return
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
    )
    with Bars(*columns, console=_console(stderr=True), transient=True) as bars:
        task = bars.add_task("start", total=None)  # the number of stages is unknown

        def report(stage: str, done: int, total: int) -> None:
            text = format_stage(stage, done, total)
            bars.update(task, description=text, completed=done, total=total)

        yield report


def format_bytes(count: int | None) -> str:
    """Format a size: ``1,234 B``, ``56.7 KiB``, ``8.90 MiB``."""
    if count is None:
        return "-"
    if count < 10_000:
        return f"{count:,} B"
    if count < 10_000_000:
        return f"{count / 1024:,.1f} KiB"
    return f"{count / 1024**2:,.2f} MiB"


def format_seconds(seconds: float) -> str:
    """Format a time: ``12.3 us``, ``4.56 ms``, ``7.89 s``."""
    if seconds < 1e-3:
        return f"{seconds * 1e6:.1f} us"
    if seconds < 1:
        return f"{seconds * 1e3:.2f} ms"
    return f"{seconds:.2f} s"


def format_shape(shape: Iterable[Any]) -> str:
    """Format a shape: ``1 x 3 x 224 x 224``; ``scalar`` for no dimension."""
    return " x ".join(str(d) for d in shape) or "scalar"


def shorten(name: str, width: int = 44) -> str:
    """Shorten a long name by removing its middle."""
    if len(name) <= width:
        return name
    tail = width // 3
    return f"{name[: width - tail - 1]}…{name[-tail:]}"


def shorten_all(names: Sequence[str], limit: int = 3) -> str:
    """Format names for a table cell: the first few, each shortened, and the number of others."""
    shown = ", ".join(map(shorten, names[:limit]))
    return shown if len(names) <= limit else f"{shown} and {len(names) - limit} more"
