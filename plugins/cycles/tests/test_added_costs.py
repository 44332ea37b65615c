"""Cycles of a processor that a plug-in adds."""

from __future__ import annotations

from dataclasses import replace

import pytest
from installed_plugins import install

from tvmrt import plugin
from tvmrt.compiler.sdk.codegen import get_target
from tvmrt.plugins.cycles.core_timing import core_of

CORE = replace(get_target("cortex-m4"), name="mycore", like="cortex-m4", costs={"float_mac": 6})
MISSPELT = replace(CORE, costs={"float_mca": 6, "load": 3})


@pytest.fixture(params=["CORE", "MISSPELT"])
def added(request, monkeypatch) -> str:
    reference = f"{__name__}:{request.param}"
    install(monkeypatch, plugin.Plugin("mine", "for tests", targets={"mycore": reference}))
    return request.param


def test_kinds_of_instructions_are_known(added):
    """Another kind is an error, not a cost that nothing has."""
    if added == "CORE":
        assert core_of("mycore").costs == {**core_of("cortex-m4").costs, "float_mac": 6}
        return
    with pytest.raises(ValueError, match=r"mycore has costs of float_mca; .* float_mac"):
        core_of("mycore")
