"""Guides of the compiler by the value of the option ``tuned``: a database or the cost model."""

from __future__ import annotations

import os

from tvmrt.compiler import processor
from tvmrt.compiler.ir.tuned import Guide
from tvmrt.option_syntax import option
from tvmrt.plugins.tuning.database import MODEL, DatabaseModel, database_path, read
from tvmrt.plugins.tuning.fitted_model import FittedModel


def load_cost_model(tuned: str | os.PathLike[str], native: bool) -> Guide:
    """Return the guide that a user names: ``model``, or a database.

    ``native`` limits results to this machine's kind of processor. Raises OSError if the database
    does not exist, and ValueError if it is damaged.
    """
    here = processor.name() if native else None
    if str(tuned) == MODEL:
        return FittedModel(processor=here)
    path = database_path(tuned)
    if not path.exists():
        raise FileNotFoundError(
            f"there is no tuning database at {path}; create one with 'tvmrt tune NETWORK', or "
            f"omit {option('tuned')}"
        )
    return DatabaseModel(read(path), here)
