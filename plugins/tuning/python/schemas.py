"""JSON schemas of ``tvmrt tune --json`` and of the database."""

from __future__ import annotations

from tvmrt.cli.schema_types import integer, list_of, number, of, record, seconds, text

TRIED = record(
    tile_=list_of(integer(), "Lanes, vectors of channels, pixels of the micro-kernel tile."),
    at_once_=integer("Blocks of channels whose weights stay in the cache."),
    pixels_=integer("int8 layers: pixels that are requantised together."),
    threads_=integer("Maximum number of threads for the layer; 0: no limit."),
    square_=integer("Output size of the Winograd tile along one axis."),
    seconds=seconds("Fastest run."),
)  # fmt: skip

TUNED_LAYER = record(
    layer=text("Signature of the layer."),
    level=text("Vector lanes x registers; for int8, the multiply instruction."),
    processor=text("Processor model of the measurement."),
    usual=TRIED, best=TRIED,
    square=integer("Fastest Winograd tile size; 1: direct convolution; 0: not measured."),
    threads=integer("Largest number of threads that was tried; 0: not measured."),
    shared=list_of(TRIED, "Best choice for each number of threads, from one run."),
    tried=list_of(TRIED, "All measurements of one run."), tool=text(),
)  # fmt: skip

TUNE = (
    "tvmrt tune --json.",
    lambda: record(
        database=text("Database that the results are written to."),
        measured=integer("Layers measured now; the database had the others."),
        layers=list_of(
            record(
                layer=text("Signature of the layer."),
                count=integer("Occurrences in the networks."),
                before_seconds=seconds("Time of the choice by the estimate."),
                after_seconds=seconds(), choice=text(), square=integer(),
            )
        ),
        networks=list_of(
            of(
                "tvmrt.plugins.tuning.command:NetworkGain", speed_of_fastest=number(),
                speed=number("Median over rounds of before / after."),
            )
        ),
    ),
)  # fmt: skip

TUNING = record(
    "Database of tvmrt tune, a file.", entries=list_of(TUNED_LAYER)
)  # fmt: skip
