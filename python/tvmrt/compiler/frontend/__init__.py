"""Importers: convert a file with a trained network to an IR graph."""
