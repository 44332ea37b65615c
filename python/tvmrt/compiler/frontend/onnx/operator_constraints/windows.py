"""Constraints of convolutions and pools."""

from __future__ import annotations

from tvmrt.compiler.ir.contract import Contract, holds

from .rules import scalar_rule

_STEPS = "strides?: ints[*S] 1.., dilations?: ints[*S] 1.., pads?: ints 0.."
_AUTO = "auto_pad: NOTSET|SAME_UPPER|SAME_LOWER|VALID"
_PADS = holds(
    "pads has two numbers for each axis of S",
    lambda pads, S: not pads or len(pads) == 2 * len(S),
)
_EXCLUSIVE_PADDING = holds(
    "pads are not given where auto_pad decides them",
    lambda auto_pad, pads: not pads or auto_pad in ("NOTSET", "VALID"),
)
_KERNEL = holds(
    "kernel_shape is that of w",
    lambda kernel_shape, K: not kernel_shape or list(kernel_shape) == list(K),
)
_GROUPS = holds("the groups divide the M channels of the result", lambda group, M: M % group == 0)
_CONV = f"kernel_shape?: ints[*S] 1.., {_STEPS}, {_AUTO}, group: int 1.."
_CONV_RULES = [_PADS, _EXCLUSIVE_PADDING, _KERNEL, _GROUPS]
_OUTPUT_PADDING = holds(
    "output_padding is below the stride or the dilation of its axis",
    lambda output_padding, strides, dilations, S: all(
        extra < max(stride, dilation)
        for extra, stride, dilation in zip(
            output_padding or [0] * len(S), strides or [1] * len(S), dilations or [1] * len(S)
        )
    ),
)
_POOL = f"kernel_shape: ints[*S] 1.., {_STEPS}, {_AUTO}"
_PADS_BELOW_KERNEL = holds(
    "pads are smaller than the window",
    lambda kernel_shape, pads: (
        not pads or all(p < k for p, k in zip(pads, [*kernel_shape, *kernel_shape]))
    ),
)

CONTRACTS = {
    "Conv": Contract(
        "x: any[N C *S{1..}], w: any[M C/group *K{S}], b?: any[M]", _CONV, rules=_CONV_RULES
    ),
    "ConvInteger": Contract(
        "x: any[N C *S{1..}], w: any[M C/group *K{S}], x_zero_point?: any[*], "
        "w_zero_point?: any[*]",
        _CONV,
        rules=[
            *_CONV_RULES,
            scalar_rule("x_zero_point"),
            holds(
                "w_zero_point has one element, or one for each of the M channels",
                lambda w_zero_point, M: w_zero_point is None or w_zero_point.size in (1, M),
            ),
        ],
    ),
    "QLinearConv": Contract(
        "x: any[N C *S{1..}], x_scale: any[*], x_zero_point: any[*], w: any[M C/group *K{S}], "
        "w_scale: any[*], w_zero_point: any[*], y_scale: any[*], y_zero_point: any[*], b?: any[M]",
        _CONV,
        rules=[
            *_CONV_RULES,
            *map(scalar_rule, ("x_scale", "x_zero_point", "y_scale", "y_zero_point")),
            holds(
                "w_scale and w_zero_point have one element, or one for each of the M channels",
                lambda w_scale, w_zero_point, M: {w_scale.size, w_zero_point.size} <= {1, M},
            ),
        ],
    ),
    "ConvTranspose": Contract(
        "x: any[N C *S{1..}], w: any[C M *K{S}], b?: any[group*M]",
        f"{_CONV}, output_padding?: ints[*S] 0..",
        rules=[
            _PADS,
            _EXCLUSIVE_PADDING,
            _KERNEL,
            holds("the groups divide the C channels of x", lambda group, C: C % group == 0),
            _OUTPUT_PADDING,
        ],
    ),
    "DeformConv": Contract(
        "x: any[N C *S{1..}], w: any[M C/group *K{S}], offset: any[N _ *O{S}], b?: any[M], "
        "mask?: any[N _ *O{S}]",
        f"kernel_shape?: ints[*S] 1.., {_STEPS}, group: int 1.., offset_group: int 1..",
        rules=[_PADS, _KERNEL, _GROUPS],
    ),
    "CausalConvWithState": Contract(
        "x: any[N C L], w: any[C 1 K], b?: any[C], past?: any[N C K-1]",
        "activation: none|silu|swish",
    ),
    "MaxPool": Contract("x: any[N C *S{1..}]", _POOL, rules=[_PADS, _PADS_BELOW_KERNEL]),
    "AveragePool": Contract("x: any[N C *S{1..}]", _POOL, rules=[_PADS, _PADS_BELOW_KERNEL]),
    "LpPool": Contract(
        "x: any[N C *S{1..}]", f"{_POOL}, p: int 1..", rules=[_PADS, _PADS_BELOW_KERNEL]
    ),
    "MaxUnpool": Contract(
        "x: any[N C *S{1..}], places: int64[N C *S], output_shape?: int64[_]",
        "kernel_shape: ints[*S] 1.., strides?: ints[*S] 1.., pads?: ints 0..",
        rules=[_PADS],
    ),
    "GlobalLpPool": Contract("x: any[N C *S]", "p: int 1.."),
    "GlobalAveragePool": Contract("x: any[N C *S]"),
    "GlobalMaxPool": Contract("x: any[N C *S]"),
}
