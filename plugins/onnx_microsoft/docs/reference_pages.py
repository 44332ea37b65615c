"""Reference page of the operators of onnxruntime's domain, from their contracts."""

from __future__ import annotations

from collections import defaultdict

from tvmrt.plugins.onnx_microsoft.operators import domain, unsupported_operators

HEAD = """# The operators of `com.microsoft`

Networks optimised or quantised by onnxruntime contain these operators: its transformer optimiser
(`onnxruntime.transformers.optimizer`), its quantisers (`onnxruntime.quantization`) and saved
sessions (`optimized_model_filepath`, up to `ORT_ENABLE_EXTENDED`) write them. A plain ONNX file is
just as fast, because tvmrt fuses operators itself.

This page is made from the contracts in
`plugins/onnx_microsoft/python/operators/`, which have the inputs and attributes of each operator
with their types. Any other input or attribute is rejected by name, and all unknown operators of a
network are listed together. Half precision is computed in float32.
"""

NOTES = """## Notes

- Weights of `MatMulNBits` (blocks of 16 to 256), `GatherBlockQuantized` and `QMoE` stay packed in
  the library; those of `MatMulBnb4` become floats.
- Integer results are within one step of onnxruntime's.
- The state of `DynamicQuantizeLSTM` stays in floats. `tvmrt verify` compares it and the nodes after
  it one by one; with `--outputs-only` it allows half of the largest number.
- `GroupQueryAttention`: caches grow or have full length; elements past the last key are not
  written. `total_sequence_length` must be a constant or a dimension, or the shape of `present_key`
  must be declared.
- `MoE` and `QMoE` skip experts that no token of a call uses. Layouts that onnxruntime has for
  accelerators only (`fc3`, `swiglu_fusion=2`, `geglu`, `relu2`, different bits per projection) are
  computed. Router values of `QMoE` are normalised unless `router_weights` is given, as in
  onnxruntime on CPUs.
- `Tokenizer` with a pattern (`tokenexp`) is described with
  [strings](../../onnx_text/docs/strings.md); `separators` and `mark` are rejected.
"""

LIMITS = """## Unsupported uses

| operator | unsupported |
|---|---|
| `Attention`, `QAttention` | `do_rotary`, `past_present_share_buffer`, masks of four axes |
| `MultiHeadAttention` | `past_sequence_length`, `cache_indirection` |
| `DecoderMaskedMultiHeadAttention` | `beam_width`, `cache_indirection` |
| `GroupQueryAttention` | caches of 8-bit floats, `sliding_window_cache`, `qk_output`, key norms |
| `RotaryEmbedding`, `MRotaryEmbedding` | `is_packed_batching`, a `scale` other than 1 |
| `MatMulNBits` | `g_idx`, prepacked weights, bits other than 2, 4 and 8 |
| `GatherBlockQuantized` | tables other than int8, uint8, int4, uint4; elements along blocks |
| `CausalConvWithState` | several spatial axes, `state_window`, `state_update_capacity`, |
| | `state_length`, `state_channels_last`, `input_channels`, `input_channel_offset` |
| `LinearAttention` | `state_window` |
| `GatedDeltaNet` | packed sequences (`cu_seqlens`), `state_update_capacity` |
| `MoE`, `QMoE` | `use_sparse_mixer`, `swiglu_limit_after_activation` |
| `QMoE` | `quant_type` other than `int`, `weights_prepacked=1`, computed weights, |
| | bits other than 2, 4 and 8 |
| `MatMulBnb4` | `transB=0`, `training_mode=1`, computed weights |
| `CDist` | distances other than `sqeuclidean` and `euclidean` |
| `SkipGroupNorm` | channels that are not the last axis |
| `BiasSoftmax` | biases that broadcast within a row |
"""


def _names(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names))


def page() -> str:
    """Return the page's text."""
    refused = defaultdict(list)
    for name, reason in sorted(unsupported_operators.REASONS.items()):
        refused[reason].append(name)
    rows = [f"| {_names(names)} | {reason} |" for reason, names in refused.items()]
    parts = [
        HEAD.rstrip(),
        "## Supported operators",
        _names(list(domain.contracts())) + ".",
        NOTES.rstrip(),
        LIMITS.rstrip(),
        "## Unsupported operators",
        "\n".join(["| operators | reason, and what to do |", "|---|---|", *rows]),
    ]
    return "\n\n".join(parts) + "\n"


PAGES = {"microsoft-operators.md": page}
