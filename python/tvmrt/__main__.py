"""Run the ``tvmrt`` command as ``python -m tvmrt``."""

import sys

from tvmrt.cli import main

if __name__ == "__main__":
    sys.exit(main())
