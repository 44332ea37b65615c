"""ONNX nodes that need a device, for the case that no device takes them."""

from __future__ import annotations

from tvmrt.error import UnsupportedError

from ..lowering import Lowering, lowers


@lowers("onnx_node")
class ForeignLowering(Lowering):
    """Node without C code; it was imported for a device."""

    def operands(self):
        raise UnsupportedError(
            f"{', '.join(self.node.sources)}: tvmrt has no C code for this operator, and no "
            "device supports it here (boards, loop bodies and --device-fallback need C code); "
            "choose such a device with --device, or declare the operator with --operators"
        )
