"""JSON schemas of ``profile --json`` and ``report --json``."""

from __future__ import annotations

from tvmrt.cli.schema_types import integer, list_of, record, seconds, size, text
from tvmrt.cli.schemas import FOOTPRINT, PLAN_ROW, POOL, REGION, STAGES, TENSOR, WORDS

PROFILE = record(
    "tvmrt profile --json.",
    runs=integer(),
    threads=integer(),
    operators=list_of(
        record(
            name=text(), function=text("Symbol of the function."), seconds=seconds("Median."),
            device_=text(), operator_=text(), nodes_=WORDS, macs_=integer(),
        ),
        "Operators in execution order; for a library only names are known.",
    ),
)  # fmt: skip

REPORT = record(
    "tvmrt report --json, and the file that `tvmrt report -o OUT.json` writes.",
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
        scratch_bytes=size(), pools=list_of(POOL), tensors=list_of(PLAN_ROW),
    ),
    operators=list_of(
        record(
            open=True, name=text(), symbol=text(), kind=text(), op=text(), fused=WORDS,
            device=text(), onnx_nodes=WORDS, macs=integer(), moved_bytes=size(),
            weights_bytes=size(), scratch_bytes=size(), live_bytes=size(),
        )
    ),
    nodes=list_of({"type": "object"}),
    regions=list_of(REGION),
    edges=list_of(list_of(integer()), "Pairs of producer and consumer, numbered: inputs, "
    "operators, outputs."),
    stages=STAGES,
    footprint_=FOOTPRINT,
)  # fmt: skip
