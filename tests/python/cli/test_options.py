"""Options of the form NAME=VALUE."""

from __future__ import annotations

import click
import pytest

from tvmrt.cli import options


def test_shapes():
    assert options.parse_shapes(["x=1,3,224,224", "a=b=2"]) == {"x": (1, 3, 224, 224), "a=b": (2,)}


def test_shapes_with_symbolic_dimensions():
    texts = ["x=N<=8,3,H=32..640,W", "a=b=N<=2"]
    assert options.parse_shapes(texts) == {"x": ("N<=8", 3, "H=32..640", "W"), "a=b": ("N<=2",)}


def test_dims():
    found = options.parse_dims(["batch=0..8", "seq<=128", "total = past + seq"])
    assert found == {"batch": (0, 8), "seq": (1, 128), "total": " past + seq"}


@pytest.mark.parametrize("text", ["n", "n=", "n=3", "n<3", "n=1..", "<=4", "n=-1..2"])
def test_wrong_dimension_is_refused_with_its_text(text):
    with pytest.raises(click.UsageError, match=f"'{text}'"):
        options.parse_dims([text])


@pytest.mark.parametrize("text", ["x", "x=", "=1,2", "x=1,,2", "x=1,a-", "x=0", "x=1,-2", "x=1.5"])
def test_wrong_shape_is_refused_with_its_text(text):
    with pytest.raises(click.UsageError, match=f"'{text}'"):
        options.parse_shapes([text])


def test_pools():
    assert options.parse_pools(["sram=65536", "dtcm=0"]) == {"sram": 65536, "dtcm": 0}


@pytest.mark.parametrize("text", ["sram", "sram=", "sram=64q", "sram=-1"])
def test_wrong_pool_is_refused_with_its_text(text):
    with pytest.raises(click.UsageError, match=f"'{text}'"):
        options.parse_pools([text])


def test_names_may_be_joined_by_commas_or_repeated():
    assert options.parse_names(["a, b", "c", ""]) == ["a", "b", "c"]
