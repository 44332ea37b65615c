"""The hook for PyInstaller, installed as ``tvmrt.pyinstaller`` and found through an entry point."""

from __future__ import annotations

import os


def hook_dirs() -> list[str]:
    """Return the folder of the hook."""
    return [os.path.dirname(__file__)]
