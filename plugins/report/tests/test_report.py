"""Test reports: their data against values computed by hand, their files, and the command."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import onnx
import pytest
from report_networks import branched

import tvmrt
from tvmrt.cli import main
from tvmrt.plugins.report.graph_layout import layout_graph


@pytest.fixture(scope="module")
def network():
    return tvmrt.load(branched(), cache=False)


@pytest.fixture(scope="module")
def report(network):
    return network.report()


def saved(path):
    """Return the data of a report's file."""
    text = path.read_text()
    if path.suffix == ".html":
        text = re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1]
    return json.loads(text)


def _by_node(data):
    return {node: row for row in data["operators"] for node in row["onnx_nodes"]}


def test_operators_have_their_work_bytes_and_time(report):
    rows = _by_node(report.data)
    first = rows["first"]
    assert first is rows["rectifier"], "a rectifier is computed with what it follows"
    assert first["kind"] == "convolution"
    assert first["macs"] == 4 * 4 * 64
    tensor = 4 * 64 * 4
    assert first["moved_bytes"] == 2 * tensor + first["weights_bytes"]
    assert first["writes"][0]["shape"] == [1, 4, 8, 8]
    assert rows["product"]["macs"] == 4 * 8 * 8 * 8
    assert rows["product"]["kind"] == "product"
    assert all(row["seconds"] > 0 for row in report.data["operators"])
    sum_of_parts = sum(row["seconds"] for row in report.data["operators"])
    # same unit, even if this machine was busy during one of the runs
    assert sum_of_parts < 500 * report.data["timing"]["median"]


def test_edges_equal_the_network(report):
    data = report.data
    names = ["x", *(row["name"] for row in data["operators"]), "y"]
    rows = list(enumerate(data["operators"], 1))
    found = {(a, b) for a, b in data["edges"]}
    # there may be a copy between two nodes, if one needs another layout
    copies = {i for i, row in rows if row["op"] == "identity"}
    of = {node: i for i, row in rows if i not in copies for node in row["onnx_nodes"]}

    def reaches(a, b):
        return (a, b) in found or any((a, c) in found and reaches(c, b) for c in copies)

    assert reaches(0, of["first"])
    assert reaches(of["first"], of["pool"])
    assert reaches(of["first"], of["second"])
    assert reaches(of["second"], of["softmax"])
    assert reaches(of["softmax"], of["product"])
    assert reaches(of["pool"], of["product"])
    assert reaches(of["product"], len(names) - 1)
    assert not reaches(0, of["second"])


def test_memory_and_nodes_equal_the_compiler(report):
    summary = tvmrt.compile(branched()).summary
    memory = report.data["memory"]
    assert memory["arena_bytes"] == summary.arena_bytes
    assert [row["buffer"] for row in memory["tensors"]] == [row.buffer for row in summary.plan]
    assert [node["op_type"] for node in report.data["nodes"]] == [
        node.op_type for node in branched().graph.node
    ]


def test_graph_layers_follow_edges_without_overlaps():
    edges = [(0, 1), (0, 2), (1, 3), (2, 3), (3, 4), (0, 4), (5, 4)]
    found = layout_graph(6, edges)
    assert found.layer == [0, 1, 1, 2, 3, 2], "an input stands over its first reader"
    assert [len(bends) for bends in found.bends] == [0, 0, 0, 0, 0, 2, 0]
    for a in range(6):
        for b in range(a):
            if found.layer[a] == found.layer[b]:
                assert abs(found.x[a] - found.x[b]) >= 1
    assert min(found.x) == 0


def test_chain_is_straight_and_empty_graph_is_valid():
    chain = layout_graph(50, [(i, i + 1) for i in range(49)])
    assert set(chain.x) == {0.0}
    assert layout_graph(0, []).x == []


def test_page_is_one_file_without_external_requests(report, tmp_path):
    report.save(tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text()
    assert "default-src 'none'" in text
    assert not re.search(r'(src|href)="(?!#)', text)
    assert saved(tmp_path / "r.html") == json.loads(json.dumps(report.data))
    assert "<iframe srcdoc=" in report._repr_html_()


def test_names_are_escaped_in_the_page(tmp_path):
    name = "</script><script>alert(1)</script>"
    library = tvmrt.compile(branched(name))
    from tvmrt.plugins.report.network_report import report as report_of

    report_of(library, name).save(tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text()
    assert "<script>alert" not in text
    assert name in _by_node(saved(tmp_path / "r.html"))


def test_report_on_a_library_asks_for_its_network(tmp_path):
    tvmrt.compile(branched()).export(tmp_path / "n.so")
    with pytest.raises(ValueError, match="load the network file"):
        tvmrt.load(tmp_path / "n.so").report()


def test_without_jinja_the_data_is_written(report, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(ImportError, match=r"pip install 'tvmrt\[compile\]'"):
        report.save(tmp_path / "r.html")
    assert not (tmp_path / "r.html").exists()
    report.save(tmp_path / "r.json")
    assert saved(tmp_path / "r.json")["format"] == "tvmrt-report"


def test_a_report_has_no_other_suffix(report, tmp_path):
    with pytest.raises(ValueError, match=r"written as \.html or \.json"):
        report.save(tmp_path / "a.txt")


@pytest.mark.slow
def test_command_writes_page_and_data(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    onnx.save(branched(), "net.onnx")
    assert main(["report", "net.onnx", "--no-run"]) == 0
    assert saved(Path("net.html"))["network"] == "net.onnx"
    capsys.readouterr()
    assert main(["report", "net.onnx", "--no-run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["operators"]


def test_command_reports_code_and_stack_of_boards(tmp_path, capsys):
    onnx.save(branched(), tmp_path / "net.onnx")
    asked = ["report", str(tmp_path / "net.onnx"), "-o", str(tmp_path / "r.json")]
    assert main([*asked, "--runtime", "crt", "--target", "host"]) == 0
    data = saved(tmp_path / "r.json")
    assert "timing" not in data
    footprint = data["footprint"]
    assert footprint["measured"], footprint
    assert footprint["run_code_bytes"]["default"] > 0
