"""``tvmrt replay``: a board's record of its runs, compared with a run on this machine."""
