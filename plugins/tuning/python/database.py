"""Database of tuning results: a file with an entry per layer, ISA level and processor.

The file is JSON, ``{"schema": "tvmrt/tuning/1", "entries": [...]}``, with the members of
:class:`TuningEntry`; docs/tune.md has an example. Writers take a lock and replace the file
atomically: any number of processes may add entries, and readers see either the old or the new
content.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tvmrt.compiler.export.atomic import replacing
from tvmrt.compiler.ir.tuned import Choice
from tvmrt.compiler.ir.tuned_layer import Layer, parse_layer
from tvmrt.compiler.ir.winograd import CHOICES

SCHEMA = "tvmrt/tuning/1"
OWN, MODEL = "own", "model"  # special values instead of a file name
VARIABLE = "TVMRT_TUNING"
MAX_BYTES = 256 << 20  # maximum size of a file
MAX_NUMBER = 1 << 16  # maximum number in a choice
MAX_SECONDS = 1e6
RETRY_HINT = "remove it, or what is wrong in it, and run 'tvmrt tune' again"
_MEMBERS = {"tile", "at_once", "pixels", "threads", "square"}


@dataclass(frozen=True)
class Measurement:
    """A measured choice and its time in seconds."""

    choice: Choice
    seconds: float


@dataclass(frozen=True)
class TuningEntry:
    """Tuning result of a layer.

    Parameters
    ----------
    layer
        Signature of the layer, see ``ir.tuned.Layer``.
    level
        Vectors and registers, see ``codegen.target.vector_key``.
    processor
        Kind of processor of the measurement, see ``processor.name``.
    baseline, best
        Choice of the compiler's estimate and fastest choice, with their seconds, measured in
        turn; equal if nothing faster was found.
    square
        Fastest Winograd tile size of a 3x3 convolution; 1 for direct convolution, 0 if unknown.
    threads
        Maximum number of threads that sharing the layer was measured with; 0 if not measured.
    shared
        Best choice for other numbers of threads, from one run.
    measurements
        All measurements of the search, from one run; the cost model is fitted to these.
    tool
        Version of tvmrt.
    """

    layer: str
    level: str
    processor: str
    baseline: Measurement
    best: Measurement
    square: int = 0
    measurements: Sequence[Measurement] = field(default_factory=tuple)
    tool: str = ""
    threads: int = 0
    shared: Sequence[Measurement] = field(default_factory=tuple)

    @property
    def key(self) -> tuple[str, str, str]:
        return self.layer, self.level, self.processor

    @property
    def gain(self) -> float:
        """Speed-up of the best choice."""
        return self.baseline.seconds / self.best.seconds


def user_database_path() -> Path:
    """Return the user's database: $TVMRT_TUNING, or a file in the cache folder."""
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "tvmrt" / "tuning.json"


def database_path(named: str | os.PathLike[str]) -> Path:
    """Return the file of a database given by the user as a path or ``own``."""
    return user_database_path() if str(named) == OWN else Path(named)


def tuned_dependency(named: str | os.PathLike[str]) -> Path | None:
    """Return the file that a compiled network depends on, or None for the model."""
    return None if str(named) == MODEL else database_path(named)


def read(path: Path) -> list[TuningEntry]:
    """Read the entries of a file. Raises OSError if it cannot be read, and ValueError if it is not
    a valid database."""
    if path.stat().st_size > MAX_BYTES:
        raise ValueError(f"{path} is too large for a tuning database; give another file")
    try:
        data = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as problem:
        raise ValueError(f"{path} is not a tuning database ({problem}); {RETRY_HINT}") from None
    if not isinstance(data, Mapping) or not isinstance(data.get("entries"), list):
        raise ValueError(f"{path} is not a tuning database: it has no entries; {RETRY_HINT}")
    if data.get("schema") != SCHEMA:
        raise ValueError(
            f"{path} has format {str(data.get('schema'))[:80]!r}, this tvmrt reads {SCHEMA}; "
            "give another file, or tune again"
        )
    return [_entry(path, number, each) for number, each in enumerate(data["entries"])]


def add(path: Path, entries: Iterable[TuningEntry]) -> None:
    """Add entries to a file, replacing those with equal layer, level and processor. Safe for
    concurrent processes. Raises the errors of ``read``, and OSError if writing fails."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with _file_lock(path):
        known = {each.key: each for each in (read(path) if path.exists() else [])}
        known.update({each.key: each for each in entries})
        with replacing(path) as aside:
            aside.write_text(_text(known[key] for key in sorted(known)), encoding="utf-8")


@contextlib.contextmanager
def _file_lock(path: Path) -> Iterator[None]:
    """Hold the exclusive lock of a file's writers, if the system has locks."""
    try:
        import fcntl
    except ImportError:  # Windows, where networks are not compiled
        yield
        return
    with open(path.with_name(f".{path.name}.lock"), "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _text(entries: Iterable[TuningEntry]) -> str:
    """Return the file's text, one entry per line."""
    lines = ",\n".join(json.dumps(as_json(each)) for each in entries)
    return f'{{"schema": "{SCHEMA}", "entries": [\n{lines}\n]}}\n'


def as_json(entry: TuningEntry) -> dict[str, Any]:
    """Return an entry as JSON data."""
    return {
        "layer": entry.layer, "level": entry.level, "processor": entry.processor,
        "usual": _measurement_json(entry.baseline), "best": _measurement_json(entry.best),
        "square": entry.square, "threads": entry.threads,
        "shared": [_measurement_json(each) for each in entry.shared],
        "tried": [_measurement_json(each) for each in entry.measurements], "tool": entry.tool,
    }  # fmt: skip


def _measurement_json(measurements: Measurement) -> dict[str, Any]:
    return {**measurements.choice.members(), "seconds": measurements.seconds}


def parse_entry(data: Any) -> TuningEntry:
    """Parse the JSON data of ``as_json``. Raises ValueError with the reason."""
    if not isinstance(data, Mapping):
        raise ValueError("it is not an object")
    texts = [_parse_text(data, name) for name in ("layer", "level", "processor")]
    parse_layer(texts[0])
    square, threads = data.get("square", 0), data.get("threads", 0)
    measurements, shared = data.get("tried", []), data.get("shared", [])
    if square not in CHOICES or isinstance(square, bool):
        raise ValueError(f"its square is not one of {', '.join(map(str, CHOICES))}")
    if not isinstance(measurements, list) or not isinstance(shared, list):
        raise ValueError("tried or shared is not a list")
    if threads and not _is_size(threads):
        raise ValueError("its threads is not a whole number")
    return TuningEntry(
        *texts, _parse_measurement(data.get("usual")), _parse_measurement(data.get("best")), square,
        tuple(map(_parse_measurement, measurements)), str(data.get("tool", ""))[:100], int(threads),
        tuple(map(_parse_measurement, shared)),
    )  # fmt: skip


def _entry(path: Path, number: int, data: Any) -> TuningEntry:
    try:
        return parse_entry(data)
    except ValueError as problem:
        raise ValueError(f"{path}: entry {number} is damaged: {problem}; {RETRY_HINT}") from None


def _parse_text(data: Mapping[str, Any], name: str) -> str:
    value = data.get(name)
    if not isinstance(value, str) or len(value) > 1000:
        raise ValueError(f"its {name} is not a string of at most 1000 characters")
    return value


def _parse_measurement(data: Any) -> Measurement:
    if not isinstance(data, Mapping):
        raise ValueError("a choice is not an object")
    unknown = data.keys() - _MEMBERS - {"seconds"}
    if unknown:
        raise ValueError(f"a choice has the member {min(map(str, unknown))[:80]}, which is unknown")
    seconds = data.get("seconds")
    if not _is_number(seconds) or not 0 < seconds < MAX_SECONDS:
        raise ValueError("the seconds of a choice are not a number above 0")
    tile = data.get("tile")
    if tile is not None:
        if not isinstance(tile, list) or len(tile) != 3 or not all(map(_is_size, tile)):
            raise ValueError("a tile is not three whole numbers above 0")
        tile = tuple(tile)
    numbers = {name: data.get(name, 0) for name in ("at_once", "pixels", "square")}
    threads = data.get("threads")
    counts = (numbers["at_once"], numbers["pixels"], threads or 0)
    if any(n and not _is_size(n) for n in counts) or numbers["square"] not in CHOICES:
        raise ValueError("a value of a choice is out of range")
    whole = {name: int(n) for name, n in numbers.items()}
    return Measurement(
        Choice(tile, threads=None if threads is None else int(threads), **whole), float(seconds)
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value <= MAX_NUMBER


class DatabaseModel:
    """A database as a guide of the compiler.

    Parameters
    ----------
    entries
        Entries of the database.
    processor
        Kind of processor to compile for, or None for a family. If several processors have an
        entry for a layer, the one with the largest gain is used.
    """

    def __init__(self, entries: Sequence[TuningEntry], processor: str | None) -> None:
        self._known: dict[tuple[str, str], TuningEntry] = {}
        for each in sorted(entries, key=lambda each: (each.gain, each.key)):
            if processor in (None, each.processor):
                self._known[each.layer, each.level] = each

    def find(self, layer: Layer, level: str) -> TuningEntry | None:
        """Return the entry of a layer, or None."""
        return self._known.get((layer.text, level))

    def choice(
        self, layer: Layer, level: str, options: Callable[[], Sequence[Choice]]
    ) -> tuple[Choice, str] | None:
        """Return the measured choice of a layer, see ``ir.tuned.Guide``."""
        entry = self.find(layer, level)
        return None if entry is None else (entry.best.choice, "measured")

    def square(self, layer: Layer, level: str) -> tuple[Choice, str] | None:
        """Return the measured Winograd tile size, see ``ir.tuned.Guide``."""
        entry = self.find(layer, level)
        if entry is None or not entry.square:
            return None
        return Choice(square=entry.square), "measured"
