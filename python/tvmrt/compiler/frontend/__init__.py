"""Importers: a trained network's file to the graph of the IR."""
