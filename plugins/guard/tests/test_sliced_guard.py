"""Bits of the state of a run in slices are flipped between two calls: the run returns an error code
or the right answer."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path

import tvmrt
from tvmrt.libinfo import find_include_path

DIGITS = Path(__file__).parents[3] / "examples" / "digits" / "digits_int8.onnx"

# d: an error code, n: the right answer, w: a wrong answer, c: a crash or an endless run
PROGRAM = """\
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <tvmgen_default.h>
static float image[64], right[10], answer[10];
static struct tvmgen_default_step_state state;
static char result(int slices, int bit) {
  struct tvmgen_default_inputs inputs = {image};
  struct tvmgen_default_outputs outputs = {answer};
  int code = (int)tvmgen_default_step_begin(&state, &inputs, &outputs);
  for (int i = 0; i < slices && code >= 0; ++i) code = (int)tvmgen_default_step(&state, 1);
  ((unsigned char *)&state)[bit / 8] ^= (unsigned char)(1 << bit % 8);
  do code = (int)tvmgen_default_step(&state, 1); while (code == TVMGEN_DEFAULT_STEP_MORE);
  return code != 0 ? 'd' : memcmp(answer, right, sizeof(right)) == 0 ? 'n' : 'w';
}
int main(void) {
  struct tvmgen_default_inputs inputs = {image};
  struct tvmgen_default_outputs outputs = {right};
  for (int i = 0; i < 64; ++i) image[i] = (float)(i % 16);
  if (tvmgen_default_run(&inputs, &outputs) != 0) return 1;
  for (int slices = 0; slices <= TVMGEN_DEFAULT_OPERATOR_COUNT; ++slices) {
    for (int bit = 0; bit < 8 * (int)sizeof(state); ++bit) {
      int status;
      fflush(stdout);
      const pid_t child = fork();
      if (child < 0) return 2;
      if (child == 0) {
        alarm(20);
        _exit(result(slices, bit));
      }
      if (waitpid(child, &status, 0) != child) return 3;
      putchar(WIFEXITED(status) ? WEXITSTATUS(status) : 'c');
    }
  }
  return 0;
}
"""


def test_flips_of_the_state_between_slices_give_no_wrong_answer_and_no_crash(tmp_path):
    options = {"target": "cortex-m4", "interface_api": "c", "guard": "run"}
    tvmrt.compile(str(DIGITS), **options).export_sources(tmp_path)
    (tmp_path / "main.c").write_text(PROGRAM)
    includes = [f"-I{path}" for path in (tmp_path, *find_include_path())]
    command = ["cc", "-O1", *includes, *map(str, tmp_path.glob("*.c")), "-lm"]
    subprocess.run([*command, "-o", str(tmp_path / "program")], check=True)
    done = subprocess.run([tmp_path / "program"], capture_output=True, text=True, check=True)
    counts = Counter(done.stdout)
    assert counts["w"] == counts["c"] == 0, counts
    assert counts["d"] > 1000
