"""The table of operators: a name to the function that imports it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple, Union

if TYPE_CHECKING:
    from tvmrt.ir import Value

    from .context import OpContext

Importer = Callable[["OpContext"], Union["Value", "list[Value]"]]


class Row(NamedTuple):
    """Who imports an operator, and its newest version that means what is known here."""

    importer: Importer
    newest: int


_TABLE: dict[str, Row] = {}

FAMILIES = (
    "activation",
    "arithmetic",
    "boxes",
    "control",
    "counts",
    "decode",
    "detection",
    "fourier",
    "layout",
    "matrix",
    "pooling",
    "products",
    "quantize",
    "recurrent",
    "recurrent_layers",
    "reduction",
    "segments",
    "shape",
    "signal.audio",
    "signal.buffers",
    "signal.features",
    "signal.spectra",
    "signal.streams",
    "softmax",
    "space",
    "svdf",
    "unary",
    "variables",
)
CUSTOM = (  # custom operators that are known without a declaration
    "AudioSpectrogram",
    "CIRCULAR_BUFFER",
    "Mfcc",
    "TFLM_DECODE",
    "TFLite_Detection_PostProcess",
    "SignalDelay",
    "SignalEnergy",
    "SignalFftAutoScale",
    "SignalFilterBank",
    "SignalFilterBankLog",
    "SignalFilterBankSpectralSubtraction",
    "SignalFilterBankSquareRoot",
    "SignalFramer",
    "SignalIrfft",
    "SignalOverlapAdd",
    "SignalPCAN",
    "SignalRfft",
    "SignalStacker",
    "SignalWindow",
)


def tflite_op(**newest: int) -> Callable[[Importer], Importer]:
    """Decorator: the function imports these operators, up to these versions."""

    def add(function: Importer) -> Importer:
        for name, version in newest.items():
            _TABLE[name] = Row(function, version)
        return function

    return add


@cache
def _load_families() -> None:
    for family in FAMILIES:
        import_module(f"{__package__}.{family}")


def find(name: str) -> Row | None:
    """The row of an operator, or None when it is not known."""
    _load_families()
    return _TABLE.get(name)
