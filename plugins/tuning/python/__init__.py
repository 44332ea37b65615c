"""Tuning: find the fastest way to compute each layer of a network by measuring candidates.

``measure`` times the candidates of one layer, ``search`` selects the best one, ``database`` stores
the results, ``fitted_model`` predicts them from shapes, and ``ray_search`` distributes the work
over several machines. The compiler's interface is ``tvmrt.compiler.ir.tuned``.
"""
