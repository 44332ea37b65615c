"""Folders of evidence: contents, equality, signature, changed files, refused networks."""

from __future__ import annotations

import csv
import json
import shutil
import subprocess

import numpy as np
import pytest
from evidence_folder import DIGITS, FIRMWARE, make_evidence, wrong_rows
from reference_case import model_of

import tvmrt
from tvmrt.cli import main
from tvmrt.plugins.evidence.folder import digests
from tvmrt.plugins.evidence.loops import _with_counters
from tvmrt.plugins.evidence.trace import line_owners
from tvmrt.plugins.evidence.vectors import draw_inputs
from tvmrt.plugins.evidence.verify import verify_folder

FILES = {
    "bounds.json", "code", "index.json", "loops.ais", "loops.ffx", "network.onnx",
    "provenance.json", "reference", "replay.c", "sbom.json", "tool-confidence.md", "trace.csv",
    "trace.html", "vectors", "wcet.json",
}  # fmt: skip


TOPK = "code/include/tvm/runtime/kernels/op/topk.h"
needs_valgrind = pytest.mark.skipif(
    shutil.which("valgrind") is None, reason="valgrind is not installed"
)
LIB = "code/tvmgen_default_lib1.c"
STEP = "code/tvmgen_default_step.c"  # its loop ends if an operator fails


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    return make_evidence("digits_int8", tmp_path_factory.mktemp("digits") / "evidence")


@pytest.fixture
def copy(digits, tmp_path):
    return shutil.copytree(digits, tmp_path / "copy")


def contents(folder):
    return {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_the_folder_is_right_and_complete(digits):
    assert {path.name for path in digits.iterdir()} == FILES
    assert main(["verify", str(digits)]) == 0


@pytest.mark.slow
def test_two_folders_are_equal(digits, tmp_path):
    again = make_evidence("digits_int8", tmp_path / "elsewhere")
    assert contents(again) == contents(digits)
    assert not any(str(DIGITS).encode() in data for data in contents(again).values())


@pytest.mark.parametrize("name", ["code/tvmgen_default_weights.c", "vectors/vectors.h"])
def test_a_changed_file_is_reported(copy, name):
    (copy / name).write_bytes((copy / name).read_bytes() + b"\n")
    assert wrong_rows(copy) == [f"files: {name} has another hash than the index"]


def test_a_missing_and_an_added_file_are_reported(copy):
    (copy / "sbom.json").rename(copy / "sbom2.json")
    assert wrong_rows(copy) == [
        "files: sbom.json is missing", "files: sbom2.json is not in the index",
    ]  # fmt: skip


def test_each_line_of_c_belongs_to_an_operator_or_a_piece_of_the_frame(digits):
    with (digits / "trace.csv").open() as file:
        rows = list(csv.DictReader(file))
    for path in digits.glob("code/*"):
        if path.is_file():
            lines = [
                line
                for row in rows
                if row["file"] == path.name
                for line in range(int(row["first"]), int(row["last"]) + 1)
            ]
            assert lines == list(range(1, len(path.read_text().splitlines()) + 1)), path.name
    operators = [row for row in rows if row["piece"] == "operator"]
    assert all(row["onnx_nodes"] and row["graph_nodes"] and row["test"] for row in operators)
    assert all(row["piece"].startswith(("operator", "frame: ")) for row in rows)
    assert any("_weights +" in row["weights"] for row in operators)


def test_lines_of_a_call_belong_to_its_function():
    text = "int f(void) {\n  if (net_a(\n      x) != 0) {\n    return -1;\n  }\n  return 0;\n}\n"
    owners = line_owners(text, {"net_a": "net_a"}, "lib0.c")
    assert owners == ["frame: f()", *["net_a"] * 4, "frame: f()", "frame: f()"]


def test_loop_bounds_are_those_of_the_code(digits):
    loops = json.loads((digits / "wcet.json").read_text())["loops"]
    (quantize,) = [each for each in loops if each["function"] == "tvmgen_default_quantize"]
    assert (quantize["most"], quantize["total"]) == (64, 64)
    assert 'loop "tvmgen_default_quantize.L1" bound: 0..64;' in (digits / "loops.ais").read_text()
    for name in ("wcet.json", "loops.ais", "loops.ffx"):  # each has the meaning of its bases
        assert "counted with the recorded vectors" in (digits / name).read_text()
    assert 'maxcount="64" totalcount="64"' in (digits / "loops.ffx").read_text()


@needs_valgrind
@pytest.mark.parametrize("target", ["host", "cortex-m4"])
def test_bounds_of_a_convolutional_network_are_derived(target, tmp_path):
    folder = make_evidence("digits_int8", tmp_path / "e", target=target)
    loops = json.loads((folder / "wcet.json").read_text())["loops"]
    assert len(loops) > 30
    assert {each["basis"] for each in loops} == {"derived"}


@pytest.mark.slow
@pytest.mark.parametrize("target", ["host", "cortex-m0plus"])
def test_code_with_equal_bits_has_evidence(target, tmp_path):
    """Such code refuses -ffast-math, with which compilers reorder sums."""
    folder = make_evidence("digits_f32", tmp_path / "e", target=target, reproducible=True)
    loops = json.loads((folder / "wcet.json").read_text())["loops"]
    assert len(loops) > 10
    assert wrong_rows(folder) == []


def test_without_valgrind_bounds_are_counted(tmp_path, monkeypatch):
    monkeypatch.setattr("tvmrt.plugins.evidence.loops.shutil.which", lambda name: None)
    folder = make_evidence("digits_int8", tmp_path / "e")
    loops = json.loads((folder / "wcet.json").read_text())["loops"]
    bases = {each["function"]: each["basis"] for each in loops}
    assert bases["tvmgen_default_quantize"] == "derived"  # its text has the number
    assert bases["tvmrt_conv_i8_chunk"] == "counted"


def test_a_loop_that_depends_on_data_has_no_bound(tmp_path):
    """A sort of 40 elements takes as many steps as its elements ask for; a convolution does not."""
    loops = sorting_loops(tmp_path / "e")
    free = {each["file"] for each in loops if each["most"] is None} - {STEP}
    assert free == {TOPK}
    assert all(each["most"] > 0 for each in loops if "conv" in each["file"])
    assert "depends on data" in (tmp_path / "e" / "loops.ais").read_text()
    assert wrong_rows(tmp_path / "e") == []


@needs_valgrind
def test_a_loop_that_depends_on_data_is_found_with_equal_vectors(tmp_path, monkeypatch):
    """All vectors give the same counts: memcheck finds the branches on data."""

    def equal(*arguments):
        return 3 * [next(draw_inputs(*arguments))]

    monkeypatch.setattr("tvmrt.plugins.evidence.vectors.draw_inputs", equal)
    loops = sorting_loops(tmp_path / "e")
    named = [each for each in loops if each["basis"] == "depends on data"]
    assert {each["file"] for each in named} - {STEP} == {TOPK}
    assert all(each["most"] is None for each in named)
    assert {each["basis"] for each in loops if "conv" in each["file"]} == {"derived"}


def sorting_loops(folder):
    """Compile a convolution, whose result TopK sorts; return the loops of its code."""
    x = np.zeros((1, 4, 10), np.float32)
    weights = {"w": np.ones((4, 4, 3), np.float32), "k": np.array([20]), "shape": np.array([1, 32])}
    rows = [("Conv", ["x", "w"], ["c"], {}), ("Reshape", ["c", "shape"], ["r"], {}),
            ("TopK", ["r", "k"], ["v", "y"], {})]  # fmt: skip
    model = model_of(rows, {"x": x}, weights, ["v"])
    tvmrt.compile(model, evidence=folder, target="host", **FIRMWARE)
    return json.loads((folder / "wcet.json").read_text())["loops"]


def test_ends_of_a_loop_are_those_of_its_text():
    """A loop that changes its index, or has other ends than numbers, has none."""
    loops = []
    for text, right in (
        ("for (int i = 0; i < 10; ++i) {\n    x[i] = 1;\n  }", 10),
        ("for (int32_t i = 2; i < 9; i += 3) x[i] = i == 4 ? 1 : 2;", 3),
        ("for (int i = 0; i < 10; ++i) {\n    i += x[i] == 0;\n  }", None),
        ("for (int i = 0; i < 10; ++i) {\n    f(&i);\n  }", None),
        ("for (int i = 0; i < n; ++i) x[i] = 1;", None),
        ("for (int i = 0; i < 10 && x[i]; ++i) n++;", None),
    ):
        _with_counters("f.c", f"void f(void) {{\n  {text}\n}}\n", loops)
        assert loops[-1].ends == right, text


def test_the_bill_of_materials_meets_the_schema_of_cyclonedx(digits):
    pytest.importorskip("cyclonedx")
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    text = (digits / "sbom.json").read_text()
    assert JsonStrictValidator(SchemaVersion.V1_5).validate_str(text) is None
    names = {each["name"] for each in json.loads(text)["components"]}
    assert {"network.onnx", "code/tvmgen_default_lib1.c"} <= names


def test_the_provenance_is_a_statement_about_the_code(digits):
    statement = json.loads((digits / "provenance.json").read_text())
    index = json.loads((digits / "index.json").read_text())["sha256"]
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert all(index[each["name"]] == each["digest"]["sha256"] for each in statement["subject"])
    assert statement["predicate"]["buildDefinition"]["externalParameters"]["target"] == "host"


@pytest.mark.slow
def test_a_signature_is_of_its_key(tmp_path):
    pytest.importorskip("cryptography")
    for name in ("key", "other"):
        command = ["openssl", "genpkey", "-algorithm", "ed25519", "-out", f"{name}.pem"]
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
        command = ["openssl", "pkey", "-in", f"{name}.pem", "-pubout", "-out", f"{name}.pub"]
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    folder = make_evidence("digits_int8", tmp_path / "e", evidence_key=tmp_path / "key.pem")
    assert wrong_rows(folder, evidence_key=tmp_path / "key.pub") == []
    other = tmp_path / "other.pub"
    assert wrong_rows(folder, evidence_key=other) == [f"signature: index.sig is not of {other}"]
    with pytest.raises(ValueError, match=r"key\.pem is a private key; name the public key"):
        wrong_rows(folder, evidence_key=tmp_path / "key.pem")
    rows, _ = verify_folder(folder, {})
    assert "not checked: name the public key" in {r.part: r.verdict.note for r in rows}["signature"]
    (folder / "index.sig").unlink()
    assert wrong_rows(folder, evidence_key=other) == ["signature: index.sig is missing"]


@pytest.mark.slow
def test_given_inputs_are_the_first_vector(tmp_path):
    image = np.linspace(0, 1, 64, dtype=np.float32).reshape(1, 1, 8, 8)
    np.savez(tmp_path / "in.npz", image=image)
    folder = make_evidence("digits_f32", tmp_path / "e", evidence_inputs=tmp_path / "in.npz")
    assert np.array_equal(np.load(folder / "vectors/0.input0.npy"), image)
    assert json.loads((folder / "bounds.json").read_text())["ranges"] == {"image": [0.0, 1.0]}
    assert wrong_rows(folder) == []


@pytest.mark.slow
def test_a_network_for_a_board_is_checked_here(tmp_path):
    folder = make_evidence("digits_int8", tmp_path / "e", target="cortex-m4")
    assert wrong_rows(folder) == []


PARTS = [
    ("Sin", ["x"], ["s"], {}), ("ReduceMax", ["s"], ["n"], {"axes": [1], "keepdims": 1}),
    ("Concat", ["s", "n"], ["parts"], {"axis": 1}),
    ("Conv", ["c", "w"], ["d"], {"pads": [1, 1, 1, 1]}),
    ("Transpose", ["d"], ["turned"], {"perm": [0, 2, 3, 1]}),
    ("Relu", ["x"], ["r"], {}), ("Reshape", ["r", "flat"], ["view"], {}),
    ("Slice", ["s", "from", "to"], ["slice"], {}),
]  # fmt: skip


def change(folder, name, old, new):
    """Change a file of the folder, and its hash in the index."""
    text = (folder / name).read_text()
    assert old in text
    (folder / name).write_text(text.replace(old, new))
    index = json.loads((folder / "index.json").read_text())
    index["sha256"] |= digests({name: (folder / name).read_bytes()})
    (folder / "index.json").write_text(json.dumps(index))


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    """Evidence of outputs that are written in parts, or are views of what an operator writes."""
    feeds = {"x": np.ones((5, 7), np.float32), "c": np.ones((1, 2, 4, 4), np.float32)}
    constants = {
        "w": np.random.default_rng(1).normal(size=(3, 2, 3, 3)).astype(np.float32),
        "flat": np.array([35]), "from": np.array([1, 2]), "to": np.array([3, 4]),
    }  # fmt: skip
    model = model_of(PARTS, feeds, constants, ["parts", "turned", "view", "slice"])
    folder = tmp_path_factory.mktemp("parts") / "evidence"
    tvmrt.compile(model, evidence=folder, target="cortex-m4", **FIRMWARE)
    return folder


def test_outputs_in_parts_and_views_are_right(parts):
    assert wrong_rows(parts) == []


def test_a_part_at_a_wrong_place_is_reported(parts, tmp_path):
    folder = shutil.copytree(parts, tmp_path / "copy")
    change(folder, STEP, ", parts + 7)", ", parts + 6)")
    wrong = wrong_rows(folder)
    assert "Concat_parts_part1 differs, the result of operator 3" in "".join(wrong[:2])
    assert "output of vector 0: Concat_parts_part1 differs" in wrong


def test_a_write_outside_of_results_is_reported(digits, tmp_path):
    """More channels than the tensor has: no operator reads what they overwrite."""
    folder = shutil.copytree(digits, tmp_path / "copy")
    change(folder, LIB, "MAX,\n      .channels = 32", "MAX,\n      .channels = 40")
    found = "memory that is not a result differs after operator 5 (nodes pool)"
    assert any(row.startswith(f"code: replay vector 0: {found}") for row in wrong_rows(folder))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"unpacked_api": False}, "needs"),
        ({"params": "file"}, "traces the weights"),
        ({"workspace_io": True}, "omit workspace_io"),
    ],
)
def test_other_forms_of_code_are_refused(options, text, tmp_path):
    with pytest.raises(ValueError, match=text):
        tvmrt.compile(
            str(DIGITS / "digits_int8.onnx"), evidence=tmp_path / "e", target="host",
            **{**FIRMWARE, **options},
        )  # fmt: skip
    assert not (tmp_path / "e").exists()


def test_a_missing_folder_is_reported_before_the_compilation(tmp_path, capsys):
    network = tmp_path / "no network.onnx"
    network.write_bytes(b"")
    command = ["compile", str(network), "-o", str(tmp_path / "out"), "--target", "cortex-m4"]
    command += ["--interface-api", "c", "--evidence", str(tmp_path / "missing" / "e")]
    assert main(command) == 2
    assert f"{tmp_path / 'missing'}, which does not exist; create it" in capsys.readouterr().err


def test_another_folder_is_refused(tmp_path, capsys):
    assert main(["verify", str(tmp_path)]) == 2
    assert "compile the network with --evidence" in capsys.readouterr().err
