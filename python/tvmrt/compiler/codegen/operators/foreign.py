"""Nodes of ONNX that only a device can run, where none did."""

from __future__ import annotations

from tvmrt.error import UnsupportedError

from ..lowering import Lowering, lowers


@lowers("onnx_node")
class ForeignLowering(Lowering):
    """There is no C for it: it was imported for a device."""

    def operands(self):
        raise UnsupportedError(
            f"{', '.join(self.node.sources)}: it was left to a device that runs ONNX, and no such "
            "device has it here; boards, bodies of loops and --device-fallback need an operator of "
            "tvmrt's own, or a declaration by --operators"
        )
