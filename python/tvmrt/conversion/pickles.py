"""Pickles of models, as joblib and pickle write them; converted only if they are trusted."""

from __future__ import annotations

import os
import pickle
from typing import Any

from tvmrt.conversion import Converted, Settings, convert
from tvmrt.conversion.exporter import import_exporter, report_failure
from tvmrt.file_suffix import suffix_of


def convert_file(path: Any, settings: Settings) -> Converted:
    """Read a pickle, which runs its code, and convert the model that it contains."""
    name, instead = os.fspath(path), "read it yourself and give the model"
    if suffix_of(name) not in (".pkl", ".pickle"):
        joblib = import_exporter("joblib", f"{name} is a file of joblib", "joblib", instead)
        with report_failure("joblib", name, instead):
            model = joblib.load(name)
    else:
        with report_failure("pickle", name, instead), open(name, "rb") as file:
            model = pickle.load(file)
    if isinstance(model, (str, bytes, os.PathLike)):  # no further file, which may run code as well
        raise ValueError(f"{name} contains a {type(model).__name__}, not a model; give a model")
    return convert(model, settings)
