"""Command lines of TVM's ``tvmc``, translated to ``tvmrt`` command lines."""
