"""Lowerings of convolution, pooling and matmul: geometry, packed weights, tiles, epilogues."""
