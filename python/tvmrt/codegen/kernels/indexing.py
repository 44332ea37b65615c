"""Selecting by computed index, and padding."""
