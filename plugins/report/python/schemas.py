"""JSON schema of ``report --json``."""

from __future__ import annotations

from tvmrt.cli.schema_types import by_name, flag, integer, list_of, of, record, seconds, size, text
from tvmrt.cli.schemas import SHAPE, WORDS, footprint

TENSOR = record(
    name=text(), shape=SHAPE, dtype=text(),
    nbytes=size("Size at the upper bounds of dynamic dimensions."),
)  # fmt: skip

EVENT = record(
    device=text(), region=text(), name=text(),
    start=seconds("Since the start of the run."), end=seconds(),
)  # fmt: skip

REPORT = (
    "tvmrt report --json, and the file that `tvmrt report -o OUT.json` writes.",
    lambda: record(
        open=True,
        format={"const": "tvmrt-report"},
        version=integer(),
        tvmrt=text(),
        network=text(),
        target=text(),
        executor=text(),
        inputs=list_of(TENSOR),
        outputs=list_of(TENSOR),
        memory=record(
            arena_bytes=size(), lower_bound_bytes=size(), weights_bytes=size(),
            scratch_bytes=size(),
            planned_in_runs_=flag("Each run plans its memory; the sizes are estimates."),
            pools=list_of(of("tvmrt.compiler.export.summary:PoolSummary")),
            tensors=list_of(of("tvmrt.compiler.export.summary:PlanRow")),
        ),
        operators=list_of(
            record(
                open=True, name=text(), symbol=text(), kind=text(), op=text(), fused=WORDS,
                device=text(), onnx_nodes=WORDS, macs=integer(), moved_bytes=size(),
                weights_bytes=size(), scratch_bytes=size(), live_bytes=size(),
                region=text("Symbol of the device's function; empty on the CPU."),
                events_=list_of(EVENT, "What the device did in a run."),
            )
        ),
        nodes=list_of({"type": "object"}),
        regions=list_of(of("tvmrt.compiler.partition.report:RegionSummary")),
        edges=list_of(list_of(integer()), "Pairs of producer and consumer, numbered: inputs, "
        "operators, outputs."),
        stages=by_name(seconds(), "Seconds of each stage of the compiler."),
        footprint_=footprint(),
    ),
)  # fmt: skip
