"""Tensors: ``tvmrt.nd.array``, ``tvmrt.nd.empty`` and the like; see tvmrt.runtime.ndarray."""

from tvmrt.runtime.ndarray import *  # noqa: F403
from tvmrt.runtime.ndarray import __all__  # noqa: F401
