"""Kinds of operators: few enough to distinguish by colours."""

from __future__ import annotations

from tvmrt.compiler.sdk.graph import REDUCE, Trait, get_op

# Kinds that no trait states.
_BY_NAME = {
    "quantisation": ("quantize", "dequantize"),
    "normalisation": ("softmax", "layer_norm", "group_norm", "lrn"),
    "device": ("region",),
}
_KINDS = {name: kind for kind, names in _BY_NAME.items() for name in names}
# The kind of an operator is that of the first trait that it has.
_BY_TRAIT = (
    ("pooling", (Trait.POOL,)),
    ("recurrent", (Trait.RECURRENT,)),
    (
        "movement",
        (Trait.MOVES_ELEMENTS, Trait.CONCATENATES, Trait.REARRANGES, Trait.CONVERTS),
    ),
    ("elementwise", (Trait.ELEMENTWISE,)),
)


def kind_of(name: str) -> str:
    """Return the kind of an operator of the compiler's graph by name."""
    op = get_op(name)
    if op.is_product:
        slides = op.has(Trait.CONVOLUTION, Trait.CHANNELS_INNERMOST)
        return "convolution" if slides else "product"
    found = (kind for kind, traits in _BY_TRAIT if op.has(*traits))
    other = "reduction" if op.kind == REDUCE else "other"
    return _KINDS.get(name) or next(found, other)
