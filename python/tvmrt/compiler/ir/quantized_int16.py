"""Integer products of int16 activations."""

from .contract import holds
from .op import register
from .quantized import BOUNDS, QConv, QMatMul, conv_contract, matmul_contract

_ATTRIBUTES = f"to: dtype int16|int32|int64, {BOUNDS}, rounding?: even|twice|once"
_BOUNDED = holds(
    "y_zero, low, high, rounding and a scale in float64 are given if to is int16 and only then",
    lambda to, y_zero, low, high, rounding, scale: (
        (None not in (y_zero, low, high))
        == (rounding == "once")
        == (scale.dtype.name == "float64")
        == (to == "int16")
    ),
)
_SYMMETRIC = holds(
    "x_zero is 0, and sums of int64 have no bias",
    lambda to, x_zero, bias: x_zero == 0 and not (to == "int64" and bias is not None),
)


@register("qconv_int16")
class QConvInt16(QConv):
    """``qconv`` of int16; hosts compute it as products of bytes."""

    contract = conv_contract("int16", _ATTRIBUTES, _BOUNDED, _SYMMETRIC)


@register("qmatmul_int16")
class QMatMulInt16(QMatMul):
    """``qmatmul`` of int16; hosts compute it as products of bytes."""

    contract = matmul_contract("int16", _ATTRIBUTES, _BOUNDED, _SYMMETRIC)
