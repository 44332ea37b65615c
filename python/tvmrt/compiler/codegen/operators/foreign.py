"""Nodes of ONNX that only a device can run, where none did."""

from __future__ import annotations

from tvmrt.error import UnsupportedError

from ..lowering import Lowering, lowers


@lowers("onnx_node")
class ForeignLowering(Lowering):
    """There is no C for it: it was imported for a device."""

    def operands(self):
        raise UnsupportedError(
            f"{', '.join(self.node.sources)}: only a device that runs ONNX can compute it, and "
            "none takes it here; boards, loop bodies and --device-fallback need an operator of "
            "tvmrt or a declaration with --operators"
        )
