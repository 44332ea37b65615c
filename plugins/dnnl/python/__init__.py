"""Regions computed by oneDNN."""
