"""``tvmrt compile-together``: compile several networks into one image for a board.

It is ``tvmrt compile`` for several networks under an explicit name.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tvmrt.cli import compile as one
from tvmrt.cli.option_groups import GroupedCommand

LEFT_OUT = ("kind", "output")  # a package for a build system contains one network
_OUTPUT = click.Option(
    ["-o", "--output"], required=True, type=one.options.PATH,
    help="OUT.tar (Model Library Format) or a folder (C sources).",
)  # fmt: skip


@click.pass_context
def _run(ctx: click.Context, models: tuple[Path, ...], **requested: Any) -> Any:
    """Compile the networks MODEL... into one image for a board, and show the kernel code, equal
    weights and memory that they share."""
    if len(models) < 2:
        raise click.UsageError(
            f"only one network is given, {models[0]}; give all networks of the image, or use "
            "'tvmrt compile'"
        )
    return ctx.invoke(one.command, models=models, kind=None, **requested)


command = GroupedCommand(
    "compile-together",
    callback=_run,
    help=_run.__doc__,
    takes_all=True,
    defaults={"module_name": None},
    params=[
        one.command.params[0],
        _OUTPUT,
        *(each for each in one.command.params[1:] if each.name not in LEFT_OUT),
    ],
)
