"""Compilation from a plug-in: options, passes, regions. It imports the whole compiler."""

from tvmrt.compiler.custom import gather
from tvmrt.compiler.option_values import parse_dims, parse_names
from tvmrt.compiler.partition.precision import optimize_region
from tvmrt.compiler.pipeline import compile
from tvmrt.compiler.request import Request, all_options, make
from tvmrt.compiler.transform.optimize import GraphPass

__all__ = [
    "GraphPass", "Request", "all_options", "compile", "gather", "make", "optimize_region",
    "parse_dims", "parse_names",
]  # fmt: skip
