"""The page of the operators of onnxruntime's own domain, made of their contracts."""

from __future__ import annotations

from tvmrt.plugins.onnx_microsoft.operators import domain, refused

HEAD = """# The operators of `com.microsoft`

Made by `docs/generate_reference.py` from the contracts in
`plugins/onnx_microsoft/python/operators/`. onnxruntime writes these operators into networks:
its transformer optimiser (`onnxruntime.transformers.optimizer`), its quantisers
(`onnxruntime.quantization`), and the session that saves what it has optimised
(`optimized_model_filepath`, up to the level `ORT_ENABLE_EXTENDED`). An optimised file is as fast as
the plain one: what they join, tvmrt joins by itself. They are tested beside onnxruntime, or beside
their formula where it has them for accelerators alone.

- An attribute or an input that is not in the row of its operator is refused by its name, and so are
  the values of attributes that are told below. Unknown operators are told all at once, with their
  names and domains.
- Weights of `MatMulNBits` in blocks of 16 to 256 stay packed in the library and are widened as they
  are read, on hosts once for all rows from 16 on; so are the rows of `GatherBlockQuantized`.
- Results in bytes are within one step of onnxruntime's, whose own kernels round differently from
  processor to processor. `DynamicQuantizeLSTM` keeps its state in floats where onnxruntime
  quantises it at each step; `tvmrt verify` holds it and the nodes behind it one by one, and with
  `--outputs-only` allows what is behind it half of its largest number.
- `GroupQueryAttention` takes caches that grow and caches with room for what is to come; what of a
  cache lies behind the last key is not written. `total_sequence_length` is a constant or a
  dimension, or the shape of `present_key` is declared.
- `Tokenizer` by a pattern, `tokenexp`, stands with
  [strings](../../../docs/how-to/strings.md), which have no contract here;
  `separators` and `mark` are refused.

How to read a line is told with
[the operators between ONNX and C](../../../docs/reference/operators.md); half precision is computed
in float32.
"""

LIMITS = """## What is refused of them

| operator | what |
|---|---|
| `Attention`, `QAttention` | `do_rotary`, `past_present_share_buffer`, masks of four axes |
| `MultiHeadAttention` | `past_sequence_length` and `cache_indirection` |
| `DecoderMaskedMultiHeadAttention` | `beam_width` and `cache_indirection` |
| `GroupQueryAttention` | quantised caches, `sliding_window_cache`, `qk_output`, norms of keys |
| `RotaryEmbedding`, `MRotaryEmbedding` | `is_packed_batching`, a `scale` that is not 1 |
| `MatMulNBits` | `g_idx`, prepacked weights, other than 2, 4 and 8 bits |
| `GatherBlockQuantized` | tables of other types than bytes, int4, uint4; elements along blocks |
| `CDist` | other distances than `sqeuclidean` and `euclidean` |
| `SkipGroupNorm` | channels that are not innermost |
| `BiasSoftmax` | biases that broadcast within a row |
"""


def _code(text: str) -> str:
    return f"`{text.replace('|', chr(92) + '|')}`"


def page() -> str:
    """The whole page."""
    lines = ["| operator | operands | attributes |", "|---|---|---|"]
    for name, row in sorted(domain.rows().items()):
        operands = "<br>".join(_code(o.line) for o in row.operands)
        attributes = "<br>".join(_code(a.line) for a in row.attributes.values())
        lines.append(f"| `{name}` | {operands} | {attributes} |")
    others = ["| operator | why |", "|---|---|"]
    others += [f"| `{name}` | {why} |" for name, why in sorted(refused.REASONS.items())]
    parts = [
        HEAD.rstrip(),
        "\n".join(lines),
        LIMITS.rstrip(),
        "## What is refused as a whole",
        "\n".join(others),
    ]
    return "\n\n".join(parts) + "\n"


PAGES = {"microsoft-operators.md": page}
