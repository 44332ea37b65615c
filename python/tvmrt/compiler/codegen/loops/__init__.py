"""Loops over elements: fused pointwise chains, reductions, and the nests around them."""
