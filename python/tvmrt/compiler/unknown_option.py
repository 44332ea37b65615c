"""The error text for an option that compile does not have."""

from __future__ import annotations

from collections.abc import Collection

from tvmrt import option_syntax, plugin
from tvmrt.error import suggestion

# Options of other libraries that compile lacks, with what to do instead.
_INSTEAD = {
    **dict.fromkeys(
        ("threads", "num_threads", "n_threads", "intra_op_num_threads"),
        "give threads= to tvmrt.load, or set TVM_NUM_THREADS before tvmrt is imported",
    ),
    **dict.fromkeys(
        ("opt_level", "optimization_level", "optimisation_level", "graph_optimization_level"),
        "networks are always optimised, and there is no level to choose; omit it",
    ),
}
# Names of other libraries, by the option that has this effect.
_SYNONYMS = {
    "device": "devices", "providers": "devices", "backend": "devices", "dtype": "precision",
    "quantize": "weights", "input_shapes": "shapes", "input_shape": "shapes",
    "shape_dict": "shapes", "batch_size": "dims", "batch": "dims", "dynamic_axes": "dims",
    "dynamic_shapes": "dims",
}  # fmt: skip


def unknown_option_text(name: str, known: Collection[str]) -> str:
    """Return the error text for an option that is not among the known ones."""
    hint = suggestion(_SYNONYMS.get(name, name), known)
    if not hint.startswith("did you mean"):  # a list of 50 names helps less
        hint = "help(tvmrt.load) shows the common ones, help(tvmrt.compile) all"
    hint = _INSTEAD.get(name) or plugin.why_missing("options", name) or hint
    return f"there is no option {option_syntax.option(name)} of compile; {hint}"
