"""The CPU: the compiler's own kernels. It takes every node and needs no region."""

from __future__ import annotations

from tvmrt.compiler.ir import Node

from .base import Device
from .registry import register


@register
class Cpu(Device):
    """The compiler's own kernels; in a list of devices, those behind it get nothing."""

    name = "cpu"

    def absent(self) -> str | None:
        return None

    def supports(self, node: Node) -> str | None:
        return None
