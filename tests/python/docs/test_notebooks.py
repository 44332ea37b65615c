"""Notebook cells run from top to bottom, and are stored without outputs."""

from __future__ import annotations

import json

import pytest
from markdown_pages import ROOT

NOTEBOOKS = sorted((ROOT / "examples").rglob("*.ipynb"))


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_cells_run(path, monkeypatch, tmp_path):
    monkeypatch.chdir(path.parent)
    monkeypatch.setenv("TVMRT_CACHE", str(tmp_path))
    names = {"__name__": "__main__"}
    for number, cell in enumerate(json.loads(path.read_text(encoding="utf-8"))["cells"]):
        if cell["cell_type"] == "code":
            assert not cell["outputs"], "clear the outputs before committing"
            exec(compile("".join(cell["source"]), f"{path.name}, cell {number}", "exec"), names)
    assert names["net"].memory.weights_bytes > names["small"].memory.weights_bytes
