"""``tvmrt doctor``: check this machine."""

from __future__ import annotations

import click

from tvmrt.cli import console


@click.command("doctor")
@console.json_option
def command(as_json: bool) -> int:
    """Look at this machine.

    Check versions, the C compiler, the processor, compilers and emulators for boards, packages and
    devices. Missing items are listed with the package to install. The exit code is 1 without a C
    compiler and a kernel pack, because no network can run then.
    """
    from tvmrt.cli import environment

    checks = environment.examine()
    if as_json:
        console.print_json("doctor", {"checks": checks})
    else:
        columns = ("item", "state", "found", "remedy")
        rows = [(c.what, c.state, c.found, c.remedy) for c in checks]
        console.print_table("this machine", columns, rows, left=columns)
    return 1 if any(check.state == "missing" for check in checks) else 0
