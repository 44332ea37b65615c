"""The option ``tuned`` of ``tvmrt.compile``; its implementation is imported on use."""

from __future__ import annotations

import os
from typing import Any

from tvmrt.error import UnsupportedError
from tvmrt.option_syntax import options
from tvmrt.plugin import Option


def _with_cost_model(target: Any, tuned: Any) -> Any:
    """Return the target with the guide of ``tuned``. Raises the errors of ``load_cost_model``."""
    if not isinstance(tuned, (str, os.PathLike)):
        return target.by(tuned)
    from tvmrt.plugins.tuning.cost_models import load_cost_model

    return target.by(load_cost_model(tuned, target.name == "native"))


def _file(tuned: Any) -> Any:
    if not isinstance(tuned, (str, os.PathLike)):
        return None
    from tvmrt.plugins.tuning.database import tuned_dependency

    return tuned_dependency(tuned)


def _check_runtime(request: Any) -> None:
    if request.tuned is not None and request.runtime == "crt":
        raise UnsupportedError(options("{tuned} applies to {runtime=host} only"))


TUNED = Option(
    "Use the fastest implementation of each layer: from a database of ``tvmrt tune``, from your "
    "``own`` database, or as predicted by a cost ``model``. The manifest of the library records "
    "the choice.",
    python="Or a ``tvmrt.compiler.ir.tuned.Guide``.",
    form="FILE|own|model",
    kind="path",
    type="str | os.PathLike[str] | Guide | None",
    commands=("verify", "bench"),
    refused=_check_runtime,
    target=_with_cost_model,
    file=_file,
    recorded=False,
)
