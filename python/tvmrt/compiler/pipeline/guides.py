"""Who the compiler asks for choices, by what the option ``tuned`` names."""

from __future__ import annotations

import os

from tvmrt import plugin
from tvmrt.compiler.codegen.target import Target
from tvmrt.compiler.ir.tuned import Guide


def guided(machine: Target, tuned: str | os.PathLike[str] | Guide | None) -> Target:
    """The target with what was measured of its layers, if anything.

    A user's own guide is taken as it is; for what has a name, a plug-in is asked. Raises OSError
    where there is no such database, ValueError where it is damaged, ImportError without a plug-in.
    """
    if tuned is None:
        return machine
    if not isinstance(tuned, (str, os.PathLike)):
        return machine.by(tuned)
    guide = plugin.hook("tuned guide", "the option tuned")
    return machine.by(guide(tuned, machine.name == "native"))
