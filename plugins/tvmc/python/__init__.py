"""Command lines of TVM's ``tvmc``, as the lines of ``tvmrt`` that they stand for."""
