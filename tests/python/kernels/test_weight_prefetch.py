"""Weights that the tiles of a float layer prefetch while they compute earlier ones."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]

# 96 channels in blocks of 32; two blocks are computed together: 64 channels, then 32.
PROGRAM = r"""
#include <math.h>
#include <stdio.h>
#define TVMRT_FREESTANDING
#include <tvm/runtime/kernels/conv_f32.h>

static int then(int64_t rows, int task, int tasks, int64_t unit) {
  const tvmrt_layer_f32 layer = {.window = {.batch = 1,
                                            .in = {1, 1, (int32_t)rows},
                                            .out = {1, 1, (int32_t)rows},
                                            .kernel = {1, 1, 1},
                                            .stride = {1, 1, 1},
                                            .dilation = {1, 1, 1}},
                                 .groups = 1,
                                 .in_channels = 64,
                                 .out_channels = 96,
                                 .weights = 64};
  const tvmrt_tiles_f32 tiles = {.block = 32, .blocks_per_group = 2, .width = {14, 1}};
  const tvmrt_job_f32 job = {&layer, &tiles, 0};
  const tvmrt_work_part share = tvmrt_conv_f32_work_part(&job, task, tasks);
  return tvmrt_conv_f32_next_channels(&job, &share, 3, unit);
}

int main(void) {
  printf("%d %d ", then(197, 0, 1, 2), then(197, 0, 1, 3)); /* alone */
  printf("%d %d ", then(197, 1, 2, 2), then(197, 1, 2, 3)); /* the second half of the rows */
  printf("%d %d\n", then(4, 1, 2, 2), then(4, 1, 2, 3));    /* the second half of the channels */
  return 0;
}
"""


def test_task_prefetches_weights_of_the_next_layer(tmp_path):
    (tmp_path / "then.c").write_text(PROGRAM)
    program = tmp_path / "then"
    command = ["cc", "-std=c99", "-w", f"-I{ROOT / 'include'}", tmp_path / "then.c", "-o", program]
    subprocess.run([*command, "-lm"], check=True)
    found = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    rows = ["32", "64"]  # the rest of the layer, then two blocks of the next layer
    assert found.split() == [*rows, *rows, "32", "0"]
