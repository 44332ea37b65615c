"""Old names of public objects, which work with a warning for one release."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any


def renamed(module: Mapping[str, Any], names: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a module whose public names changed.

    Parameters
    ----------
    module
        ``globals()`` of the module.
    names
        New names by old names.

    The function warns with DeprecationWarning and returns the object of the new name.
    """

    def lookup(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {module['__name__']!r} has no attribute {name!r}")
        new = names[name]
        text = f"{module['__name__']}.{name} is called {new} now; the old name will be removed"
        warnings.warn(text, DeprecationWarning, stacklevel=2)
        return module[new]

    return lookup
