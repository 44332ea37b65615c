"""Numbers that networks compute from sizes, and what is known of them when compiling.

``expression``: operators applied to sizes; ``exact_results``: their results in exact arithmetic.
``intervals``: bounds of operators' results; ``element_ranges``: of all elements of a tensor.
"""
