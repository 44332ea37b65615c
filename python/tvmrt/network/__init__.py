"""Networks as functions: ``tvmrt.load`` gives one from any form that it has, any thread calls it.

Nothing is imported here, since the commands make up inputs where no runtime is built.
"""
