"""Units of option values: sizes in bytes, times in seconds, fractions, plain numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

_VALUE = re.compile(r"(-?)(?=\.?\d)(\d*)\.?(\d*)(e[+-]?\d+)? ?([a-z%]*)", re.IGNORECASE)


@dataclass(frozen=True)
class Unit:
    """A unit of option values and its written forms.

    Attributes
    ----------
    name
        Name of the unit, in the ``unit`` of an option.
    kind
        Kind of the value, for errors.
    forms
        Examples of accepted texts, for errors and help.
    factors
        Maps the suffixes in lower case to their value in this unit; "" is a plain number.
    is_whole
        Whether a value is a whole number of units.
    is_signed
        Whether a value may be negative.
    """

    name: str
    kind: str
    forms: str
    factors: Mapping[str, float]
    is_whole: bool = False
    is_signed: bool = False

    def parse(self, text: str, default: str = "") -> int | float:
        """Return the value of a text; ``default`` is the suffix of a plain number.

        Raises
        ------
        ValueError
            For another text; the error names the accepted forms.
        """
        if found := _VALUE.fullmatch(text.strip()):
            sign, number, decimals, exponent, suffix = found.groups(default="")
            factor = self.factors.get(suffix.lower() or default)
            if sign and not self.is_signed:
                factor = None
            if factor is not None and not self.is_whole:
                value = float(f"{sign}{number}.{decimals}{exponent}") * factor
                if math.isfinite(value):
                    return value
            elif factor is not None and not exponent:
                count, scale = int(sign + number + decimals) * int(factor), int(10 ** len(decimals))
                if count % scale == 0:
                    return count // scale
        raise ValueError(f"{text!r} is not {self.kind}; write {self.forms}")


BYTES = Unit(
    "bytes",
    "a size in bytes",
    "65536, 64KiB or 64k (1024 bytes each), 64kB (1000 bytes each), 1.5MiB",
    {"": 1, "b": 1}
    | {f"{p}{s}": 1024**n for n, p in enumerate("kmg", 1) for s in ("", "ib")}
    | {f"{p}b": 1000**n for n, p in enumerate("kmg", 1)},
    is_whole=True,
)
SECONDS = Unit(
    "seconds",
    "a time",
    "10s, 500ms, 5min, 2h or 1d",
    {"": 1, "s": 1, "us": 1e-6, "ms": 1e-3, "min": 60, "h": 3600, "d": 86400},
)
FRACTION = Unit("fraction", "a fraction", "0.01, 1e-2 or 1%", {"": 1, "%": 0.01})
NUMBER = Unit("number", "a number", "2, 0.5 or 1e-2", {"": 1}, is_signed=True)
COUNT = Unit(
    "count", "a whole number", "digits, such as 12", {"": 1}, is_whole=True, is_signed=True
)
UNITS = {unit.name: unit for unit in (BYTES, SECONDS, FRACTION, NUMBER, COUNT)}
