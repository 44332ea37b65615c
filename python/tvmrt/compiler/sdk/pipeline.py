"""Compilation from a plug-in, and the options of a request."""

from tvmrt.compiler.option_values import parse_dims, parse_names
from tvmrt.compiler.pipeline import compile
from tvmrt.compiler.request import Request, all_options, make

__all__ = [
    "Request", "all_options", "compile", "make", "parse_dims", "parse_names",
]  # fmt: skip
