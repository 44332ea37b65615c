"""Constraints of shape, layout, index and reduction operators."""

from __future__ import annotations

from tvmrt.compiler.ir.assumptions import are_equal
from tvmrt.compiler.ir.contract import Contract, holds

from .rules import ALONG_AXIS, AXIS, scalar_rule

REDUCTIONS = (
    "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd "
    "ReduceSum ReduceSumSquare"
).split()
_AXES_INSIDE = holds(
    "axes are axes of x",
    lambda x, axes_data: all(-len(x.shape) <= a < len(x.shape) for a in axes_data.reshape(-1)),
)
_AXES_ONCE = holds(
    "no axis is named twice",
    lambda x, axes_data: (
        len({int(a) % max(len(x.shape), 1) for a in axes_data.reshape(-1)}) == axes_data.size
    ),
)
_REDUCED = Contract("x: any[*], axes?: int64[_]", rules=[_AXES_INSIDE, _AXES_ONCE])
_REDUCED_OPSET1 = Contract(
    "x: any[*]",
    "axes?: ints",
    rules=[
        holds(
            "axes are axes of x, none of them twice",
            lambda x, axes: (
                all(-len(x.shape) <= a < len(x.shape) for a in axes or ())
                and len({a % len(x.shape) for a in axes or ()}) == len(axes or ())
            ),
        )
    ],
)
_CUMULATIVE = Contract("x: any[_ *], axis: index[*{0..1}]", rules=[scalar_rule("axis")])

CONTRACTS = {
    **{(name, 1): _REDUCED_OPSET1 for name in REDUCTIONS},
    **{(name, 18): _REDUCED for name in REDUCTIONS},
    ("ReduceSum", 13): _REDUCED,
    **dict.fromkeys(("ArgMax", "ArgMin"), ALONG_AXIS),
    **dict.fromkeys(("CumSum", "CumProd"), _CUMULATIVE),
    ("Reshape", 5): Contract(
        "x: any[*], shape: int64[_]",
        rules=[
            holds("shape has one -1 at most", lambda shape_data: (shape_data == -1).sum() <= 1),
            holds("shape has no extent below -1", lambda shape_data: (shape_data >= -1).all()),
        ],
    ),
    ("Expand", 8): Contract(
        "x: any[*], shape: int64[_]",
        rules=[holds("shape has no extent below 0", lambda shape_data: (shape_data >= 0).all())],
    ),
    "Compress": Contract("x: any[*], condition: bool[_]"),
    ("Scan", 9): Contract(
        "x+: any[*]",
        "num_scan_inputs: int 1..",
        rules=[
            holds(
                "there are as many inputs as num_scan_inputs",
                lambda x, num_scan_inputs: num_scan_inputs <= len(x),
            )
        ],
    ),
    ("Split", 13): Contract("x: any[*], split?: int64[_]", "axis: int", rules=[AXIS]),
    ("Slice", 10): Contract(
        "x: any[*], starts: index[A], ends: index[A], axes?: index[A], steps?: index[A]",
        rules=[holds("no step is 0", lambda steps_data: (steps_data != 0).all())],
    ),
    ("Squeeze", 13): Contract("x: any[*], axes?: int64[_]"),
    ("Unsqueeze", 13): Contract("x: any[*], axes: int64[*{0..1}]"),
    ("Tile", 6): Contract("x: any[*X], repeats: int64[_]"),
    "DepthToSpace": Contract("x: any[N C H W]", "blocksize: int 1.., mode?: DCR|CRD"),
    "SpaceToDepth": Contract("x: any[N C H W]", "blocksize: int 1.., mode?: DCR|CRD"),
    ("Pad", 2): Contract("x: any[*]", "mode: constant|reflect|edge, pads: ints"),
    ("Pad", 11): Contract(
        "x: any[*], pads: int64[_], value?: any[*], axes?: index[_]",
        "mode: constant|reflect|edge|wrap",
        rules=[scalar_rule("value")],
    ),
    ("ScatterElements", 16): Contract(
        "x: any[*X], indices: index[*I{X}], updates: any[*I]",
        "axis: int, reduction: none|add|mul|max|min",
        rules=[AXIS],
    ),
    ("ScatterND", 16): Contract(
        "x: any[*], indices: int64[*], updates: any[*]", "reduction: none|add|mul|max|min"
    ),
    "OneHot": Contract(
        "indices: any[*], depth: any[*], values: any[2]",
        "axis: int",
        rules=[
            scalar_rule("depth"),
            holds("depth is above 0", lambda depth_data: (depth_data > 0).all()),
        ],
    ),
    "TensorScatter": Contract(
        "cache: any[*], update: any[*], indices?: int64[_]", "axis: int, mode: linear|circular"
    ),
    "BitShift": Contract("x: any[*], y: any[*]", "direction: LEFT|RIGHT"),
    "Celu": Contract(
        "x: any[*]", "alpha: float", rules=[holds("alpha is not 0", lambda alpha: alpha != 0)]
    ),
    ("Gelu", 20): Contract("x: any[*]", "approximate: none|tanh"),
    "ReverseSequence": Contract(
        "x: any[_ _ *], lengths: int64[_]",
        "batch_axis: int 0..1, time_axis: int 0..1",
        rules=[
            holds(
                "batch_axis is not time_axis", lambda batch_axis, time_axis: batch_axis != time_axis
            ),
            holds(
                "lengths has one number for each sample",
                lambda x, lengths, batch_axis: are_equal(lengths.shape[0], x.shape[batch_axis]),
            ),
            holds(
                "lengths are from 0 to the number of steps",
                lambda x, lengths_data, time_axis: (
                    (lengths_data >= 0) & (lengths_data <= x.shape[time_axis])
                ).all(),
            ),
        ],
    ),
}
