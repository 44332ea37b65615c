"""ONNX nodes that need a device, for the case that no device takes them."""

from __future__ import annotations

from tvmrt.error import UnsupportedError

from ..lowering import Lowering, lowers


@lowers("onnx_node")
class ForeignLowering(Lowering):
    """Node without C code; it was imported for a device."""

    def operands(self):
        raise UnsupportedError(
            f"{', '.join(self.node.sources)}: only a device that runs ONNX can compute it, and "
            "none takes it here; boards, loop bodies and --device-fallback need an operator of "
            "tvmrt or a declaration with --operators"
        )
