"""Name of the ONNX operator that an operator of the IR computes."""

from __future__ import annotations

import re
from typing import NamedTuple

_TEXT = re.compile(r"(?:([\w.]+)::)?(\w+)(?:\((\w+)=(\w+)\))?")


class OnnxName(NamedTuple):
    """ONNX operator, with the attribute and its value that select one of several operators.

    As text: ``CumSum``, ``BitShift(direction=LEFT)``, ``example.vendor::Squareplus``.
    """

    domain: str
    name: str
    key: str
    value: int | str

    @classmethod
    def parse(cls, text: str) -> OnnxName | None:
        """Read the name from text; None for "". Raises ValueError if it has another form."""
        match = _TEXT.fullmatch(text)
        if match is None and text:
            raise ValueError(f"{text!r} is not an ONNX operator, such as BitShift(direction=LEFT)")
        domain, name, key, value = match.groups("") if match else ("",) * 4
        return cls(domain, name, key, int(value) if value.isdigit() else value) if name else None
