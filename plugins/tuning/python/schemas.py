"""What ``tune`` prints with ``--json``, and the database."""

from __future__ import annotations

from tvmrt.cli.schema_types import list_of, number, record, seconds, text, whole

TRIED = record(
    tile_=list_of(whole(), "Lanes, vectors of channels, pixels."),
    at_once_=whole("Blocks of channels whose weights stay in cache."),
    pixels_=whole("Of a layer in 8 bits: pixels that are finished at once."),
    threads_=whole("That share the layer at most; 0: all that there are."),
    square_=whole("Results of a square along an axis."),
    seconds=seconds("The fastest run."),
)  # fmt: skip

TUNED_LAYER = record(
    layer=text("Its signature."),
    level=text("Lanes x registers of its vectors; of bytes, what multiplies them."),
    processor=text("The kind that it was measured on."),
    usual=TRIED, best=TRIED,
    square=whole("The fastest size of squares; 1: directly; 0: not asked."),
    threads=whole("Of so many at most it was asked who shares the layer; 0: not asked."),
    shared=list_of(TRIED, "The best choice by numbers of threads, in one run."),
    tried=list_of(TRIED, "All that was measured, in one run."), tool=text(),
)  # fmt: skip

TUNE = record(
    "tvmrt tune --json.",
    database=text("The file that has what was found."),
    measured=whole("Layers of this call; of the others the database knew enough."),
    layers=list_of(
        record(
            layer=text("Its signature."), count=whole("How often the networks have it."),
            before_seconds=seconds("As the compiler's estimate has it."),
            after_seconds=seconds(), choice=text(), square=whole(),
        )
    ),
    networks=list_of(
        record(
            network=text(), threads=whole(),
            before_seconds=seconds("The fastest run."), after_seconds=seconds(),
            speed=number("The median over rounds of before by after."),
            speed_of_fastest=number(),
        )
    ),
)  # fmt: skip

TUNING = record(
    "The database of tvmrt tune, a file.", entries=list_of(TUNED_LAYER)
)  # fmt: skip
