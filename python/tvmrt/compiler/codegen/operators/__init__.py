"""Lowerings of operators with their own kernels, one module per operator family."""
