"""The CPU: the compiler's own kernels. It supports every node and needs no regions."""

from __future__ import annotations

from tvmrt.compiler.ir import Node

from .base import Device
from .registry import register


@register
class Cpu(Device):
    """Device for the compiler's own kernels; devices after it in a list get no nodes."""

    name = "cpu"

    def absent(self) -> str | None:
        return None

    def supports(self, node: Node) -> str | None:
        return None
