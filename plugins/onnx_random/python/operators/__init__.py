"""Operators that generate random numbers."""
