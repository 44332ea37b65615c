"""Table of the registered operators."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .op import Op

OPS: dict[str, Op] = {}
INTEGER_FORMS: dict[str, list[Op]] = {}  # operators by the name in their ``integer_of``
