"""Tuning: how each layer of a network is computed fastest, found by running it.

``measure`` times the ways in which one layer can be computed, ``search`` chooses among them,
``database`` keeps what was found, ``model`` tells from shapes what would be, ``spread`` has other
machines help. The compiler asks through
``tvmrt.compiler.ir.tuned``.
"""
