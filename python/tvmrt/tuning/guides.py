"""Who the compiler asks for choices, by what the option ``tuned`` names."""

from __future__ import annotations

import os
from typing import cast

from tvmrt.compiler import processor
from tvmrt.compiler.codegen.target import Target
from tvmrt.compiler.ir.tuned import Guide

from .database import MODEL, Measured, path_of, read
from .model import Model


def guided(machine: Target, tuned: str | os.PathLike[str] | Guide | None) -> Target:
    """The target with what was measured of its layers, if anything. Raises as :func:`guide_of`."""
    return machine if tuned is None else machine.by(guide_of(tuned, machine.name == "native"))


def guide_of(tuned: str | os.PathLike[str] | Guide, native: bool) -> Guide:
    """The guide that a user names: ``model``, a database, or one of his own.

    ``native``: for this very machine, whose kind of processor alone counts then. Raises OSError
    where there is no database, ValueError where it is damaged.
    """
    if not isinstance(tuned, (str, os.PathLike)):
        return cast(Guide, tuned)
    here = processor.name() if native else None
    if str(tuned) == MODEL:
        return Model(processor=here)
    path = path_of(tuned)
    if not path.exists():
        raise FileNotFoundError(
            f"there is no database of tuning at {path}; make one with 'tvmrt tune NETWORK', or "
            "leave tuned out"
        )
    return Measured(read(path), here)
