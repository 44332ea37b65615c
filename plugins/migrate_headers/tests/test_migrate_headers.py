"""Test ``tvmrt migrate-headers`` on sources with old names."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from tvmrt.cli import main
from tvmrt.plugins.migrate_headers.command import command, find_uses, rewrite_text

OLD = """\
#include <tvm/runtime/c_runtime_api.h>
// TVMBackendPackedCFunc in a comment stays
static const char *text = "TVMAPISetLastError";
int call(TVMBackendPackedCFunc f, TVMValue *args) {
  TVMAPISetLastError("no");
  return f(args, 0, 0, 0, 0, 0);
}
"""


def test_findings_have_lines_and_reasons():
    places = [(u.line, u.old, u.new) for u in find_uses(OLD)]
    assert places == [
        (1, "tvm/runtime/c_runtime_api.h", "tvm/runtime/c_packed_func.h"),
        (4, "TVMBackendPackedCFunc", "TVMCPackedFunc"),
        (5, "TVMAPISetLastError", "TVMPackedFuncSetLastError"),
    ]


def test_rewriting_leaves_comments_and_strings():
    new = rewrite_text(OLD)
    assert "// TVMBackendPackedCFunc in a comment stays" in new
    assert '"TVMAPISetLastError"' in new
    assert "int call(TVMCPackedFunc f" in new
    assert list(find_uses(new)) == []


@pytest.mark.parametrize(
    "line, header",
    [
        pytest.param("TVMModFree(m);", None, id="runtime-call"),
        pytest.param("TVMPackedCFunc f;", None, id="runtime-type"),
        pytest.param(
            "TVMBackendParallelLaunch(f, 0, 0);", "tvm/runtime/c_backend_api.h", id="backend"
        ),
        pytest.param("TVMValue v;", "tvm/runtime/c_packed_func.h", id="calling-convention"),
    ],
)
def test_smallest_sufficient_header(line, header):
    uses = find_uses(f"#include <tvm/runtime/c_runtime_api.h>\n{line}\n")
    found = [u.new for u in uses if u.old.endswith(".h")]
    assert found == ([header] if header else [])


def test_a_folder_is_rewritten_in_place(tmp_path):
    (tmp_path / "sub").mkdir()
    source = tmp_path / "sub" / "a.c"
    source.write_text(OLD)
    (tmp_path / "notes.txt").write_text(OLD)
    result = CliRunner().invoke(command, [str(tmp_path), "--rewrite", "--json"])
    assert result.exit_code == 0
    assert len(json.loads(result.stdout)["uses"]) == 3
    assert source.read_text() == rewrite_text(OLD)
    assert (tmp_path / "notes.txt").read_text() == OLD


def test_files_that_are_not_utf8_are_kept(tmp_path):
    source = tmp_path / "latin.c"
    source.write_bytes(b"/* \xe9 */ TVMBackendPackedCFunc f;\n")
    CliRunner().invoke(command, [str(source), "--rewrite"])
    assert source.read_bytes() == b"/* \xe9 */ TVMCPackedFunc f;\n"


BOARD = """\
#include <tvm/runtime/crt/packed_func.h>
void TVMAPISetLastError(const char* msg) { (void)(msg); }
#define TVMPackedCFunc void*
typedef TVMBackendPackedCFunc mine;
"""


def test_board_functions_keep_their_names(tmp_path):
    """Names stay in the file that defines the function and in the files that call it."""
    (tmp_path / "board.c").write_text(BOARD)
    caller = 'void g(void) { if (1) { TVMAPISetLastError("no"); } }\n'
    (tmp_path / "caller.c").write_text(caller)
    result = CliRunner().invoke(command, [str(tmp_path), "--rewrite", "--json"])
    assert [u["old"] for u in json.loads(result.stdout)["uses"]] == ["TVMBackendPackedCFunc"]
    renamed = BOARD.replace("TVMBackendPackedCFunc", "TVMCPackedFunc")
    assert (tmp_path / "board.c").read_text() == renamed
    assert (tmp_path / "caller.c").read_text() == caller
    # a call is not a definition, whatever follows it
    assert "TVMPackedFuncSetLastError" in rewrite_text(caller)
    assert "TVMCPackedFunc" in rewrite_text("typedef int (*own)(TVMBackendPackedCFunc f);")


def test_missing_headers_are_reported(tmp_path):
    source = tmp_path / "a.cc"
    text = (
        "#include <tvm/runtime/crt/rpc_common/framing.h>\n#include <stdio.h>\n"
        "#include <tvm/runtime/vm/vm.h>\n#include <tvm/runtime/metadata.h>\n"
    )
    source.write_text(text)
    result = CliRunner().invoke(command, [str(source), "--rewrite", "--json"])
    found = [(u["line"], u["new"], u["reason"][:3]) for u in json.loads(result.stdout)["uses"]]
    assert found == [(1, "", "the"), (3, "", "tvm")]
    assert source.read_text() == text
    assert "has no replacement" in CliRunner().invoke(command, [str(source)]).stdout


def test_classes_derived_from_tvm_are_reported():
    text = (
        "#include <tvm/runtime/module.h>\n/* struct A : public ModuleNode\n */\n"
        "class Mine : public tvm::runtime::ModuleNode {};\nclass B : public Mine {};\n"
        "struct C final\n    : private Other, public runtime::NDArray {};\n"
        "struct D : public NDArray::Container {};\n"
    )
    found = [(use.line, use.old, use.new) for use in find_uses(text)]
    assert found == [
        (4, "tvm::runtime::ModuleNode", ""),
        (7, "runtime::NDArray", ""),
        (8, "NDArray::Container", ""),
    ]
    assert "module_plugin.h" in next(find_uses(text)).reason
    assert not list(find_uses(text.replace("tvm/runtime/module.h", "object.h")))


def test_json_keeps_its_schema(tmp_path, capsys):
    jsonschema = pytest.importorskip("jsonschema")
    (tmp_path / "old.c").write_text(OLD)
    assert main(["migrate-headers", str(tmp_path), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert main(["schema", "migrate-headers"]) == 0
    schema = json.loads(capsys.readouterr().out)
    jsonschema.Draft202012Validator(schema).validate(printed)
    assert len(printed["uses"]) == 3
