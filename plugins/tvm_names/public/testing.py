"""Names of ``tvm.testing`` that deployment scripts use."""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["assert_allclose", "device_enabled", "main"]


def assert_allclose(actual: Any, desired: Any, rtol: float = 1e-7, atol: float = 1e-7) -> None:
    """Compare arrays of equal shape; the AssertionError shows the differences."""
    import numpy as np

    actual, desired = np.asanyarray(actual), np.asanyarray(desired)
    np.testing.assert_allclose(actual.shape, desired.shape)
    np.testing.assert_allclose(actual, desired, rtol=rtol, atol=atol, verbose=True)


def device_enabled(target: str) -> bool:
    """Return whether code for a target runs here; ``llvm`` and ``c`` need no device."""
    from tvmrt.runtime import enabled

    return enabled(str(target).split()[0].split(",")[0])


def main() -> None:
    """Run the tests of the calling file with pytest."""
    import pytest

    file = sys._getframe(1).f_globals["__file__"]
    sys.exit(pytest.main([file, *sys.argv[1:]]))
