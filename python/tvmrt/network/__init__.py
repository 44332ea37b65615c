"""Networks as functions: ``tvmrt.load`` returns one, and any thread may call it.

Nothing is imported here, because commands create random inputs without a built runtime.
"""
