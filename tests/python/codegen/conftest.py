"""Small networks for code generation tests."""

from __future__ import annotations

import pytest
from small_network import small_network


@pytest.fixture(scope="session")
def network():
    return small_network()
