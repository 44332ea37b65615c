"""Tuning: find the fastest way to compute each layer of a network by measuring candidates.

``measure`` times the candidates of one layer, ``search`` selects the best one, ``database`` stores
the results, ``model`` predicts them from shapes, and ``spread`` distributes the work over several
machines. The compiler's interface is ``tvmrt.compiler.ir.tuned``.
"""
