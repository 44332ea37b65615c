"""``tvmrt device``: list devices, begin a new one, test one."""

from __future__ import annotations

import re
from pathlib import Path

import click

from tvmrt.cli import console, options


@click.group("device")
def command() -> None:
    """List devices, write the skeleton of a new one, test one."""


@command.command("list")
@console.json_option
def list_devices(as_json: bool) -> None:
    """List the devices that the compiler finds, how each gets its regions, and why this machine
    cannot run some."""
    rows = described()
    if as_json:
        console.print_json("device-list", {"devices": rows})
        return
    columns = ("device", "layout", "precisions", "what it is")
    table = [
        (row["name"], row["layout"], ", ".join(row["precisions"]) or "-", _shown(row))
        for row in rows
    ]
    console.print_table("devices", columns, table, columns)


def described() -> list[dict]:
    """Every device that the compiler finds."""
    from tvmrt.compiler import devices

    return [_describe(name) for name in devices.names()]


def _describe(name: str) -> dict:
    """``absent`` is why this machine cannot run what the device computes; None if it can."""
    from tvmrt.compiler import devices

    row = {"name": name, "layout": "-", "precisions": [], "text": "", "absent": None}
    try:
        device = devices.get(name)
        absent = device.absent()
    except Exception as problem:  # a package's entry point may fail in any way
        return {**row, "text": f"cannot be used: {problem}", "absent": str(problem)}
    text = _first_sentence(type(device).__doc__ or "")
    said = {"layout": device.layout, "precisions": list(device.precisions), "text": text}
    return {**row, **said, "absent": absent}


def _first_sentence(text: str) -> str:
    words = " ".join(text.replace("``", "").split())
    return re.split(r"(?<=\.) (?=[A-Z])", words)[0]


def _shown(row: dict) -> str:
    return row["text"] if row["absent"] is None else f"absent: {row['absent']}"


@command.command("new")
@click.argument("name")
@click.option("--python", is_flag=True, help="Write a device in Python instead of C.")
@click.option(
    "-o", "--output", type=options.PATH, default=".", show_default=True, metavar="DIR",
    help="Where to make the folder of the device.",
)  # fmt: skip
@console.json_option
def new(name: str, python: bool, output: Path, as_json: bool) -> None:
    """Write the folder of a new device NAME: source, build file, README and a test that passes."""
    from tvmrt.compiler.devices.skeleton import write_skeleton

    _refuse_taken(name)
    written = write_skeleton(name, output, python)
    if as_json:
        console.print_json("device-new", {"files": [str(path) for path in written]})
        return
    for path in written:
        click.echo(f"wrote {path}")


def _refuse_taken(name: str) -> None:
    from tvmrt.compiler import devices

    for taken in devices.names():
        if taken.replace("_", "-") == name.replace("_", "-"):  # files of cmsis-nn are cmsis_nn
            raise ValueError(
                f"there is a device {taken} already, and no two may have one name; choose another: "
                "'tvmrt device list' shows those that are taken"
            )


@command.command("test")
@click.argument("target", metavar="NAME|PLUGIN.so|FILE.py")
@click.option(
    "--check", "checks", multiple=True,
    type=click.Choice(
        ["operators", "forms", "sizes", "tensors", "shapes", "asynchronous", "reduced", "faults",
         "leaks", "threads"]
    ),
    help="Only this check; may be given several times. Default: all.",
)  # fmt: skip
@click.option(
    "--only",
    multiple=True,
    metavar="TEXT",
    help="Only networks whose names begin so, as MatMul; may be given several times.",
)
@click.option(
    "--seconds", type=options.FiniteRange(min=0, min_open=True), default=600, show_default=True,
    help="How long a check may take; a device that hangs fails it.",
)  # fmt: skip
@click.option(
    "--tolerance", type=options.FiniteRange(min=0), default=1e-3, show_default=True,
    help="Largest error of a result, in parts of its largest value.",
)  # fmt: skip
@console.json_option
def test(
    target: str, checks: tuple, only: tuple, seconds: float, tolerance: float, as_json: bool
) -> int:
    """Test a device: its operators, tensors anywhere, other shapes, wrong calls and damaged
    libraries, memory, threads.

    Every operator that the device claims is compared with onnxruntime or, where that is missing,
    with ONNX's own evaluator. Each check runs in a process of its own. Of a device for firmware
    alone only the operators are tested. Exit code 1 if the device fails one.
    """
    from tvmrt.conformance import CHECKS, run_checks

    found = run_checks(target, checks or CHECKS, tolerance, only=only, seconds=seconds)
    failed = [finding for finding in found if not finding.passed]
    if as_json:
        rows = [vars(finding) for finding in found]
        console.print_json(
            "device-test", {"device": target, "passed": not failed, "findings": rows}
        )
    else:
        rows = [(f.check, f.subject, "pass" if f.passed else "FAIL", f.detail) for f in found]
        columns = ("check", "of", "result", "detail")
        console.print_table(f"device {target}", columns, rows, columns)
        click.echo(f"{len(found) - len(failed)} of {len(found)} passed")
    return 1 if failed else 0
