"""Operators of strings, and of counts of what stands in sequences."""
