"""Build and run a small host program with the C files of a firmware network."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np

from tvmrt.libinfo import find_include_path

DIGITS = Path(__file__).parents[3] / "examples" / "digits"
STRICT = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-Wmissing-prototypes", "-O1"]

CALL_C = """\
static int32_t call_{name}(void *in, void *out) {{
  struct tvmgen_{name}_inputs inputs = {{in}};
  struct tvmgen_{name}_outputs outputs = {{out}};
  return tvmgen_{name}_run(&inputs, &outputs{pools});
}}
"""

CALL_PACKED = """\
static int32_t call_{name}(void *in, void *out) {{
  DLTensor tensors[2];
  TVMValue args[2], result;
  int codes[3] = {{kTVMDLTensorHandle, kTVMDLTensorHandle, 0}}, result_code = kTVMNullptr;
  tensors[0].data = in;
  tensors[1].data = out;
  args[0].v_handle = &tensors[0];
  args[1].v_handle = &tensors[1];
  return tvmgen_{name}_run(args, codes, 2, &result, &result_code, NULL);
}}
"""

POOL = """\
static uint64_t pool_{name}[(TVMGEN_{upper}_SRAM_WORKSPACE_POOL_SIZE + 7) / 8 + 1];
static struct tvmgen_{name}_workspace_pools *pools_of_{name}(void) {{
  static struct tvmgen_{name}_workspace_pools pools;
  pools.sram = (void *)(((uintptr_t)pool_{name} + 15) & ~(uintptr_t)15);
  return &pools;
}}
"""

MAIN = """\
int main(void) {
  FILE *in = %(source)s, *out = %(sink)s;
  if (in == NULL || out == NULL) return 1;
  while (fread(image, TVMGEN_%(upper)s_IMAGE_SIZE, 1, in) == 1) {
%(calls)s
  }
  return fclose(out) == 0 ? 0 : 4;
}
"""


def program_text(
    names: list[str], interface: str, pool: bool = False, files: tuple[str, str] | None = None
) -> str:
    """Return C text that runs every image of a file through each network and writes the results.

    Without files it reads standard input and writes standard output.
    """
    parts = ["#include <stdint.h>", "#include <stdio.h>"]
    parts += [f"#include <tvmgen_{n}.h>" for n in names]
    parts += ["", "static uint64_t image[4096], result[4096];", ""]
    calls = []
    for n in names:
        if pool:
            parts.append(POOL.format(name=n, upper=n.upper()))
        pools = f", pools_of_{n}()" if pool else ""
        template = CALL_C if interface == "c" else CALL_PACKED
        parts.append(template.format(name=n, pools=pools))
        calls += [
            f"    if (call_{n}(image, result) != 0) return 2;",
            f"    if (fwrite(result, TVMGEN_{n.upper()}_OUTPUT_SIZE, 1, out) != 1) return 3;",
        ]
    source, sink = "stdin", "stdout"
    if files is not None:
        source, sink = f'fopen("{files[0]}", "rb")', f'fopen("{files[1]}", "wb")'
    upper, lines = names[0].upper(), "\n".join(calls)
    main = MAIN % {"upper": upper, "calls": lines, "source": source, "sink": sink}
    return "\n".join(parts) + main


def build(
    folder: Path, sources: list[Path], includes: list[Path], options: tuple[str, ...] = ()
) -> Path:
    """Compile and link without warnings; return the program's path."""
    flags = [f"-I{path}" for path in [*includes, *find_include_path()]]
    program = folder / "program"
    done = subprocess.run(
        ["cc", *STRICT, *options, *flags, *map(str, sources), "-lm", "-o", str(program)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return program


def run(program: Path, images: np.ndarray, columns: int) -> np.ndarray:
    """Return the program's rows of results for the images."""
    done = subprocess.run([program], input=images.tobytes(), capture_output=True, check=False)
    assert done.returncode == 0, f"code {done.returncode}: {done.stderr.decode()}"
    return np.frombuffer(done.stdout, np.float32).reshape(-1, columns)
