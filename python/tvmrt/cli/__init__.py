"""The ``tvmrt`` command. Large modules are imported only when a command needs them."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from tvmrt import optional_dependencies


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Parameters
    ----------
    arguments
        Arguments after the command name; ``sys.argv[1:]`` if None.

    Returns
    -------
    int
        0: success. 1: the result is wrong (``verify``). 2: the request failed; one sentence on
        standard error states what is wrong, where, and what to do.
    """
    try:
        from tvmrt.cli.app import run
    except KeyboardInterrupt:
        print("tvmrt: error: interrupted", file=sys.stderr)
        return 130
    except ModuleNotFoundError as error:
        from tvmrt.cli import base_install

        given = sys.argv[1:] if arguments is None else arguments
        if error.name in optional_dependencies.COMMAND:
            code = base_install.run(given)
            if code is not None:
                return code
        print(f"tvmrt: error: {optional_dependencies.with_install_advice(error)}", file=sys.stderr)
        return 2
    return run(arguments)
