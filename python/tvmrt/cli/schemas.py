"""JSON Schemas (draft 2020-12) of the output of ``--json``, one per command or format.

``tvmrt schema NAME`` prints one, and the reference page of JSON output is generated from them. The
version of a schema increases when a member is removed or changes its meaning, not when one is
added.
"""

from __future__ import annotations

from tvmrt import plugin
from tvmrt.cli.schema_types import Schema
from tvmrt.cli.schema_types import by_name as _by_name
from tvmrt.cli.schema_types import flag as _flag
from tvmrt.cli.schema_types import integer as _integer
from tvmrt.cli.schema_types import list_of as _list
from tvmrt.cli.schema_types import number as _number
from tvmrt.cli.schema_types import or_null as _or_null
from tvmrt.cli.schema_types import record as _record
from tvmrt.cli.schema_types import seconds as _seconds
from tvmrt.cli.schema_types import size as _bytes
from tvmrt.cli.schema_types import text as _text

DRAFT = "https://json-schema.org/draft/2020-12/schema"
VERSION = 1


def tag(name: str) -> str:
    """Return the value of the member ``schema`` of an output."""
    return f"tvmrt/{name}/{VERSION}"


def names() -> list[str]:
    """Return the names of all schemas; schemas of plug-ins come last."""
    return [*FORMS, *(name for name in plugin.keys("schemas") if name not in FORMS)]


def form_of(name: str) -> Schema:
    """Return a schema without its tag. Raises ValueError for an unknown name, and the ImportError
    of ``plugin.find``."""
    result: Schema | None = FORMS.get(name) or plugin.find("schemas", name)
    if result is None:
        reason = plugin.why_missing("schemas", name) or f"there are {', '.join(names())}"
        raise ValueError(f"unknown JSON output '{name}'; {reason}")
    if not isinstance(result, dict) or not {"properties", "description"} <= result.keys():
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


WORDS = _list(_text())
CACHE_ENTRY = _record(
    name=_text(), nbytes=_bytes(), unused_seconds=_seconds("Time since the last use.")
)
SHAPE = _list(
    {"type": ["integer", "string"]}, "Dimensions; a dynamic one as its name or expression."
)
TENSOR = _record(
    name=_text(),
    shape=SHAPE,
    dtype=_text(),
    nbytes=_bytes("Size at the upper bounds of dynamic dimensions."),
)
LABELLED = _record(
    name=_text(), shape=SHAPE, dtype=_text(),
    nbytes=_bytes("Size at the upper bounds of dynamic dimensions."),
    labels=_list(_text(), "String table that integer elements index, or names of the columns."),
)  # fmt: skip
POOL = _record(
    name=_text(), used_bytes=_bytes(),
    capacity_bytes=_or_null(_bytes(), "null if no limit was given."),
    lower_bound_bytes=_bytes("Lower bound of any plan."),
    kept_bytes=_bytes("Part of used_bytes that holds copied weights."),
    lent=_flag("The caller provides this memory."),
    section=_or_null(_text(), "Linker section."),
    device=_text("Device that owns the memory; empty for host memory."),
)  # fmt: skip
PLAN_ROW = _record(
    buffer=_text(), offset=_bytes(), size=_bytes(),
    first=_integer("Step that writes it; -1 for an input."),
    last=_integer("Last step that reads it."),
    pool=_text(),
)  # fmt: skip
REGION = _record(
    symbol=_text(), device=_text(), onnx_nodes=WORDS, operators=WORDS, input_bytes=_bytes(),
    output_bytes=_bytes(), code=_text("Code of the device for it, described."),
    precision=_text(), error=_or_null(_number(), "Measured error of reduced precision."),
    weights_bytes=_bytes(), note=_text("Remark of the device, such as size or time."),
)  # fmt: skip
DEPTH = _record(
    bytes=_or_null(_bytes(), "null if no bound is known."), path=_list(_text(), "Call path.")
)
FOOTPRINT = {
    "oneOf": [
        _record(measured={"const": False}, reason=_text()),
        _record(
            measured={"const": True},
            compiler=_text(),
            run_code_bytes=_by_name(_bytes(), "Code used by a run, by network."),
            code_bytes=_bytes("Code including entry points that a run does not use."),
            constant_bytes=_bytes("Constants other than weights."),
            run_constant_bytes=_bytes(),
            data_bytes=_bytes(),
            bss_bytes=_bytes(),
            stack=_by_name(DEPTH, "Deepest call path, by network."),
            stack_not_counted=_list(_text(), "External functions whose stack is not counted."),
            left_out=_by_name(_text(), "C files that were not measured, and the reason."),
            functions=_list(
                _record(
                    name=_text(),
                    code_bytes=_bytes(),
                    frame_bytes=_bytes(),
                    stack_bytes=_or_null(_bytes()),
                )
            ),
        ),
    ],
    "description": "Code, constants and stack on the target, by its C compiler.",
}
ROW_PLAN = _record(
    ram_bytes=_bytes(),
    instructions=_integer("Estimated instructions in addition to layer-by-layer execution."),
    chains=_list(WORDS, "First and last operator of each chain that is computed by rows."),
    patches=_list(_integer(), "Number of column patches of each chain."),
    surplus_macs=_integer("Multiply-adds that overlapping patches repeat."),
)  # fmt: skip
NARROWED = _record(
    name=_text("Name of the weights."), nodes=_list(_text(), "Nodes that read them."),
    bits=_integer("Bits per weight: 4, 8, or 32 if the error would have been too large."),
    before_bytes=_bytes(), after_bytes=_bytes("Size with the scales of blocks."),
    error=_number("RMS of the difference relative to the RMS of the weights."),
)  # fmt: skip
WINOGRAD = _record(
    name=_text("Name of the node."),
    size=_integer("Winograd tile size: 2, 4, or 1 if the error was too large."),
    gain=_number("Estimated speed-up."),
    error=_number("RMS of the difference relative to the RMS of the results."),
)
REDUCED = _record(
    name=_text("Name of the weights or of the matmul."), nodes=_list(_text(), "ONNX nodes."),
    precision=_text("`bfloat16`, or `float32` if the error would have been too large."),
    error=_or_null(_number("Difference from float32 relative to the largest result.")),
)  # fmt: skip
_SUMMARY = {
    "arena_bytes": _bytes("Memory for tensors."),
    "lower_bound_bytes": _bytes("Lower bound of any memory plan."),
    "weights_bytes": _bytes(),
    "scratch_bytes": _bytes("Additional memory of each thread on hosts; 0 on boards."),
    "inputs": _list(LABELLED),
    "outputs": _list(LABELLED),
    "operators": _list(
        _record(
            name=_text(), op=_text(), onnx_nodes=WORDS, macs=_integer("Multiply-adds."),
            out_shape=SHAPE, symbol=_text("C function."), live_bytes=_bytes(),
            scratch_bytes=_bytes(), weights_bytes=_bytes(),
        ),
        "C functions in execution order.",
    ),
    "plan": _list(PLAN_ROW, "Offset and lifetime of each tensor."),
    "nodes": _list(
        _record(
            name=_text(), op_type=_text(),
            device=_text("cpu, or device names separated by commas."),
            reason=_text("Reason why no device takes it."), region=_text(),
        ),
        "Nodes of the network as imported.",
    ),
    "regions": _list(REGION, "Regions of devices."),
    "borders": _list(
        _record(
            tensor=_text(), source=_text(), target=_text(), nbytes=_bytes(), copied=_flag(),
            stays_in=_text("Device whose memory holds it throughout, or empty."),
        )
    ),
    "pools": _list(POOL),
    "narrowed": _list(NARROWED,
    "Weights with reduced bits, and candidates that kept float32 (`--weights`)."),
    "winograd": _list(WINOGRAD,
    "Winograd convolutions, and candidates that stay direct (`--winograd`)."),
    "reduced": _list(REDUCED, "Layers that could be computed in bfloat16 (`--precision`)."),
    "row_plans": _list(ROW_PLAN, "Plans for limited RAM, the fastest first."),
}  # fmt: skip
STAGES = _by_name(_seconds(), "Seconds of each stage of the compiler.")
SUMMARY = _record(**_SUMMARY, seconds=STAGES)
TIMING = _record(
    runtime=_text(), median=_seconds("Median of a call."), fastest=_seconds(),
    speed=_seconds("Speed of tvmrt relative to this runtime: median over rounds."),
    speed_of_fastest=_seconds(),
)  # fmt: skip
ROOFLINE = _record(
    name=_text(), symbol=_text(), operator=_text(), nodes=WORDS, device=_text(),
    precision=_text("Type of the multiplied operands: `float32`, `bfloat16` or `int8`."),
    seconds=_seconds("Median of several runs."), macs=_integer(),
    moved_bytes=_bytes("Size of operands, results and weights."),
    flops=_number("Operations per second."), bytes=_number("Bytes moved per second."),
    roofline=_number("Fraction of the attainable performance of this machine."),
    bound=_text("Limit of the roofline: `arithmetic` or `memory`."),
)  # fmt: skip
VERDICT = _record(
    error=_number(), allowed=_number("Tolerance, in the same unit."),
    excess=_number("Largest ratio of error to tolerance; correct up to 1."), problem=_text(),
    relative=_number("Error relative to the largest expected value; 0 for integers."),
)  # fmt: skip
# Column titles of the tables that inspect prints.
_ROWS = _list({"type": "object"})

FORMS: dict[str, Schema] = {
    "compile": _record(
        "tvmrt compile --json. Several networks are listed under `networks`; the members of a "
        "single network are at the top level.",
        output=_text("File or folder that was written."),
        seconds={"anyOf": [_seconds(), STAGES]},
        networks_=_by_name(SUMMARY),
        image_={"type": "object", "description": "Memory and code that the networks share."},
        footprint_=FOOTPRINT,
        **{f"{name}_": member for name, member in _SUMMARY.items()},
    ),
    "run": _record(
        "tvmrt run --json.",
        outputs=_by_name(
            _record(
                dtype=_text(), shape=_list(_bytes()),
                values_={"description": "Nested lists, one level per dimension; omitted with "
                         "--outputs. Numbers, booleans or strings; NaN, Infinity and -Infinity "
                         "are strings."},
            )
        ),
        seconds=_list(_seconds(), "Time of each run, with --repeat."),
        operators=_list(
            _record(name=_text(), count=_integer("Number of calls."), seconds=_seconds(),
                    open=True),
            "With --profile.",
        ),
    ),
    "verify": _record(
        "tvmrt verify --json of a network.",
        judge=_text("Reference runtime."),
        wrong=_integer("Number of wrong tensors."),
        tensors=_list(
            _record(
                part=_text(), tensor=_text(), made_by=_text(), dtype=_text(), shape=SHAPE,
                verdict=VERDICT, right=_flag(),
            )
        ),
    ),
    "verify-operators": _record(
        "tvmrt verify --json of a file with operators.",
        wrong=_integer(),
        bodies=_list(
            _record(
                operator=_text(), body=_text(), judge=_text(), operands=_text(), output=_text(),
                skipped=_text("Reason why it was not checked, or empty."), problem=_text(),
                error=_number(), allowed=_number(), right=_flag(),
            )
        ),
    ),
    "bench": _record(
        "tvmrt bench --json.",
        threads=_integer(),
        networks=_list(
            _record(
                network=_text("Network, with the sizes of its dynamic dimensions."),
                timings=_list(TIMING, "Timings, that of tvmrt first."), rounds=_integer(),
                compile_seconds=_seconds("Compile time; 0 for a compiled network."),
                resident=_or_null(
                    _record(
                        "Memory for loading and running a compiled network.",
                        own_bytes=_bytes("Private memory of this process."),
                        file_bytes=_bytes("File-backed memory that processes share."),
                    )
                ),
                operators_=_list(ROOFLINE, "Operators in execution order, with --profile."),
            )
        ),
        machine_=_record(
            "Measured limits of this machine, with --profile.",
            flops=_by_name(_number(), "Operations per second of a matmul, by precision."),
            bytes=_number("Bytes per second of copies from memory."),
        ),
        speed=_by_name(_record(geometric_mean=_seconds(), least=_seconds()),
        "Speed relative to each other runtime."),
    ),
    "inspect": _record(
        "tvmrt inspect --json. The members depend on the file's format; tables use the titles "
        "under which they are printed.",
        open=True,
        file=_text(),
        format=_text(),
        manifest_={"type": "object", "description": "Manifest that tvmrt wrote into the file."},
        inputs_=_list(_record(open=True, name=_text(), dtype=_text(), shape=SHAPE)),
        outputs_=_list(_record(open=True, name=_text(), dtype=_text(), shape=SHAPE)),
        functions_=_ROWS,
        can_be_imported_=_flag("For networks; if false, `why_not` has the reason."),
        why_not_=_text(),
        opset_=_by_name(_integer()),
        needs_libraries_=WORDS,
        needs_of_runtime_=WORDS,
        weights_bytes_=_bytes(),
        file_bytes_=_bytes(),
        memory_=_by_name(
            _record(
                open=True, pools=_list(POOL), lower_bound_bytes=_bytes(),
                workspace_bytes=_bytes(), weights_bytes=_bytes(), row_plans_=_list(ROW_PLAN),
            ),
            "RAM of an archive for a board, by network.",
        ),
        footprint_=FOOTPRINT,
    ),
    "doctor": _record(
        "tvmrt doctor --json of this machine.",
        checks=_list(
            _record(
                what=_text(), state={"enum": ["ok", "absent", "missing"]}, found=_text(),
                remedy=_text("What to install, or empty."),
            )
        ),
    ),
    "doctor-files": _record(
        "tvmrt doctor FILE... --json.",
        findings=_list(
            _record(symbol=_text(), state=_text(), needed_by=WORDS, supplied_by=WORDS)
        ),
    ),
    "cache": _record(
        "tvmrt cache --json.", folder=_text(), max_bytes=_bytes(),
        nbytes=_bytes("Size of all entries."),
        entries=_list(CACHE_ENTRY, "Entries, least recently used first."),
        unfinished=_list(CACHE_ENTRY, "Incomplete entries of killed processes."),
        removed_=_list(CACHE_ENTRY, "Removed entries, with --clear or --clear-older-than."),
    ),
    "config": _record(
        "tvmrt config --json: all values, or the requested ones.",
        cflags_=_text(), libs_=_text(), includes_=_text(), prefix_=_text(), backend_lib_=_text(),
        firmware_sources_=_text(), cmake_=_text(),
    ),
    "explain": _record(
        "tvmrt explain CODE --json.", error=_text(), cause=_text(), remedy=_text()
    ),
    "replay": _record(
        "tvmrt replay --json.",
        run=_integer(), runs=_integer(), finding=_text(), wrong=_flag(),
        records=_list(
            _record(
                operator=_or_null(_integer()), name=_text(), nodes=WORDS,
                cycles=_or_null(_integer()),
                hash=_or_null(_integer()), low=_or_null(_number()), high=_or_null(_number()),
                host_hash=_or_null(_integer()), host_low=_or_null(_number()),
                host_high=_or_null(_number()), verdict=_text(),
            )
        ),
    ),
    "device-list": _record(
        "tvmrt device list --json.",
        devices=_list(
            _record(
                name=_text(), layout=_text(), precisions=WORDS, text=_text(),
                absent=_or_null(_text(), "Reason why this machine cannot run it, or null."),
            )
        ),
    ),
    "device-new": _record("tvmrt device new --json.", files=WORDS),
}  # fmt: skip
