"""Constraints of resizing, sampling, region, signal and attention operators."""

from __future__ import annotations

from tvmrt.compiler.ir.contract import Contract, holds

from .rules import scalar_rule

_COORDINATES = "half_pixel|pytorch_half_pixel|align_corners|asymmetric|tf_crop_and_resize"
_NEAREST = "nearest_mode: round_prefer_floor|round_prefer_ceil|floor|ceil"


def _given(operand) -> bool:
    """Whether an operand is present; exporters also write an omitted one as an empty tensor."""
    return operand is not None and operand.size > 0


_RESIZED = "x: any[*X], roi?: any[*], scales?: float32[_], sizes?: int64[_]"
_ABOVE_0 = holds("scales are above 0", lambda scales_data: (scales_data > 0).all())
_RESIZE_RULES = [
    holds("either scales or sizes is given", lambda scales, sizes: _given(scales) != _given(sizes)),
    _ABOVE_0,
    holds("sizes are not negative", lambda sizes_data: (sizes_data >= 0).all()),
]


def _resize(coordinates: str, more: str = "") -> Contract:
    return Contract(
        _RESIZED,
        f"coordinate_transformation_mode: {coordinates}, mode: nearest|linear|cubic, {_NEAREST}, "
        f"{more}",
        rules=_RESIZE_RULES,
    )


_POLICY = "keep_aspect_ratio_policy: stretch|not_larger|not_smaller"
_HALF_SYMMETRIC = f"{_COORDINATES}|half_pixel_symmetric"
_ROI = "x: any[N C H W], rois: any[R 4], batch_indices: int64[R]"
_ROI_ATTRIBUTES = (
    "mode: avg|max, output_height: int 1.., output_width: int 1.., sampling_ratio: int 0.."
)

CONTRACTS = {
    ("Resize", 10): Contract(
        "x: any[*X], scales: float32[_]",
        "mode: nearest|linear",
        rules=[_ABOVE_0],
    ),
    ("Resize", 11): _resize(f"{_COORDINATES}|tf_half_pixel_for_nn"),
    ("Resize", 18): _resize(_COORDINATES, _POLICY),
    ("Resize", 19): _resize(_HALF_SYMMETRIC, _POLICY),
    "Upsample": Contract(
        "x: any[*]",
        "mode: nearest|linear, scales: floats",
        rules=[holds("scales are not below 1", lambda scales: all(s >= 1 for s in scales))],
    ),
    ("Upsample", 9): Contract(
        "x: any[*], scales: float32[_]",
        "mode: nearest|linear",
        rules=[holds("scales are not below 1", lambda scales_data: (scales_data >= 1).all())],
    ),
    ("GridSample", 16): Contract(
        "x: any[N C H W], grid: any[N _ _ 2]",
        "mode: bilinear|nearest|bicubic, padding_mode: zeros|border|reflection",
    ),
    ("GridSample", 20): Contract(
        "x: any[N C *S{1..}], grid: any[N *O{S} _]",
        "mode: linear|nearest|cubic, padding_mode: zeros|border|reflection",
        rules=[
            holds(
                "grid has one coordinate for each axis of S",
                lambda grid, S: grid.shape[-1] == len(S),
            )
        ],
    ),
    ("RoiAlign", 10): Contract(_ROI, _ROI_ATTRIBUTES),
    ("RoiAlign", 16): Contract(
        _ROI, f"{_ROI_ATTRIBUTES}, coordinate_transformation_mode: half_pixel|output_half_pixel"
    ),
    "MaxRoiPool": Contract("x: any[N C H W], rois: any[_ 5]", "pooled_shape: ints[2] 1.."),
    ("STFT", 17): Contract(
        "signal: any[_ _ *], step: index[*], window?: any[_], length?: index[*]",
        rules=[scalar_rule("step"), scalar_rule("length")],
    ),
    "Attention": Contract(
        "q: any[N *], k: any[N *], v: any[N *], mask?: any[*], past_key?: any[N *], "
        "past_value?: any[N *], lengths?: int64[N]",
        "q_num_heads?: int 1.., kv_num_heads?: int 1.., qk_matmul_output_mode: int 0..3, "
        "scale?: float, softcap: float 0..",
        rules=[
            holds("scale is above 0", lambda scale: scale is None or scale > 0),
            holds("q, k and v have elements", lambda q, k, v: all(x.size > 0 for x in (q, k, v))),
        ],
    ),
    ("RotaryEmbedding", 23): Contract(
        "x: any[_ _ *], cos: any[_ _ *], sin: any[_ _ *], positions?: int64[_ _]",
        "rotary_embedding_dim: int 0.., num_heads?: int 0..",
        rules=[holds("cos and sin have one shape", lambda cos, sin: cos.shape == sin.shape)],
    ),
}
