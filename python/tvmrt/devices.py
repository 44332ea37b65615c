"""Devices that compute parts of a network: subclass ``Device`` and register it.

The public names of ``tvmrt.compiler.devices``; see the how-to page "Write a code generator".
"""

from tvmrt.compiler.devices import *  # noqa: F403
from tvmrt.compiler.devices import __all__  # noqa: F401
