"""Operators of training: losses, steps of optimisers, derivatives."""
