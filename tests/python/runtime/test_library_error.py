"""A library may report at load time why it cannot be used."""

import subprocess

import pytest

import tvmrt

CODE = """
#include <stddef.h>
const char *__tvmrt_refusal(void) { return %s; }
"""


@pytest.mark.parametrize("text", ["", "this library is for a processor of tomorrow"])
def test_error_of_the_library_is_raised(tmp_path, text):
    (tmp_path / "code.c").write_text(CODE % (f'"{text}"' if text else "NULL"))
    subprocess.run(["cc", "-shared", "-fPIC", "code.c", "-o", "code.so"], check=True, cwd=tmp_path)
    if not text:
        assert tvmrt.runtime.load_module(tmp_path / "code.so").level == ""
        return
    for _ in range(2):  # the first attempt leaves no state
        with pytest.raises(tvmrt.error.TVMError, match=f"^{text}$"):
            tvmrt.runtime.load_module(tmp_path / "code.so")
