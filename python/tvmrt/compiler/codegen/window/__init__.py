"""Convolutions, pooling and products: geometry, packed weights, tiles and what follows the sums."""

from importlib import import_module

FAMILIES = (
    "conv",
    "conv_transpose",
    "matmul",
    "pool",
    "quantized",
    "quantized_computed",
    "winograd",
)

for _family in FAMILIES:
    import_module(f"{__name__}.{_family}")
