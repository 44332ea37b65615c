"""What ``--json`` prints, as JSON Schemas (draft 2020-12), one for each form of output.

``tvmrt schema NAME`` prints one, and the reference page of JSON output is made of them. A form's
number grows when a member is left out or changes its meaning; new members keep it.
"""

from __future__ import annotations

from tvmrt.cli.schema_types import Schema
from tvmrt.cli.schema_types import by_name as _by_name
from tvmrt.cli.schema_types import flag as _flag
from tvmrt.cli.schema_types import list_of as _list
from tvmrt.cli.schema_types import number as _number
from tvmrt.cli.schema_types import or_null as _or_null
from tvmrt.cli.schema_types import record as _record
from tvmrt.cli.schema_types import seconds as _seconds
from tvmrt.cli.schema_types import size as _bytes
from tvmrt.cli.schema_types import text as _text
from tvmrt.cli.schema_types import whole as _whole

DRAFT = "https://json-schema.org/draft/2020-12/schema"
VERSION = 1


def tag(name: str) -> str:
    """What the member ``schema`` of an output says."""
    return f"tvmrt/{name}/{VERSION}"


def schema(name: str) -> Schema:
    """The schema of a form. Raises ValueError for a name that none has."""
    if name not in FORMS:
        raise ValueError(f"there is no JSON output '{name}'; there are {', '.join(FORMS)}")
    form = FORMS[name]
    members = {"schema": {"const": tag(name), "description": "The form of this output."}}
    return {
        "$schema": DRAFT,
        "title": tag(name),
        **form,
        "properties": {**members, **form["properties"]},
        "required": ["schema", *form["required"]],
    }


COST = {"seconds": _or_null(_seconds()), "joules": _or_null(_number())}
WORDS = _list(_text())
CACHE_ENTRY = _record(name=_text(), nbytes=_bytes(), unused_seconds=_seconds("Since its last use."))
SHAPE = _list(
    {"type": ["integer", "string"]}, "Extents; one that a run chooses by its name or expression."
)
TENSOR = _record(name=_text(), shape=SHAPE, dtype=_text(), nbytes=_bytes("At the largest sizes."))
LABELLED = _record(
    name=_text(), shape=SHAPE, dtype=_text(), nbytes=_bytes("At the largest sizes."),
    labels=_list(_text(), "Names that the elements are places of, or that the columns stand for."),
)  # fmt: skip
POOL = _record(
    name=_text(), used_bytes=_bytes(),
    capacity_bytes=_or_null(_bytes(), "null where none was given."),
    lower_bound_bytes=_bytes("What no plan can go below."),
    kept_bytes=_bytes("Weights that are copied there, of what is used."),
    lent=_flag("The caller of the network lends it."),
    section=_or_null(_text(), "Of the linker."),
    device=_text("That has the memory; empty for the host's."),
)  # fmt: skip
TRIED = _record(
    tile_=_list(_whole(), "Lanes, vectors of channels, pixels."),
    at_once_=_whole("Blocks of channels whose weights stay in cache."),
    pixels_=_whole("Of a layer in 8 bits: pixels that are finished at once."),
    threads_=_whole("That share the layer at most; 0: all that there are."),
    square_=_whole("Results of a square along an axis."),
    seconds=_seconds("The fastest run."),
)  # fmt: skip
TUNED_LAYER = _record(
    layer=_text("Its signature."),
    level=_text("Lanes x registers of its vectors; of bytes, what multiplies them."),
    processor=_text("The kind that it was measured on."),
    usual=TRIED, best=TRIED,
    square=_whole("The fastest size of squares; 1: directly; 0: not asked."),
    threads=_whole("Of so many at most it was asked who shares the layer; 0: not asked."),
    shared=_list(TRIED, "The best choice by numbers of threads, in one run."),
    tried=_list(TRIED, "All that was measured, in one run."), tool=_text(),
)  # fmt: skip
PLAN_ROW = _record(
    buffer=_text(), offset=_bytes(), size=_bytes(),
    first=_whole("The step that writes it; -1 for an input."), last=_whole("The last that reads."),
    pool=_text(),
)  # fmt: skip
REGION = _record(
    symbol=_text(), device=_text(), onnx_nodes=WORDS, operators=WORDS, input_bytes=_bytes(),
    output_bytes=_bytes(), code=_text("What the device makes of it, in words."),
    precision=_text(), error=_or_null(_number(), "Measured, of a lower precision."),
    weights_bytes=_bytes(), note=_text("What the device says of it: its size, or its time."),
)  # fmt: skip
DEPTH = _record(
    bytes=_or_null(_bytes(), "null where no bound is known."), path=_list(_text(), "Of calls.")
)
FOOTPRINT = {
    "oneOf": [
        _record(measured={"const": False}, reason=_text()),
        _record(
            measured={"const": True},
            compiler=_text(),
            run_code_bytes=_by_name(_bytes(), "Code that a run needs, by network."),
            code_bytes=_bytes("With all entries."),
            constant_bytes=_bytes("Without weights."),
            run_constant_bytes=_bytes(),
            data_bytes=_bytes(),
            bss_bytes=_bytes(),
            stack=_by_name(DEPTH, "The deepest path, by network."),
            stack_not_counted=_list(_text(), "Functions outside, whose stack is not in it."),
            left_out=_by_name(_text(), "C files that were not measured, with the reason."),
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
    ram_bytes=_bytes(), instructions=_whole("How many it takes more than whole layers, estimated."),
    chains=_list(WORDS, "First and last operator of those that are computed by rows."),
    patches=_list(_whole(), "For each of them, into how many patches of columns it is cut."),
    surplus_macs=_whole("Multiply-adds that are done twice, where patches read the same."),
)  # fmt: skip
NARROWED = _record(
    name=_text("Of the weights."), nodes=_list(_text(), "That read them."),
    bits=_whole("Of each weight: 4, 8, or 32 where the error would have been too large."),
    before_bytes=_bytes(), after_bytes=_bytes("With the factors of blocks."),
    error=_number("Root mean square of the difference, in parts of that of the weights."),
)  # fmt: skip
WINOGRAD = _record(
    name=_text("Of the network's node."),
    size=_whole("Pixels of a square along an axis: 2, 4, or 1 where its error was too large."),
    gain=_number("How many times as fast it should be."),
    error=_number("Root mean square of the difference, in parts of that of the results."),
)
REDUCED = _record(
    name=_text("Of the weights, or of the product."), nodes=_list(_text(), "That it stands for."),
    precision=_text("`bfloat16`, or `float32` where the error would have been too large."),
    error=_or_null(_number("From float32 with the same operands, in parts of the largest result.")),
)  # fmt: skip
_SUMMARY = {
    "arena_bytes": _bytes("Memory for tensors."),
    "lower_bound_bytes": _bytes("What no plan of it can go below."),
    "weights_bytes": _bytes(),
    "scratch_bytes": _bytes("What each thread takes besides, on hosts; none on boards."),
    "inputs": _list(LABELLED),
    "outputs": _list(LABELLED),
    "operators": _list(
        _record(
            name=_text(), op=_text(), onnx_nodes=WORDS, macs=_whole("Multiply-adds."),
            out_shape=SHAPE, symbol=_text("Of the C function."), live_bytes=_bytes(),
            scratch_bytes=_bytes(), weights_bytes=_bytes(),
        ),
        "The C functions, in the order in which they run.",
    ),
    "plan": _list(PLAN_ROW, "Where each tensor lies, and from which step to which."),
    "nodes": _list(
        _record(
            name=_text(), op_type=_text(), device=_text("cpu, or several separated by commas."),
            reason=_text("Why a device has not got it."), region=_text(),
        ),
        "Of the network as it was read.",
    ),
    "regions": _list(REGION, "What devices have."),
    "borders": _list(
        _record(
            tensor=_text(), source=_text(), target=_text(), nbytes=_bytes(), copied=_flag(),
            stays_in=_text("A device in whose memory it lies all the time; else empty."),
        )
    ),
    "pools": _list(POOL),
    "narrowed": _list(NARROWED, "Weights in few bits, and those that were to be (`--weights`)."),
    "winograd": _list(WINOGRAD, "Convolutions by squares, also those that stay (`--winograd`)."),
    "reduced": _list(REDUCED, "Products that could be in bfloat16 (`--precision`)."),
    "row_plans": _list(ROW_PLAN, "Where RAM was limited, what plans there are, the fastest first."),
}  # fmt: skip
_STAGES = _by_name(_seconds(), "Seconds of each stage of the compiler.")
SUMMARY = _record(**_SUMMARY, seconds=_STAGES)
TIMING = _record(
    runtime=_text(), median=_seconds("Of a call."), fastest=_seconds(),
    speed=_seconds("tvmrt's as a multiple of this one's: the median over rounds."),
    speed_of_fastest=_seconds(),
)  # fmt: skip
ROOFLINE = _record(
    name=_text(), symbol=_text(), operator=_text(), nodes=WORDS, device=_text(),
    precision=_text("Of what is multiplied: `float32`, `bfloat16` or `int8`."),
    seconds=_seconds("The median of several runs."), macs=_whole(),
    moved_bytes=_bytes("Of operands, results and weights."),
    flops=_number("Operations a second."), bytes=_number("Moved a second."),
    roofline=_number("The part of the best that this machine can do."),
    bound=_text("What the best is of: `arithmetic` or `memory`."),
)  # fmt: skip
VERDICT = _record(
    error=_number(), allowed=_number("In the same unit."),
    excess=_number("Their worst ratio; at most 1 is right."), problem=_text(),
    relative=_number("The error in parts of the largest right number; of integers 0."),
)  # fmt: skip
FINDING = _record(check=_text(), subject=_text(), passed=_flag(), detail=_text())
# the columns of tables that inspect prints have names for people
_ROWS = _list({"type": "object"})

FORMS: dict[str, Schema] = {
    "compile": _record(
        "tvmrt compile --json. Several networks in one image are under `networks`, one has its "
        "members here.",
        output=_text("The file or folder that was written."),
        seconds={"anyOf": [_seconds(), _STAGES]},
        networks_=_by_name(SUMMARY),
        image_={"type": "object", "description": "What the networks of one image share."},
        footprint_=FOOTPRINT,
        **{f"{name}_": member for name, member in _SUMMARY.items()},
    ),
    "run": _record(
        "tvmrt run --json.",
        outputs=_by_name(
            _record(
                dtype=_text(), shape=_list(_bytes()),
                values_={"description": "Nested lists, as deep as the shape is long; left out with "
                         "--outputs. Numbers, true and false, or texts; NaN, Infinity and "
                         "-Infinity are words."},
            )
        ),
        seconds=_list(_seconds(), "Of each run, with --repeat."),
        operators=_list(
            _record(name=_text(), count=_whole("Calls."), seconds=_seconds(), open=True),
            "With --profile.",
        ),
    ),
    "verify": _record(
        "tvmrt verify --json of a network.",
        judge=_text("Who said what is right."),
        wrong=_whole("How many tensors are."),
        tensors=_list(
            _record(
                part=_text(), tensor=_text(), made_by=_text(), dtype=_text(), shape=SHAPE,
                verdict=VERDICT, right=_flag(),
            )
        ),
    ),
    "verify-operators": _record(
        "tvmrt verify --json of a file with operators.",
        wrong=_whole(),
        bodies=_list(
            _record(
                operator=_text(), body=_text(), judge=_text(), operands=_text(), output=_text(),
                skipped=_text("Why it was not checked; else empty."), problem=_text(),
                error=_number(), allowed=_number(), right=_flag(),
            )
        ),
    ),
    "bench": _record(
        "tvmrt bench --json.",
        threads=_whole(),
        networks=_list(
            _record(
                network=_text("With its sizes where a run chooses them."),
                timings=_list(TIMING, "tvmrt's own first."), rounds=_whole(),
                compile_seconds=_seconds("0 of what was compiled before."),
                resident=_or_null(
                    _record(
                        "What loading and running what was compiled before took of memory.",
                        own_bytes=_bytes("Of this process alone."),
                        file_bytes=_bytes("Of files, which processes share."),
                    )
                ),
                operators_=_list(ROOFLINE, "In the order of a run, with --profile."),
            )
        ),
        machine_=_record(
            "What is measured of this machine, with --profile.",
            flops=_by_name(_number(), "Operations a second of a matrix product, by precision."),
            bytes=_number("A second, of copies from memory."),
        ),
        speed=_by_name(_record(geometric_mean=_seconds(), least=_seconds()), "By rival."),
    ),
    "profile": _record(
        "tvmrt profile --json.",
        runs=_whole(),
        threads=_whole(),
        operators=_list(
            _record(
                name=_text(), function=_text("Its symbol."), seconds=_seconds("The median."),
                device_=_text(), operator_=_text(), nodes_=WORDS, macs_=_whole(),
            ),
            "In the order of a run; of a library names alone are known.",
        ),
    ),
    "report": _record(
        "tvmrt report --json, and the file that `tvmrt report -o OUT.json` writes.",
        open=True,
        format={"const": "tvmrt-report"},
        version=_whole(),
        tvmrt=_text(),
        network=_text(),
        target=_text(),
        executor=_text(),
        inputs=_list(TENSOR),
        outputs=_list(TENSOR),
        memory=_record(
            arena_bytes=_bytes(), lower_bound_bytes=_bytes(), weights_bytes=_bytes(),
            scratch_bytes=_bytes(), pools=_list(POOL), tensors=_list(PLAN_ROW),
        ),
        operators=_list(
            _record(
                open=True, name=_text(), symbol=_text(), kind=_text(), op=_text(), fused=WORDS,
                device=_text(), onnx_nodes=WORDS, macs=_whole(), moved_bytes=_bytes(),
                weights_bytes=_bytes(), scratch_bytes=_bytes(), live_bytes=_bytes(),
            )
        ),
        nodes=_list({"type": "object"}),
        regions=_list(REGION),
        edges=_list(_list(_whole()), "Who reads what who has written, by numbers of vertices: "
                    "inputs, operators, outputs."),
        stages=_STAGES,
        footprint_=FOOTPRINT,
    ),
    "inspect": _record(
        "tvmrt inspect --json. Which members there are depends on the file's format; tables have "
        "the titles under which they are printed.",
        open=True,
        file=_text(),
        format=_text(),
        manifest_={"type": "object", "description": "What tvmrt wrote of itself."},
        inputs_=_list(_record(open=True, name=_text(), dtype=_text(), shape=SHAPE)),
        outputs_=_list(_record(open=True, name=_text(), dtype=_text(), shape=SHAPE)),
        functions_=_ROWS,
        can_be_imported_=_flag("Of networks; if not, `why_not` says why."),
        why_not_=_text(),
        opset_=_by_name(_whole()),
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
    "inspect-board": _record(
        "tvmrt inspect --board --json: an estimate, by a run that is counted in QEMU.",
        file=_text(), board=_text(), target=_text(), core=_text("Whose table of cycles it is."),
        source=_text("Of that table."), published=_flag("By the maker of the core."),
        manual=_or_null(_text(), "After which, by memory, clock and flash are."),
        wait_states=_number("Cycles of a line of flash that is not cached."), scale=_number(),
        clock_hz=_or_null(_number()), picojoules=_or_null(_number(), "Of a cycle."),
        ram_bytes=_or_null(_bytes(), "The board's, all regions."), flash_bytes=_or_null(_bytes()),
        networks=_by_name(
            _record(
                instructions=_whole(), cycles=_whole(), wait_cycles=_whole("Of cycles."), **COST,
                ram=_record(
                    arena_bytes=_bytes(), input_bytes=_bytes(), output_bytes=_bytes(),
                    static_bytes=_bytes("Variables."), stack_bytes=_or_null(_bytes()),
                    total_bytes=_or_null(_bytes(), "null where the stack has no bound."),
                ),
                flash_bytes=_bytes("Weights, code and constants of what a run calls."),
                weights_bytes=_bytes(),
                layers=_list(
                    _record(
                        name=_text(), nodes=WORDS, instructions=_whole(), cycles=_whole(),
                        wait_cycles=_whole(), **COST,
                    ),
                    "In the order of a run; the last row is what is between them.",
                ),
                functions=_list(_record(name=_text(), cycles=_whole()), "The most first."),
            )
        ),
    ),
    "tune": _record(
        "tvmrt tune --json.",
        database=_text("The file that has what was found."),
        measured=_whole("Layers of this call; of the others the database knew enough."),
        layers=_list(
            _record(
                layer=_text("Its signature."), count=_whole("How often the networks have it."),
                before_seconds=_seconds("As the compiler's estimate has it."),
                after_seconds=_seconds(), choice=_text(), square=_whole(),
            )
        ),
        networks=_list(
            _record(
                network=_text(), threads=_whole(),
                before_seconds=_seconds("The fastest run."), after_seconds=_seconds(),
                speed=_number("The median over rounds of before by after."),
                speed_of_fastest=_number(),
            )
        ),
    ),
    "tuning": _record(
        "The database of tvmrt tune, a file.", entries=_list(TUNED_LAYER)
    ),
    "doctor": _record(
        "tvmrt doctor --json of this machine.",
        checks=_list(
            _record(
                what=_text(), state={"enum": ["ok", "absent", "missing"]}, found=_text(),
                remedy=_text("What to install; empty where all is well."),
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
        "tvmrt cache --json.", folder=_text(), max_bytes=_bytes(), nbytes=_bytes("Of the entries."),
        entries=_list(CACHE_ENTRY, "The one that was not used for longest first."),
        unfinished=_list(CACHE_ENTRY, "What killed processes have left."),
        removed_=_list(CACHE_ENTRY, "Where something was to be cleared."),
    ),
    "config": _record(
        "tvmrt config --json: all, or those that were asked for.",
        cflags_=_text(), libs_=_text(), includes_=_text(), prefix_=_text(), backend_lib_=_text(),
        firmware_sources_=_text(), cmake_=_text(),
    ),
    "explain": _record(
        "tvmrt explain CODE --json.", error=_text(), cause=_text(), remedy=_text()
    ),
    "replay": _record(
        "tvmrt replay --json.",
        run=_whole(), runs=_whole(), finding=_text(), wrong=_flag(),
        records=_list(
            _record(
                operator=_or_null(_whole()), name=_text(), nodes=WORDS, cycles=_or_null(_whole()),
                hash=_or_null(_whole()), low=_or_null(_number()), high=_or_null(_number()),
                host_hash=_or_null(_whole()), host_low=_or_null(_number()),
                host_high=_or_null(_number()), verdict=_text(),
            )
        ),
    ),
    "device-list": _record(
        "tvmrt device list --json.",
        devices=_list(
            _record(
                name=_text(), layout=_text(), precisions=WORDS, text=_text(),
                absent=_or_null(_text(), "Why this machine cannot run it; null if it can."),
            )
        ),
    ),
    "device-new": _record("tvmrt device new --json.", files=WORDS),
    "device-test": _record(
        "tvmrt device test --json.", device=_text(), passed=_flag(), findings=_list(FINDING)
    ),
    "migrate-headers": _record(
        "tvmrt migrate-headers --json.",
        rewritten=_flag(),
        uses=_list(_record(file=_text(), line=_whole(), old=_text(), new=_text(), reason=_text())),
    ),
}  # fmt: skip
