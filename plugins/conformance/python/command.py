"""``tvmrt device test``: test a device."""

from __future__ import annotations

import click

from tvmrt.cli import console, options
from tvmrt.units import COUNT, FRACTION, SECONDS

CHOICES = "operators sizes tensors asynchronous faults libraries leaks threads"


@click.command("test")
@click.argument("target", metavar="NAME|PLUGIN.so|FILE.py")
@click.option(
    "--check", "checks", multiple=True,
    type=click.Choice(CHOICES.split()),
    help="Run this check only; may be repeated. Default: all checks.",
)  # fmt: skip
@click.option(
    "--only",
    multiple=True,
    metavar="TEXT",
    help="Run only networks whose names start with this, such as MatMul; may be repeated.",
)
@click.option(
    "--seconds", type=options.Quantity(SECONDS, above=True), default="10min", show_default=True,
    metavar="TIME", help="Time limit of a check; a device that hangs fails the check.",
)  # fmt: skip
@click.option(
    "--tolerance", type=options.Quantity(FRACTION), default=1e-3, show_default=True,
    metavar="FRACTION",
    help="Maximum error of a result, relative to its largest value.",
)  # fmt: skip
@click.option(
    "--seed", type=options.Quantity(COUNT, 0), default=1, show_default=True, metavar="NUMBER",
    help="Random numbers of the networks; other seeds draw other networks.",
)  # fmt: skip
@console.json_option
def command(
    target: str, checks: tuple, only: tuple, seconds: float, tolerance: float, seed: int,
    as_json: bool,
) -> int:  # fmt: skip
    """Test a device: operators, tensor addresses, other sizes, wrong calls and damaged libraries,
    libraries with other weights, memory, threads.

    Networks are drawn by a seed. Every operator that the device claims is compared with
    onnxruntime or, if it is missing, with ONNX's reference evaluator; operators that no network
    reaches are listed. Each check runs in its own process. For a device that supports only
    firmware, only the operators are tested. The exit code is 1 if a check fails.
    """
    from tvmrt.conformance import CHECKS, run_checks

    found = run_checks(target, checks or CHECKS, tolerance, only=only, seconds=seconds, seed=seed)
    failed = [finding for finding in found if not finding.passed]
    if as_json:
        console.print_json(
            "device-test", {"device": target, "passed": not failed, "findings": found}
        )
    else:
        rows = [(f.check, f.subject, "pass" if f.passed else "FAIL", f.detail) for f in found]
        columns = ("check", "of", "result", "detail")
        console.print_table(f"device {target}", columns, rows, columns)
        click.echo(f"{len(found) - len(failed)} of {len(found)} passed")
    return 1 if failed else 0
