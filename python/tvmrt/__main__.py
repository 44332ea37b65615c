"""``python -m tvmrt`` is the ``tvmrt`` command."""

import sys

from tvmrt.cli import main

if __name__ == "__main__":
    sys.exit(main())
