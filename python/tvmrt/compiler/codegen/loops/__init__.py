"""Loop nests over elements: fused pointwise chains and reductions."""
