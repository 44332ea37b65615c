"""Old public names work with a warning."""

from __future__ import annotations

import importlib

import pytest

NAMES = [
    ("tvmrt.custom", "Declined", "UnsupportedNode"),
    ("tvmrt.connection", "Place", "RemoteMachine"),
]


@pytest.mark.parametrize(("module", "old", "new"), NAMES)
def test_old_name_warns_and_is_the_new_object(module, old, new):
    imported = importlib.import_module(module)
    with pytest.warns(DeprecationWarning, match=f"{old} is called {new} now"):
        assert getattr(imported, old) is getattr(imported, new)


@pytest.mark.parametrize("module", dict.fromkeys(module for module, _, _ in NAMES))
def test_unknown_name_is_an_attribute_error(module):
    imported = importlib.import_module(module)
    with pytest.raises(AttributeError, match=f"module '{module}' has no attribute 'missing'"):
        _ = imported.missing
