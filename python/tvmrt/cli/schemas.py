"""JSON Schemas (draft 2020-12) of the output of ``--json``, one per command or format.

``tvmrt schema NAME`` prints one, and the reference page of JSON output is generated from them.
Printed dataclasses define their own records (``schema_types.of``). The version of a schema
increases when a member is removed or changes its meaning, not when one is added.
"""

from __future__ import annotations

from collections.abc import Callable

from tvmrt import plugin
from tvmrt.cli.schema_types import (
    Schema,
    by_name,
    described,
    flag,
    integer,
    list_of,
    number,
    of,
    record,
    seconds,
    size,
    tag,
    text,
)  # fmt: skip

# description of an output, and the function that makes its schema
Form = tuple[str, Callable[[], Schema]]

DRAFT = "https://json-schema.org/draft/2020-12/schema"


def names() -> list[str]:
    """Return the names of all schemas; schemas of plug-ins come last."""
    return [*FORMS, *(name for name in plugin.keys("schemas") if name not in FORMS)]


def description(name: str) -> str:
    """Return the description of a schema. Raises the errors of ``form_of``."""
    form = _find(name)
    return str(form["description"] if isinstance(form, dict) else form[0])


def form_of(name: str) -> Schema:
    """Return a schema without its tag. Raises ValueError for an unknown name, and the ImportError
    of ``plugin.find``."""
    form = _find(name)
    return form if isinstance(form, dict) else described(form[1](), form[0])


def _find(name: str) -> Schema | Form:
    result = FORMS.get(name) or plugin.find("schemas", name)
    if result is None:
        reason = plugin.why_missing("schemas", name) or f"there are {', '.join(names())}"
        raise ValueError(f"unknown JSON output '{name}'; {reason}")
    whole = isinstance(result, dict) and {"properties", "description"} <= result.keys()
    if not (whole or isinstance(result, tuple)):
        owner = plugin.owner_of("schemas", name)
        raise ValueError(
            f"the schema {name} of the plug-in {owner} is not a record with a description"
        )
    return result


def schema(name: str) -> Schema:
    """Return the schema of this name. Raises the errors of ``form_of``."""
    form = form_of(name)
    members = {"schema": {"const": tag(name), "description": "Name and version of this schema."}}
    return {
        "$schema": DRAFT,
        "title": tag(name),
        **form,
        "properties": {**members, **form["properties"]},
        "required": ["schema", *form["required"]],
    }


WORDS = list_of(text())
CACHE_ENTRY = "tvmrt.cli.cache:CacheEntry"
SHAPE = list_of(
    {"type": ["integer", "string"]}, "Dimensions; a dynamic one as its name or expression."
)
ROOFLINE = record(
    name=text(), symbol=text(), operator=text(), nodes=WORDS, device=text(),
    precision=text("Type of the multiplied operands: `float32`, `bfloat16` or `int8`."),
    seconds=seconds("Median of several runs."), macs=integer(),
    moved_bytes=size("Size of operands, results and weights."),
    flops=number("Operations per second."), bytes=number("Bytes moved per second."),
    roofline=number("Fraction of the attainable performance of this machine."),
    bound=text("Limit of the roofline: `arithmetic` or `memory`."),
)  # fmt: skip
FORMS: dict[str, Form] = {
    "compile": (
        "tvmrt compile --json. Several networks are listed under `networks`; the members of a "
        "single network are at the top level.",
        lambda: _compile(of("tvmrt.compiler.export.summary:Summary")),
    ),
    "run": ("tvmrt run --json.", lambda: record(
        outputs=by_name(
            record(
                dtype=text(), shape=list_of(size()),
                values_={"description": "Nested lists, one level per dimension; omitted with "
                         "--outputs. Numbers, booleans or strings; NaN, Infinity and -Infinity "
                         "are strings."},
            )
        ),
        seconds=list_of(seconds(), "Time of each run, with --repeat."),
        operators=list_of(
            record(name=text(), count=integer("Number of calls."), seconds=seconds(),
                    open=True),
            "With --profile.",
        ),
    )),
    "verify": ("tvmrt verify --json.", lambda: record(
        judge=text("Reference runtime."),
        wrong=integer("Number of wrong tensors."),
        tensors=list_of(of("tvmrt.cli.tolerance:TensorComparison", right=flag(), shape=SHAPE)),
    )),
    "bench": ("tvmrt bench --json.", lambda: record(
        threads=integer(),
        networks=list_of(
            of(
                "tvmrt.cli.bench:Result",
                operators_=list_of(ROOFLINE, "Operators in execution order, with --profile."),
            )
        ),
        machine_=record(
            "Measured limits of this machine, with --profile.",
            flops=by_name(number(), "Operations per second of a matmul, by precision."),
            bytes=number("Bytes per second of copies from memory."),
        ),
        speed=by_name(record(geometric_mean=seconds(), least=seconds()),
        "Speed relative to each other runtime."),
    )),
    "inspect": (
        "tvmrt inspect --json. The members depend on the file's format; tables use the titles "
        "under which they are printed.",
        lambda: record(
            open=True,
            file=text(),
            format=text(),
            manifest_={"type": "object", "description": "Manifest that tvmrt wrote into the file."},
            inputs_=list_of(record(open=True, name=text(), dtype=text(), shape=SHAPE)),
            outputs_=list_of(record(open=True, name=text(), dtype=text(), shape=SHAPE)),
            functions_=list_of({"type": "object"}),
            can_be_imported_=flag("For networks; if false, `why_not` has the reason."),
            why_not_=text(),
            opset_=by_name(integer()),
            needs_libraries_=WORDS,
            needs_of_runtime_=WORDS,
            weights_bytes_=size(),
            file_bytes_=size(),
            memory_=by_name(
                record(
                    open=True, pools=list_of(of("tvmrt.compiler.export.summary:PoolSummary")),
                    lower_bound_bytes=size(), workspace_bytes=size(), weights_bytes=size(),
                    row_plans_=list_of(of("tvmrt.compiler.ir.program:RowFusionPlan")),
                ),
                "RAM of an archive for a board, by network.",
            ),
            footprint_=footprint(),
        ),
    ),
    "doctor": ("tvmrt doctor --json of this machine.", lambda: record(
        checks=list_of(
            of("tvmrt.cli.environment:Check", state={"enum": ["ok", "absent", "missing"]})
        ),
    )),
    "doctor-files": ("tvmrt doctor FILE... --json.", lambda: record(
        findings=list_of(of("tvmrt.cli.doctor:Finding"))
    )),
    "cache": ("tvmrt cache --json.", lambda: record(
        folder=text(), max_bytes=size(),
        nbytes=size("Size of all entries."),
        entries=list_of(of(CACHE_ENTRY), "Entries, least recently used first."),
        unfinished=list_of(of(CACHE_ENTRY), "Incomplete entries of killed processes."),
        removed_=list_of(of(CACHE_ENTRY), "Removed entries, with --clear or --clear-older-than."),
    )),
    "config": ("tvmrt config --json: all values, or the requested ones.", lambda: record(
        cflags_=text(), libs_=text(), includes_=text(), prefix_=text(), backend_lib_=text(),
        firmware_sources_=text(), cmake_=text(),
    )),
    "explain": ("tvmrt explain CODE --json.", lambda: of("tvmrt.cli.explain:ExplainedError")),
    "device-list": ("tvmrt device list --json.", lambda: record(
        devices=list_of(of("tvmrt.cli.known_devices:KnownDevice")),
    )),
    "device-new": ("tvmrt device new --json.", lambda: record(files=WORDS)),
}  # fmt: skip


def footprint() -> Schema:
    """Return the schema of sizes by the target's C compiler, or of the reason for none."""
    measured = of("tvmrt.cli.memory_report:FootprintSummary", measured={"const": True})
    return {
        "oneOf": [record(measured={"const": False}, reason=text()), measured],
        "description": "Code, constants and stack on the target, by its C compiler.",
    }


def _compile(summary: Schema) -> Schema:
    """Return the schema of one network's summary, or of several networks' summaries."""
    own = {f"{name}_": member for name, member in summary["properties"].items()}
    stages = own.pop("seconds_")
    return record(
        output=text("File or folder that was written."),
        seconds={"anyOf": [seconds(), stages]},
        networks_=by_name(summary),
        image_={"type": "object", "description": "Memory and code that the networks share."},
        footprint_=footprint(),
        **own,
    )
