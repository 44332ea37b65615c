"""Lowerings of convolution, pooling and matmul: geometry, packed weights, tiles, epilogues."""

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
