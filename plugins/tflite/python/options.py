"""Options of ``tvmrt.compile`` for ``.tflite`` files."""

from __future__ import annotations

from tvmrt.plugin import Option

ROUNDING = Option(
    "Integer rounding of fully connected layers, LOGISTIC and TANH in a .tflite file: as "
    "LiteRT's reference kernels or as those for microcontrollers. Default: reference; micro for "
    "a board without ``reproducible``.",
    values=("reference", "micro"),
    choose=lambda request, hosted: "reference" if hosted or request.reproducible else "micro",
)
SIGNATURE = Option(
    "Signature of a .tflite file to compile, which determines graph, inputs and outputs. "
    "Default: the signature of the first graph.",
    form="NAME",
    commands=("verify", "bench", "report"),
    other_networks="{signature} is for .tflite files, which alone have signatures; omit it",
)
