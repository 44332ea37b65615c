"""Callers of operator functions: arguments, AOT entry points, graph, metadata and hooks."""
