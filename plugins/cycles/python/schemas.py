"""JSON schema of ``inspect --board --json``."""

from __future__ import annotations

from tvmrt.cli.schema_types import (
    by_name,
    flag,
    integer,
    list_of,
    number,
    or_null,
    record,
    seconds,
    size,
    text,
)
from tvmrt.cli.schemas import WORDS

COST = {"seconds": or_null(seconds()), "joules": or_null(number())}

PLACES = record(
    layer=text("Operator, or 'between operators'."), function=text(), file=text(), line=integer()
)

TIMING = record(
    inputs=integer("Inputs that were compared."),
    same_instructions=flag("They executed the same instructions."),
    layers=list_of(
        record(name=text(), fewest=integer(), most=integer()), "Layers whose instructions differ."
    ),
    memcheck=or_null(
        record(
            build=text("Compiler of the C code, with its options."),
            branches=list_of(PLACES, "Branches on values that depend on the inputs."),
            addresses=list_of(PLACES, "Memory accesses whose address depends on the inputs."),
        ),
        "Result of valgrind's memcheck.",
    ),
    unchecked=or_null(text(), "Why memcheck did not run."),
    library=list_of(
        record(layer=text(), function=text()),
        "Functions of the compiler's libraries with branches, which memcheck does not see.",
    ),
    worst_cycles=or_null(integer(), "Upper bound for all inputs, without caches."),
    reason=or_null(text(), "Why there is no bound."),
    path_functions=list_of(
        text(),
        "Functions with branches that may depend on the input; the bound has their longest paths.",
    ),
)

INSPECT_BOARD = record(
    "tvmrt inspect --board --json: an estimate from a run that QEMU counts.",
    file=text(), board=text(), target=text(), core=text("Core whose table of cycles is used."),
    source=text("Source of that table."), published=flag("The maker of the core published it."),
    manual=or_null(text(), "Manual that clock and flash come from."),
    wait_states=number("Cycles to fetch an uncached flash line."), scale=number(),
    clock_hz=or_null(number()), picojoules=or_null(number(), "Energy per cycle."),
    ram_bytes=or_null(size(), "RAM of the board, all regions."), flash_bytes=or_null(size()),
    networks=by_name(
        record(
            instructions=integer(), cycles=integer(), wait_cycles=integer("Part of cycles."),
            **COST,
            measured=or_null(
                record(
                    runs=integer(), median=number(), least=integer(), most=integer(),
                    ratio=number("Median relative to cycles."),
                ),
                "Cycles that a board measured, with --port.",
            ),
            timing=or_null(TIMING, "With --timing."),
            ram=record(
                arena_bytes=size(), input_bytes=size(), output_bytes=size(),
                static_bytes=size("Variables."), stack_bytes=or_null(size()),
                total_bytes=or_null(size(), "null if the stack has no bound."),
            ),
            flash_bytes=size("Weights, code and constants used by a run."),
            weights_bytes=size(),
            layers=list_of(
                record(
                    name=text(), nodes=WORDS, instructions=integer(), cycles=integer(),
                    wait_cycles=integer(), **COST,
                ),
                "Layers in execution order; the last row is the code between them.",
            ),
            functions=list_of(record(name=text(), cycles=integer()), "Most cycles first."),
        )
    ),
)  # fmt: skip
