"""``tvmrt compile``: compile networks to a shared library, an archive or a folder of C sources."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from tvmrt import conversion
from tvmrt.cli import console, files, options, partition_tables
from tvmrt.cli.option_groups import GroupedCommand
from tvmrt.compiler.codegen.c.naming import module_name_of
from tvmrt.compiler.codegen.target import DEFAULT_VARIABLE, default_target, is_unhosted
from tvmrt.compiler.export import formats
from tvmrt.compiler.option_values import parse_names
from tvmrt.file_suffix import suffix_of

LIBRARIES = (".so", ".dylib", ".dll")


@click.command(
    "compile",
    cls=GroupedCommand,
    takes_all=True,
    defaults={"module_name": None},
    examples=(
        "tvmrt compile net.onnx -o net.so",
        "tvmrt compile net.tflite -o net.tar --board nrf52 --ram 64KiB",
        "tvmrt compile net.onnx -o net.so --dim batch=1..8 --precision bf16",
    ),
)
@click.argument("models", type=options.PATH, nargs=-1, required=True, metavar="MODEL...")
@click.option(
    "-o", "--output", required=True, type=options.PATH,
    help="OUT.so (shared library), OUT.tar (Model Library Format), OUT.elf (an image for a board, "
        "which answers remote calls over its serial line), a folder (C sources), or a file of a "
        f"plug-in: {', '.join(formats.output_suffixes())}.",
)  # fmt: skip
@options.grouped(
    "--concurrent", group="Boards", multiple=True, metavar="NAME,NAME...",
    help="Several networks: these may run concurrently, so they do not share memory. all: every "
        "network.",
)  # fmt: skip
@options.grouped(
    "--image-name", group="Boards", default="image", show_default=True, metavar="NAME",
    help="Several networks: name of the shared code and memory.",
)  # fmt: skip
@options.grouped(
    "--format", "kind", group="Boards", type=options.Formats(),
    help="Write the folder OUT as a package for this build system. Needs --interface-api c.",
)  # fmt: skip
@options.grouped(
    "--explain", group="Inspection", common=True, is_flag=True,
    help="Show each generated function with its cost and its nodes. With --device, show the "
        "device of each node, or why no device takes it.",
)  # fmt: skip
@console.json_option
def command(
    models: tuple,
    output: Path,
    module_name: str | None,
    concurrent: tuple,
    image_name: str,
    calibration: tuple,
    kind: str | None,
    explain: bool,
    as_json: bool,
    **requested: Any,
) -> None:
    """Compile the ONNX or .tflite network MODEL; several networks become one image for a board."""
    for model in models:
        if not conversion.is_foreign(model):  # a SavedModel is a folder
            files.check_file(model)
    _check_output(output, len(models))
    if kind and (len(models) > 1 or _is_file(output)):
        raise ValueError(
            f"format {kind} is a folder with one network; write each to its own folder"
        )
    start = time.perf_counter()
    default_name = _set_defaults(output, kind, requested)
    module_name = module_name or (default_name if len(models) == 1 else None)
    groups = [parse_names([text]) for text in concurrent]
    together = {"concurrent": groups == [["all"]] or groups, "image_name": image_name}
    with console.progress(not as_json) as report:
        compiled = _compile(
            network_names(models, module_name),
            together,
            calibration=[files.load_inputs(path) for path in calibration],
            progress=report,
            **requested,
        )
        if report is not None:  # building a library takes longest
            from tvmrt.compiler.pipeline import C_COMPILER, STAGES

            report(C_COMPILER, STAGES - 1, STAGES)
        with files.writing(output):
            compiled.export_package(output, kind) if kind else compiled.export(str(output))
    seconds = time.perf_counter() - start
    libraries = list(compiled.libraries.values()) if is_image(compiled) else [compiled]
    costs = measure_code(compiled, requested["cc"]) if libraries[0].options.firmware else None
    if as_json:
        console.print_json("compile", _as_json(compiled, output, seconds, costs))
        return
    if explain:
        _explain(compiled, libraries, bool(requested["devices"]), costs)
    _print_result(output, seconds, compiled, costs)
    given = click.get_current_context().get_parameter_source("target")
    chosen = requested["board"] or os.environ.get(DEFAULT_VARIABLE)
    if suffix_of(output) == ".c" and given == ParameterSource.DEFAULT and not chosen:
        console.note(
            f"{output} is C for any processor; for a Cortex-M with DSP or vector instructions, "
            "--target NAME or --board NAME makes faster code"
        )


def _explain(compiled: Any, libraries: Sequence[Any], with_devices: bool, costs: Any) -> None:
    """Print each network's functions, the devices of its nodes, and the cost of its code."""
    for library in libraries:
        _print_operators(library.summary)
        if with_devices:
            partition_tables.print_partition(library.summary)
    if costs is not None:
        _print_costs(compiled, costs)


def _is_file(output: Path) -> bool:
    """Return whether this output name is a file, in a plug-in's format or a built-in one."""
    suffix = suffix_of(output)
    return suffix in formats.FILE_SUFFIXES or bool(suffix and formats.exporter(suffix))


def _set_defaults(output: Path, kind: str | None, requested: dict[str, Any]) -> str | None:
    """Set the options of the output's format, a suffix or the ``kind`` of a folder, where none are
    given; return its network name."""
    suffix = suffix_of(output)
    exporter = formats.exporter(kind or suffix) if kind or suffix else None
    defaults = {} if exporter is None else dict(exporter.defaults(output.name))
    if requested["board"] or is_unhosted(os.environ.get(DEFAULT_VARIABLE)):
        defaults.pop("target", None)
    given = click.get_current_context().get_parameter_source
    for name in defaults.keys() & requested.keys():
        if given(name) == ParameterSource.DEFAULT:
            requested[name] = defaults[name]
    is_default = requested["target"] is None and requested["board"] is None
    if is_default and suffix not in LIBRARIES:
        requested["target"] = default_target(as_sources=True, levels=requested["levels"])
    return defaults.get("module_name")


def _check_output(output: Path, networks: int) -> None:
    """Raise an error, before any work is done, if the output cannot be written."""
    if networks > 1:
        from tvmrt.compiler.export.image import check_format

        check_format(output)
    if _is_file(output):
        files.check_target(output)
        return
    formats.check_folder_name(output)
    files.check_target_folder(output)


def network_names(models: Sequence[Path], names: str | None) -> dict[str, Path]:
    """Return the names of networks: given, or from file names; a single one is ``default``."""
    if names is None and len(models) == 1:
        return {"default": models[0]}
    if names is None:
        found = [module_name_of(model.stem) for model in models]
    else:
        found = names.split(",")
    if len(found) != len(models):
        raise click.UsageError(
            f"there are {len(models)} networks and {len(found)} names ({', '.join(found)}); "
            "give --module-name one name for each, with commas between them"
        )
    if len(set(found)) < len(found):
        raise click.UsageError(
            f"networks need different names ({', '.join(found)}); give them by --module-name"
        )
    return dict(zip(found, models))


def is_image(compiled: Any) -> bool:
    """Return whether several networks were compiled together."""
    return hasattr(compiled, "libraries")


def _compile(networks: dict[str, Path], together: dict[str, Any], **requested: Any) -> Any:
    """Compile one network to a library, or several networks to an image."""
    from tvmrt.compiler.pipeline import compile, compile_together

    if len(networks) == 1:
        if together["concurrent"]:
            raise click.UsageError("--concurrent needs several networks; one is given")
        ((name, model),) = networks.items()
        return compile(str(model), module_name=name, **requested)
    keys = {"shapes": "INPUT", "dims": "DIMENSION", "sequences": "INPUT", "values": "INPUT"}
    own = {
        name: options.by_network(requested.pop(name), list(networks), key)
        for name, key in keys.items()
    }
    paths = {name: str(model) for name, model in networks.items()}
    return compile_together(paths, **own, **together, **requested)


def measure_code(compiled: Any, cc: str | None) -> Any:
    """Measure the C files with the target's compiler."""
    from tvmrt.cli import memory_report
    from tvmrt.compiler.export.vendors import vendor_includes
    from tvmrt.libinfo import find_include_path

    libraries = list(compiled.libraries.values()) if is_image(compiled) else [compiled]
    with tempfile.TemporaryDirectory(prefix="tvmrt-") as folder:
        compiled.export_sources(folder)
        vendors = [v for library in libraries for v in library.sources.vendors.values()]
        includes = [Path(folder), *map(Path, find_include_path()), *vendor_includes(vendors)]
        sources = sorted(Path(folder).glob("*.c"))
        return memory_report.measure_footprint(sources, includes, libraries[0].target, cc)


def _metadata(compiled: Any) -> dict[str, Any]:
    from tvmrt.compiler.export.model_library_format import metadata

    if is_image(compiled):
        return metadata(list(compiled.libraries.values()), compiled)
    return metadata([compiled])


def _as_json(compiled: Any, output: Path, seconds: float, costs: Any) -> dict[str, Any]:
    from tvmrt.cli import memory_report

    result: dict[str, Any] = {"output": str(output), "seconds": seconds}
    if is_image(compiled):
        rows = compiled.libraries.items()
        result["networks"] = {name: asdict(library.summary) for name, library in rows}
        result["image"] = _metadata(compiled)["image"]
    else:
        result.update(asdict(compiled.summary))
    if costs is not None:
        result["footprint"] = memory_report.as_dict(_metadata(compiled)["modules"], costs)
    return result


def _print_costs(compiled: Any, costs: Any) -> None:
    from tvmrt.cli import memory_report

    for title, table in memory_report.tables(_metadata(compiled)["modules"], costs).items():
        console.print_table(title, table.columns, table.rows, table.left)
        click.echo()


def _print_operators(summary: Any) -> None:
    from tvmrt.compiler.ir.sizes import EXPECTED_SIZE

    rows = [
        (
            operator.name,
            operator.op,
            console.format_shape(operator.out_shape),
            f"{operator.macs:,}",
            console.shorten_all(operator.onnx_nodes),
        )
        for operator in summary.operators
    ]
    work = "multiply-adds"
    if summary.planned_in_runs:
        work = f"multiply-adds if open sizes are {EXPECTED_SIZE}"
    columns = ("function", "operator", "result", work, "nodes")
    left = ("function", "operator", "result", "nodes")
    console.print_table("operators", columns, rows, left)


def _print_result(output: Path, seconds: float, compiled: Any, costs: Any) -> None:
    from tvmrt.cli import memory_report

    pairs: dict[str, Any] = {"wrote": f"{output} in {console.format_seconds(seconds)}"}
    if is_image(compiled):
        for name, library in compiled.libraries.items():
            rows = _operator_pairs(library.summary).items()
            pairs.update({f"{what} of {name}": value for what, value in rows})
    else:
        pairs.update(_operator_pairs(compiled.summary))
    if costs is None:
        pairs.update(_memory_pairs(compiled.summary))
    else:
        pairs.update(memory_report.summary_pairs(_metadata(compiled), costs))
    console.print_pairs(pairs)


def _operator_pairs(summary: Any) -> dict[str, Any]:
    regions = {"regions": partition_tables.boundary_text(summary)} if summary.regions else {}
    for number, row in enumerate(summary.regions):
        if row.note:
            regions[f"on {row.device}, {number}"] = row.note
    return {"operators": len(summary.operators), **regions}


def _layer_pairs(
    rows: Sequence[Any], is_done: Callable, done: str, text: Callable, kept: str
) -> dict[str, str]:
    """Return a line on layers computed another way, and one on layers whose error is too high."""
    changed = [row for row in rows if is_done(row)]
    stay = ", ".join(f"{row.name} ({row.error:.2g})" for row in rows if not is_done(row))
    pairs = {done: text(changed)} if changed else {}
    return {**pairs, kept: f"{stay}: error above max-error"} if stay else pairs


def _worst(rows: Sequence[Any], error: str = "relative RMS error") -> str:
    worst = max(rows, key=lambda row: row.error)
    return f"{error} at most {worst.error:.2g} ({worst.name})"


def _quantized_text(rows: Sequence[Any]) -> str:
    """Describe the size and the error of quantised weights."""
    before = console.format_bytes(sum(row.before_bytes for row in rows))
    after = console.format_bytes(sum(row.after_bytes for row in rows))
    return f"{after} of {before} in {len(rows)} layers; {_worst(rows)}"


def _winograd_text(rows: Sequence[Any]) -> str:
    """Describe the number of Winograd convolutions and their error."""
    return f"{len(rows)} convolutions; {_worst(rows)}"


def _reduced_text(rows: Sequence[Any]) -> str:
    """Describe the number of layers computed in reduced precision and their error."""
    measured = [row for row in rows if row.error is not None]
    return f"{len(rows)} layers" + (f"; {_worst(measured, 'relative error')}" if measured else "")


def _memory_pairs(summary: Any) -> dict[str, str]:
    size = console.format_bytes
    devices = {
        pool.name.replace("_", " "): f"{size(pool.used_bytes)} for tensors between regions"
        for pool in summary.pools
        if pool.device
    }
    reduced = next((row.precision for row in summary.reduced if row.precision != "float32"), "")
    return {
        "weights": size(summary.weights_bytes),
        **_layer_pairs(
            summary.narrowed, lambda row: row.bits < 32,
            "quantised", _quantized_text, "weights kept in float32",
        ),
        **_layer_pairs(
            summary.winograd, lambda row: row.size > 1, "Winograd", _winograd_text,
            "direct convolution"
        ),
        **_layer_pairs(
            summary.reduced, lambda row: row.precision != "float32",
            f"in {reduced}", _reduced_text, "kept in float32",
        ),
        **_arena_pairs(summary),
        **devices,
    }  # fmt: skip


def _arena_pairs(summary: Any) -> dict[str, str]:
    if summary.planned_in_runs:
        return {"memory": "planned in each run, for its sizes"}
    size = console.format_bytes
    return {
        "memory": f"{size(summary.arena_bytes)} for tensors; lower bound of any placement "
        f"{size(summary.lower_bound_bytes)}",
        "scratch": f"{size(summary.scratch_bytes)} more for each thread",
    }
