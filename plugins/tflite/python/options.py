"""Options of ``tvmrt.compile`` for ``.tflite`` files."""

from __future__ import annotations

from tvmrt.plugin import Option

ROUNDING = Option(
    "How a .tflite network rounds integers where LiteRT's reference kernels and those for "
    "microcontrollers differ: fully connected layers, LOGISTIC and TANH. Default: reference; micro "
    "for a board.",
    values=("reference", "micro"),
    choose=lambda _request, hosted: "reference" if hosted else "micro",
)
SIGNATURE = Option(
    "Which signature of a .tflite file is compiled: its graph, with its names of inputs and "
    "outputs. Default: that of the first graph.",
    form="NAME",
    commands=("verify", "bench", "report", "profile", "tune"),
    other_networks="a signature is chosen of .tflite files; other networks have none",
)
