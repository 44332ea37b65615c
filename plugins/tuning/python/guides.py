"""Guides of the compiler by the value of the option ``tuned``: a database or the cost model."""

from __future__ import annotations

import os

from tvmrt.compiler import processor
from tvmrt.compiler.ir.tuned import Guide
from tvmrt.plugins.tuning.database import MODEL, Measured, path_of, read
from tvmrt.plugins.tuning.model import Model


def guide_of(tuned: str | os.PathLike[str], native: bool) -> Guide:
    """Return the guide that a user names: ``model``, or a database.

    ``native`` limits results to this machine's kind of processor. Raises OSError if the database
    does not exist, and ValueError if it is damaged.
    """
    here = processor.name() if native else None
    if str(tuned) == MODEL:
        return Model(processor=here)
    path = path_of(tuned)
    if not path.exists():
        raise FileNotFoundError(
            f"there is no tuning database at {path}; create one with 'tvmrt tune NETWORK', or "
            "omit tuned"
        )
    return Measured(read(path), here)
