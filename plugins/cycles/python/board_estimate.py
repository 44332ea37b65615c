"""``tvmrt inspect FILE --board NAME``: estimate cycles, energy, RAM and flash without a board."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tvmrt import plugin
from tvmrt.cli import console, files
from tvmrt.file_suffix import suffix_of
from tvmrt.plugins.cycles.board_options import OPTIONS  # noqa: F401  (of the hook)

if TYPE_CHECKING:
    from tvmrt.cli.archive import ArchiveNetwork
    from tvmrt.compiler.sdk.codegen import Target
    from tvmrt.plugins.cycles.estimate import LayerCycles
    from tvmrt.plugins.cycles.mcu_parts import Mcu
    from tvmrt.plugins.cycles.qemu_run import CountedRun, Input

MAX_FUNCTIONS = 12  # C functions listed in one table
MAX_NAMES = 2  # C functions listed for each layer that has branches on inputs


@dataclass(frozen=True)
class BoardOptions:
    """Board options of the command line; None: use the value of the board's row."""

    board: str
    wait_states: float | None
    clock: float | None
    picojoules: float | None
    scale: float
    inputs_file: Path | None
    kernels_in_ram: bool = False
    timing: bool = False
    port: str | None = None


def report(path: Path, as_json: bool, **options: Any) -> None:
    """Print the estimate as text or JSON. ``options``: see BoardOptions.

    Raises
    ------
    ValueError, CompileError
        As ``estimate``.
    click.UsageError
        If there are other options, but no board.
    """
    if options["board"] is None:
        raise click.UsageError(
            "--wait-states, --clock, --picojoules, --scale, --kernels-in-ram, --port, --timing, "
            "and --inputs are for --board: name one"
        )
    found = {"file": str(path), **estimate(path, BoardOptions(**options))}
    if as_json:
        console.print_json("inspect-board", found)
    else:
        show(path, found)


def estimate(path: Path, board_options: BoardOptions) -> dict[str, Any]:
    """Return the estimates of an archive's networks, or of a network compiled for the board.

    Raises
    ------
    ValueError
        If the file is neither, the board is unknown, or the archive is for another processor.
    CompileError
        If a tool is missing or fails.
    """
    from tvmrt.plugins.cycles.core_timing import CORES, core_of

    machine, part = _board(board_options)
    core = CORES[part.core] if part.core else core_of(machine.name)
    with tempfile.TemporaryDirectory(prefix="tvmrt-") as folder:
        archive = (
            path
            if suffix_of(path) == ".tar"
            else _compile_network(path, board_options, Path(folder))
        )
        found = {}
        for i, network in enumerate(
            _networks(archive, machine, board_options, Path(folder, "net"))
        ):
            run_folder = Path(folder, f"run{i}")
            run_folder.mkdir()
            found[network.name] = _estimate_network(
                network, machine, part, core, board_options, run_folder
            )
    return {
        "board": board_options.board,
        "target": machine.name,
        "core": core.name,
        "source": core.source,
        "published": core.published,
        "manual": part.manual or None,
        "wait_states": part.wait_states,
        "scale": board_options.scale,
        "clock_hz": part.clock or None,
        "picojoules": part.picojoules or None,
        **_memory_sizes(board_options.board),
        "networks": found,
    }


def _board(board_options: BoardOptions) -> tuple[Target, Mcu]:
    """Return the processor of a family or target, and its row with the command line's values."""
    from tvmrt.compiler.sdk.codegen import board_names, find_mcu_family, get_target, is_unhosted
    from tvmrt.plugins.cycles.mcu_parts import part_of

    known = is_unhosted(board_options.board) and board_options.board not in board_names()
    machine = (
        get_target(board_options.board) if known else find_mcu_family(board_options.board).machine()
    )
    changes = {"wait_states": board_options.wait_states, "picojoules": board_options.picojoules}
    if board_options.clock is not None:
        changes["clock"] = board_options.clock * 1e6
    overrides = {name: value for name, value in changes.items() if value is not None}
    return machine, replace(part_of(board_options.board), **overrides)


def _memory_sizes(board: str) -> dict[str, int | None]:
    """Return a family's bytes of RAM (all regions) and flash; None for a processor name."""
    from tvmrt.compiler.sdk.codegen import board_names, find_mcu_family

    family = find_mcu_family(board) if board in board_names() else None
    return {
        "ram_bytes": None if family is None else sum(family.ram.values()),
        "flash_bytes": None if family is None else family.flash,
    }


def _compile_network(path: Path, board_options: BoardOptions, folder: Path) -> Path:
    """Compile a network for the board and return the archive's path."""
    if not plugin.is_network(path):
        suffixes = ", ".join(plugin.network_suffixes())
        raise ValueError(
            f"{path}: --board takes an archive for a board (.tar) or a network ({suffixes})"
        )
    from tvmrt.compiler.sdk.codegen import board_names
    from tvmrt.compiler.sdk.pipeline import compile as compile_network
    from tvmrt.error import UnboundedDimensionsError

    where = "board" if board_options.board in board_names() else "target"
    choices: dict[str, Any] = {
        where: board_options.board,
        "interface_api": "c",
        "unpacked_api": True,
    }
    archive = folder / "net.tar"
    try:
        compile_network(str(path), **choices).export(str(archive))
    except UnboundedDimensionsError as error:
        bounds = " ".join(f"--dim {name}=1..N" for name in error.names or ("NAME",))
        raise ValueError(
            f"{path} has dynamic sizes; compile it with 'tvmrt compile {path} -o NET.tar --board "
            f"{board_options.board} --interface-api c {bounds}', then inspect the archive"
        ) from None
    return archive


def _networks(
    path: Path, machine: Target, board_options: BoardOptions, folder: Path
) -> list[ArchiveNetwork]:
    from tvmrt.cli.archive import unpack_networks
    from tvmrt.plugins.cycles.core_timing import core_of

    networks = unpack_networks(path, folder)
    for network in networks:
        if network.module["executors"] != ["aot"]:
            raise ValueError(f"{path} is for the graph executor; compile it with --executor aot")
        target = str(network.module["target"][0]).rpartition("-device=")[2]
        if core_of(target).name != core_of(machine.name).name:
            raise ValueError(
                f"{path} is for {target}, and {board_options.board} has a {machine.name}; compile "
                f"the network with --board {board_options.board}"
            )
    return networks


def _inputs(network: ArchiveNetwork, board_options: BoardOptions) -> list[Input]:
    import numpy as np

    from tvmrt.network.inputs import TensorInfo, random_inputs
    from tvmrt.plugins.cycles.qemu_run import checked_inputs

    given = (
        {} if board_options.inputs_file is None else files.load_inputs(board_options.inputs_file)
    )
    infos = []
    for name, row in network.main["inputs"].items():
        if not isinstance(row["size"], int):
            raise ValueError(
                f"input {name} of {network.name} has a dynamic size; compile it with "
                "--shape or --dim"
            )
        width = np.dtype("uint8" if row["dtype"] == "bool" else row["dtype"]).itemsize
        infos.append(TensorInfo(name, row["dtype"], (row["size"] // width,)))
    return checked_inputs(network, given, random_inputs(i for i in infos if i.name not in given))


def _estimate_network(
    network: ArchiveNetwork,
    machine: Target,
    part: Mcu,
    core: Any,
    board_options: BoardOptions,
    folder: Path,
) -> dict[str, Any]:
    from tvmrt.cli import memory_report
    from tvmrt.plugins.cycles.estimate import estimate_layers
    from tvmrt.plugins.cycles.qemu_run import run

    inputs = _inputs(network, board_options)
    counted = run(network, machine, part, inputs, folder, board_options.kernels_in_ram)
    rows = estimate_layers(network, counted, core, part, board_options.scale)
    measured = memory_report.measure_footprint(network.sources, network.includes, machine)
    stack = measured.stack(network.module)
    found = [_row(layer, part) for layer in rows]
    total = {
        name: sum(row[name] for row in found)
        for name in ("instructions", "cycles", "wait_cycles")
    }  # fmt: skip
    timing = measured = None
    if board_options.port is not None:
        from tvmrt.plugins.cycles.measured import measure as measure_board

        measured = measure_board(board_options.port, network)
        measured["ratio"] = measured["median"] / max(total["cycles"], 1)
    if board_options.timing:
        from tvmrt.plugins.cycles.timing import measure

        timing = measure(network, machine, part, core, inputs, folder, board_options.kernels_in_ram)
    return {
        **total,
        "measured": measured,
        "timing": None if timing is None else timing.as_dict(),
        **_time_and_energy(total["cycles"], part),
        "ram": _ram(network, counted, None if stack is None else stack.nbytes),
        "flash_bytes": counted.image.flash_bytes,
        "weights_bytes": network.main["constants_size_bytes"],
        "layers": found,
        "functions": _functions(rows),
    }


def _row(layer: LayerCycles, part: Mcu) -> dict[str, Any]:
    cycles = round(layer.cycles)
    return {
        "name": layer.name,
        "nodes": layer.nodes,
        "instructions": layer.instructions,
        "cycles": cycles,
        "wait_cycles": round(layer.wait_cycles),
        **_time_and_energy(cycles, part),
    }


def _time_and_energy(cycles: int, part: Mcu) -> dict[str, float | None]:
    """Return time and energy of a number of cycles; None if the part's row lacks the data."""
    return {
        "seconds": cycles / part.clock if part.clock else None,
        "joules": cycles * part.picojoules * 1e-12 if part.picojoules else None,
    }


def _ram(network: ArchiveNetwork, counted: CountedRun, stack: int | None) -> dict[str, Any]:
    """Return the bytes of RAM by purpose. Weights, inputs and outputs in a pool count as part of
    the arena."""
    inside = network.interface["workspace_io"]
    parts = {
        "arena_bytes": sum(pool["used_bytes"] for pool in network.memory["pools"]),
        "input_bytes": 0 if inside else sum(row["size"] for row in network.main["inputs"].values()),
        "output_bytes": 0 if inside else sum(r["size"] for r in network.main["outputs"].values()),
        "static_bytes": counted.image.static_bytes,
        "stack_bytes": stack,
    }
    return {**parts, "total_bytes": sum(parts.values()) if stack is not None else None}


def _functions(rows: list[LayerCycles]) -> list[dict[str, Any]]:
    """Return C functions by descending cycles, excluding wait states."""
    from collections import Counter

    total: Counter[str] = Counter()
    for layer in rows:
        total.update(layer.functions)
    return [{"name": name, "cycles": cycles} for name, cycles in total.most_common(MAX_FUNCTIONS)]


def show(path: Path, found: Mapping[str, Any]) -> None:
    """Print an estimate as text."""
    by_table, derived = "published table, from memory", "derived, not published"
    origin = by_table if found["published"] else derived
    pairs = {"file": path, "board": found["board"], "core": f"{found['core']}, {origin}"}
    pairs["model"] = found["source"]
    if found["manual"]:
        pairs["clock, flash"] = f"{found['manual']}, from memory"
    if found["clock_hz"]:
        pairs["clock"] = f"{found['clock_hz'] / 1e6:g} MHz, {found['wait_states']:g} wait states"
    if found["scale"] != 1:
        pairs["scale"] = f"{found['scale']:g}"
    console.print_pairs(pairs)
    for name, network in found["networks"].items():
        click.echo(f"\nnetwork {name}")
        console.print_pairs(_pairs(network))
        click.echo()
        console.print_table(
            "operators", ("operator", "instructions", "cycles", "of them waiting", "share", "ms"),
            [_cells(row, network["cycles"]) for row in network["layers"]], ("operator",),
        )  # fmt: skip
        click.echo()
        console.print_table(
            "functions of C", ("function", "cycles"),
            [(row["name"], f"{row['cycles']:,}") for row in network["functions"]], ("function",),
        )  # fmt: skip


def _cells(row: Mapping[str, Any], total: int) -> tuple:
    milliseconds = "-" if row["seconds"] is None else f"{row['seconds'] * 1e3:.3f}"
    share = f"{100 * row['cycles'] / max(total, 1):.1f} %"
    counts = (f"{row[name]:,}" for name in ("instructions", "cycles", "wait_cycles"))
    return (row["name"], *counts, share, milliseconds)


def _pairs(network: Mapping[str, Any]) -> dict[str, str]:
    size = console.format_bytes
    ram = network["ram"]
    pairs = {
        "instructions": f"{network['instructions']:,}",
        "cycles": f"{network['cycles']:,}, {network['wait_cycles']:,} of them wait for flash",
    }
    if (seen := network["measured"]) is not None:
        pairs["cycles measured"] = (
            f"{seen['median']:,.0f}, the median of {seen['runs']} runs; {seen['least']:,} to "
            f"{seen['most']:,}"
        )
        pairs["measured / model"] = f"{seen['ratio']:.3f}; estimate other networks with --scale"
    timing = network["timing"]
    if timing is not None:
        pairs["same for all inputs"] = _same(timing)
        pairs.update(_checked(timing))
        pairs["cycles at most"] = _bound(timing)
    if network["seconds"] is not None:
        pairs["time"] = f"{network['seconds'] * 1e3:.3f} ms"
    pairs["energy"] = _energy(network["joules"])
    names = {"arena_bytes": "arena", "input_bytes": "inputs", "output_bytes": "outputs",
             "static_bytes": "variables", "stack_bytes": "stack"}  # fmt: skip
    parts = ", ".join(
        f"{text} {'no bound' if ram[name] is None else size(ram[name])}"
        for name, text in names.items()
    )
    total = "no bound" if ram["total_bytes"] is None else size(ram["total_bytes"])
    pairs["RAM in all"] = f"{total}: {parts}"
    flash = f"{size(network['flash_bytes'])}: weights {size(network['weights_bytes'])}"
    other_bytes = network["flash_bytes"] - network["weights_bytes"]
    return {**pairs, "flash in all": f"{flash}, code and constants {size(other_bytes)}"}


def _same(timing: Mapping[str, Any]) -> str:
    if timing["same_instructions"]:
        return f"yes, the instructions of {timing['inputs']} different inputs"
    rows = (f"{r['name']} ({r['fewest']:,} to {r['most']:,})" for r in timing["layers"])
    return f"no, by {timing['inputs']} different inputs: {', '.join(rows)}"


def _checked(timing: Mapping[str, Any]) -> dict[str, str]:
    """Return the lines about branches that depend on inputs in code that memcheck has seen."""
    found = timing["memcheck"]
    if found is None:
        return {"branches on inputs": f"not checked: {timing['unchecked']}"}
    lines = {"branches on inputs": _by_layer(found["branches"]) or "none in the C code"}
    lines["branches on inputs"] += f"; memcheck, {found['build']}"
    if found["addresses"]:
        lines["addresses from inputs"] = _by_layer(found["addresses"])
    if timing["library"]:
        lines["library functions"] = f"{_by_layer(timing['library'])}; not seen by memcheck"
    return lines


def _bound(timing: Mapping[str, Any]) -> str:
    worst, functions = timing["worst_cycles"], len(timing["path_functions"])
    if worst is None:
        return f"no bound: {timing['reason']}"
    if not functions:
        return f"{worst:,}, if no flash line is cached"
    plural = "s" if functions > 1 else ""
    return (
        f"{worst:,}, by the longest path of {functions} function{plural} whose branches depend on "
        "the input"
    )


def _by_layer(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the layers of the rows, each with its first functions."""
    functions: dict[str, dict[str, None]] = {}
    for row in rows:
        functions.setdefault(row["layer"], {})[row["function"]] = None
    texts = []
    for layer, names in functions.items():
        others = ["others"] if len(names) > MAX_NAMES else []
        texts.append(f"{layer} ({', '.join([*[*names][:MAX_NAMES], *others])})")
    return ", ".join(texts)


def _energy(joules: float | None) -> str:
    if joules is None:
        return "unknown; set the energy per cycle with --picojoules"
    return f"{joules * 1e3:.4g} mJ" if joules >= 1e-3 else f"{joules * 1e6:.4g} uJ"
