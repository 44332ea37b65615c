"""What ``inspect --board`` prints with ``--json``."""

from __future__ import annotations

from tvmrt.cli.schema_types import (
    by_name,
    flag,
    list_of,
    number,
    or_null,
    record,
    seconds,
    size,
    text,
    whole,
)
from tvmrt.cli.schemas import WORDS

COST = {"seconds": or_null(seconds()), "joules": or_null(number())}

INSPECT_BOARD = record(
    "tvmrt inspect --board --json: an estimate, by a run that is counted in QEMU.",
    file=text(), board=text(), target=text(), core=text("Whose table of cycles it is."),
    source=text("Of that table."), published=flag("By the maker of the core."),
    manual=or_null(text(), "After which, by memory, clock and flash are."),
    wait_states=number("Cycles of a line of flash that is not cached."), scale=number(),
    clock_hz=or_null(number()), picojoules=or_null(number(), "Of a cycle."),
    ram_bytes=or_null(size(), "The board's, all regions."), flash_bytes=or_null(size()),
    networks=by_name(
        record(
            instructions=whole(), cycles=whole(), wait_cycles=whole("Of cycles."), **COST,
            ram=record(
                arena_bytes=size(), input_bytes=size(), output_bytes=size(),
                static_bytes=size("Variables."), stack_bytes=or_null(size()),
                total_bytes=or_null(size(), "null where the stack has no bound."),
            ),
            flash_bytes=size("Weights, code and constants of what a run calls."),
            weights_bytes=size(),
            layers=list_of(
                record(
                    name=text(), nodes=WORDS, instructions=whole(), cycles=whole(),
                    wait_cycles=whole(), **COST,
                ),
                "In the order of a run; the last row is what is between them.",
            ),
            functions=list_of(record(name=text(), cycles=whole()), "The most first."),
        )
    ),
)  # fmt: skip
