"""``--reproducible``: one order of sums and one rounding of each operation on all processors.

``Target.fixed_order`` selects it. Kernels of such a target (``kernel_features.ANY_ORDER``): tiles
do not divide a sum, rows are summed in 16 lanes that are joined in a fixed tree, and a product is
fused with an addition only where a kernel says so, by an instruction or in the same arithmetic
(``scalar/compiler.h``).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from typing import Any

from tvmrt.error import UnsupportedError
from tvmrt.option_syntax import option

from .c.writer import Function
from .options import Provenance

# Version of the arithmetic; it changes with each change of bits, in major versions of tvmrt only.
ARITHMETIC = 1
# Options that change numbers; the others decide where and how they are computed.
_NUMERIC = (
    "shapes", "dims", "sequences", "values", "weights", "max_error", "requantize",
    "tflite_rounding",
)  # fmt: skip
# Functions of the C library whose results no standard defines to the bit.
_LIBRARY_CALL = re.compile(
    r"\b((?:exp|exp2|expm1|log|log2|log10|log1p|pow|a?sinh?|a?cosh?|a?tanh?|atan2|erfc?|cbrt|hypot"
    r"|[lt]gamma)f?|tvmrt_pow_integer_f64|tvmrt_normal_float64)\("
)


def check(functions: Iterable[Function]) -> None:
    """Raise UnsupportedError for an operator whose bits differ from one C library to another."""
    for function in functions:
        call = _LIBRARY_CALL.search(function.text)
        if call:
            raise UnsupportedError(
                f"operator {function.step.name} computes {call[1]}() with the C library, whose "
                f"bits differ; compute it in float32, or omit {option('reproducible')}"
            )


def digest(provenance: Provenance) -> dict[str, Any]:
    """Return members of the manifest: the version of the arithmetic and a digest of it, the network
    and the options that change numbers. Libraries with equal digests give equal bits."""
    numeric = {name: provenance.options.get(name) for name in _NUMERIC}
    text = json.dumps([ARITHMETIC, provenance.network_sha256, numeric], default=str)
    return {"arithmetic": ARITHMETIC, "digest": hashlib.sha256(text.encode()).hexdigest()}
