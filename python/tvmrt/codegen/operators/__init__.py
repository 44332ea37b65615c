"""Lowerings of operators with kernels of their own, one module a family."""

from importlib import import_module

FAMILIES = (
    "blocks",
    "custom",
    "foreign",
    "normalization",
    "quantized_elements",
    "recurrent",
    "region",
    "resize",
    "softmax",
    "vision",
    "indexing",
    "scatter",
    "pad",
    "rows",
    "extents",
    "forest",
    "run_operands",
    "counts",
    "pairs",
    "loop",
    "random",
    "signal",
    "state",
    "text",
)

for _family in FAMILIES:
    import_module(f"{__name__}.{_family}")
