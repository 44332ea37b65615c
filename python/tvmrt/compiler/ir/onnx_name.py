"""Name of the ONNX operator that an operator of the IR computes."""

from __future__ import annotations

import re
from typing import NamedTuple

_TEXT = re.compile(r"(?:(?P<domain>[\w.]+)::)?(?P<name>\w+)(?:\((?P<key>\w+)=(?P<value>\w+)\))?")


class OnnxName(NamedTuple):
    """ONNX operator, with the attribute and its value that select one of several operators.

    As text: ``CumSum``, ``BitShift(direction=LEFT)``, ``example.vendor::Squareplus``.
    """

    domain: str
    name: str
    key: str = ""
    value: int | str = ""

    @classmethod
    def parse(cls, text: str) -> OnnxName:
        """Read the name from text. Raises ValueError if it has another form."""
        match = _TEXT.fullmatch(text)
        if match is None:
            raise ValueError(f"{text!r} is not an ONNX operator, such as BitShift(direction=LEFT)")
        value = match["value"] or ""
        return cls(
            match["domain"] or "",
            match["name"],
            match["key"] or "",
            int(value) if value.isdigit() else value,
        )
