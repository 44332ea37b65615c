"""``tvmrt cache``: show and clear the cache of networks compiled by ``tvmrt.load``."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from tvmrt.cli import console, options
from tvmrt.network.sidecar import read_source
from tvmrt.units import SECONDS

DAY = 24 * 3600
# A time is given in the longest unit with a count of at least two: "36 hours", not "1 day".
UNITS = (("day", DAY), ("hour", 3600), ("minute", 60), ("second", 1))


@dataclass(frozen=True)
class CacheEntry:
    """Entry of the cache. ``network``: file name of the network when it was compiled, or what the
    model was; empty if unknown. ``unused_seconds``: Time since the last use."""

    name: str
    nbytes: int
    unused_seconds: float
    network: str


@click.command("cache")
@click.option(
    "--folder", type=options.PATH, metavar="FOLDER",
    help="Cache folder. Default: TVMRT_CACHE, or tvmrt in the user's cache folder.",
)  # fmt: skip
@click.option("--clear", is_flag=True, help="Remove all entries.")
@click.option(
    "--clear-older-than", type=options.Quantity(SECONDS, default="d"), metavar="DAYS",
    help="Remove entries that were not used for this long: 30 (days), 12h, 90min.",
)  # fmt: skip
@console.json_option
def command(
    folder: Path | None, clear: bool, clear_older_than: float | None, as_json: bool
) -> None:
    """Show or clear the cache of tvmrt.load.

    Each entry is a compiled network: the file that it was compiled from, its size, the time since
    its last use, and the name of its folder in the cache.
    Incomplete entries of killed processes are listed as unfinished; clearing removes them, too.
    Networks in use keep working, because libraries stay in memory.
    """
    from tvmrt.network.cache import Cache

    cache = Cache(folder)
    if cache.folder.exists() and not cache.folder.is_dir():
        raise NotADirectoryError(f"{cache.folder} is a file; name the folder of a cache")
    removed = None
    if clear or clear_older_than is not None:
        removed = cache.clear(0 if clear else clear_older_than or 0)
    entries, unfinished = cache.entries(), cache.leftovers()
    if as_json:
        summary = {
            "folder": cache.folder, "max_bytes": cache.max_bytes, "nbytes": _nbytes(entries),
            "entries": _rows(entries), "unfinished": _rows(unfinished),
        }  # fmt: skip
        console.print_json(
            "cache", summary if removed is None else {**summary, "removed": _rows(removed)}
        )
        return
    if removed is not None:
        size = console.format_bytes(_nbytes(removed))
        click.echo(f"removed {_count(len(removed), 'entry', 'entries')}, {size}")
    _print(cache, entries, unfinished)


def _print(cache: Any, entries: Sequence[Any], unfinished: Sequence[Any]) -> None:
    most = console.format_bytes(cache.max_bytes)
    pairs = {
        "folder": cache.folder,
        "entries": len(entries),
        "size": f"{console.format_bytes(_nbytes(entries))} of {most}",
    }
    if unfinished:
        size = console.format_bytes(_nbytes(unfinished))
        pairs["unfinished"] = f"{len(unfinished)}, {size}; --clear removes them"
    console.print_pairs(pairs)
    if entries:
        now = time.time()
        rows = [
            (
                read_source(e.folder) or "-", console.format_bytes(e.nbytes), _age(now - e.used),
                e.folder.name,
            )
            for e in reversed(entries)
        ]  # fmt: skip
        console.print_table(
            "", ["network", "size", "last use", "entry"], rows, left=["network", "entry"]
        )


def _nbytes(entries: Sequence[Any]) -> int:
    return sum(entry.nbytes for entry in entries)


def _rows(entries: Sequence[Any]) -> list[CacheEntry]:
    now = time.time()
    return [
        CacheEntry(e.folder.name, e.nbytes, max(0, round(now - e.used)), read_source(e.folder))
        for e in entries
    ]


def _count(count: int, one: str, more: str) -> str:
    return f"{count} {one if count == 1 else more}"


def _age(seconds: float) -> str:
    """Format an elapsed time: ``3 days ago``, ``36 hours ago``, ``now``."""
    for unit, length in UNITS:
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}s ago"
    return "now"
