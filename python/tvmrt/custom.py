"""Custom operators: declared kernels and compositions of existing operators.

The public names of ``tvmrt.compiler.custom``; see the how-to page "Custom operators".
"""

from tvmrt.compiler.custom import *  # noqa: F403
from tvmrt.compiler.custom import __all__  # noqa: F401
