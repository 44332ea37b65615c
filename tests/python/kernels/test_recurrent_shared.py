"""Recurrent cells whose steps two threads share: threads that arrive early, late, or never."""

from __future__ import annotations

import ctypes
import subprocess

import kernel_build as kb
import numpy as np
import pytest

from tvmrt.compiler.codegen.c.formatting import break_lines
from tvmrt.compiler.codegen.window import packing_f32
from tvmrt.compiler.codegen.window.tiles_f32 import Tiles

HIDDEN, BATCH, STEPS = 40, 2, 9
GATES = {"lstm": 4, "gru": 3, "rnn": 1}
TILES = Tiles(4, 2, (2, 1))  # 5 blocks of 8 units: the helper has the last two
JOB = ("x", "r", "bias", "lengths", "y", "h", "c", "sums")

SOURCE = r"""
#include <pthread.h>
#include <unistd.h>
#include <tvm/runtime/kernels/scalar/math.h>
#include <tvm/runtime/kernels/op/recurrent_shared.h>
%(definitions)s
TVMRT_DEFINE_LSTM_F32(lstm, tvmrt_sigmoid_f32, tvmrt_tanh_f32, tvmrt_tanh_f32, 0)
TVMRT_SHARE_LSTM_F32(lstm)
TVMRT_DEFINE_GRU_F32(gru, tvmrt_sigmoid_f32, tvmrt_tanh_f32)
TVMRT_SHARE_GRU_F32(gru)
TVMRT_DEFINE_RNN_F32(rnn, tvmrt_tanh_f32)
TVMRT_SHARE_RNN_F32(rnn)

enum { ALONE, IN_TURN, TOGETHER, JOINS_LATER, HELPER_LATE, LEADER_LATE };
static int mode, ended;
static tvmrt_recurrent_f32_step usual_step;
static tvmrt_recurrent_f32_launch* launched;

%(memory)s
void TVMAPISetLastError(const char* message) { (void)message; }

static int slow_step(const tvmrt_recurrent_f32_layer* layer, const tvmrt_tiles_f32* tiles,
                     const tvmrt_recurrent_f32_job* job, const tvmrt_recurrent_f32_part* part,
                     int input_forget) {
  const int of_helper = part->begin > 0, of_both = of_helper || part->end < layer->hidden;
  if (part->step == 2) launched->polls = 100000; /* both have begun */
  if (part->step == 3 && of_both && of_helper == (mode == HELPER_LATE)) usleep(300000);
  return usual_step(layer, tiles, job, part, input_forget);
}
static int joining_step(const tvmrt_recurrent_f32_layer* layer, const tvmrt_tiles_f32* tiles,
                        const tvmrt_recurrent_f32_job* job, const tvmrt_recurrent_f32_part* part,
                        int input_forget) {
  if (part->step == 4) {
    while (__atomic_load_n(&launched->wanted, __ATOMIC_ACQUIRE) == 0) usleep(100);
  }
  return usual_step(layer, tiles, job, part, input_forget);
}
static void* help(void* launch) {
  return tvmrt_recurrent_f32_help((tvmrt_recurrent_f32_launch*)launch) == 0 ? NULL : launch;
}

int TVMBackendParallelLaunch(FTVMParallelLambda lambda, void* closure, int count) {
  tvmrt_recurrent_f32_launch* l = (tvmrt_recurrent_f32_launch*)closure;
  TVMParallelGroupEnv env = {0, mode == ALONE ? 1 : 2};
  pthread_t helper;
  void* failed;
  int rc;
  (void)count;
  launched = l;
  usual_step = l->step;
  if (mode <= IN_TURN) {
    rc = lambda(mode, &env, closure);
    if (rc == 0 && mode == IN_TURN) rc = lambda(0, &env, closure);
  } else {
    if (mode == JOINS_LATER) l->step = joining_step;
    if (mode == HELPER_LATE || mode == LEADER_LATE) l->step = slow_step;
    l->polls = 1 << 30;
    if (pthread_create(&helper, NULL, help, l) != 0) return -1;
    if (mode != JOINS_LATER)
      while (__atomic_load_n(&l->wanted, __ATOMIC_ACQUIRE) == 0) usleep(100);
    rc = tvmrt_recurrent_f32_lead(l);
    if (pthread_join(helper, &failed) != 0 || failed) return -1;
  }
  ended = l->ended;
  return rc;
}

int run(int op, int as_mode, int shared, int reverse, const tvmrt_recurrent_f32_job* job);
int run(int op, int as_mode, int shared, int reverse, const tvmrt_recurrent_f32_job* job) {
  static const int gates[] = {4, 3, 1};
  static const tvmrt_tiles_f32 tiles = %(tiles)s;
  const tvmrt_recurrent_f32_layer layer = {
      %(batch)d, %(hidden)d, reverse, %(batch)d * gates[op] * %(hidden)d, gates[op] * %(hidden)d,
      %(batch)d * %(hidden)d, %(hidden)d, INFINITY, 0};
  mode = as_mode, ended = 0;
  if (op == 0 && (shared ? lstm_shared : lstm)(&layer, &tiles, job, 0) != 0) return -9;
  if (op == 1 && (shared ? gru_shared : gru)(&layer, &tiles, job) != 0) return -9;
  if (op == 2 && (shared ? rnn_shared : rnn)(&layer, &tiles, job) != 0) return -9;
  return ended;
}
"""

MEMBERS = (
    "x", "r", "r_hidden", "bias", "peephole", "h0", "c0", "lengths", "y", "h", "c", "sums",
)  # fmt: skip


class Job(ctypes.Structure):
    _fields_ = [("steps", ctypes.c_int32), *((name, ctypes.c_void_p) for name in MEMBERS)]


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shared")
    text = SOURCE % {
        "definitions": "\n".join(kb.unique_definitions([TILES])),
        "memory": kb.MEMORY,
        "tiles": TILES.initializer(),
        "batch": BATCH,
        "hidden": HIDDEN,
    }
    source = folder / "shared.c"
    source.write_text(break_lines(text))
    flags = [
        "-std=gnu99",
        *kb.WARNINGS[1:],
        "-O2",
        "-g",
        "-shared",
        "-fPIC",
        "-pthread",
        "-Wl,-Bsymbolic",
    ]
    command = ["gcc", *flags, f"-I{kb.ROOT / 'include'}", "shared.c", "-o", "shared.so", "-lm"]
    subprocess.run(command, check=True, cwd=folder)
    return ctypes.CDLL(str(folder / "shared.so"))


def expected(op: str, x, r, bias, lengths, reverse: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return all hidden states and the last ones, in float64."""

    def sigmoid(v):
        return 1 / (1 + np.exp(-v))

    y, last = np.zeros((STEPS, BATCH, HIDDEN)), np.zeros((BATCH, HIDDEN))
    for b in range(BATCH):
        h, c = np.zeros(HIDDEN), np.zeros(HIDDEN)
        for s in range(lengths[b]):
            t = lengths[b] - 1 - s if reverse else s
            s_ = (r.astype(np.float64) @ h).reshape(-1, HIDDEN)
            g = x[t, b].astype(np.float64).reshape(-1, HIDDEN)
            if op == "lstm":
                i, o, f = (sigmoid(g[k] + s_[k]) for k in range(3))
                c = f * c + i * np.tanh(g[3] + s_[3])
                h = o * np.tanh(c)
            elif op == "gru":
                z, q = sigmoid(g[0] + s_[0]), sigmoid(g[1] + s_[1])
                h = (1 - z) * np.tanh(g[2] + q * (s_[2] + bias)) + z * h
            else:
                h = np.tanh(g[0] + s_[0])
            y[t, b] = h
        last[b] = h
    return y, last


@pytest.mark.slow
@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
@pytest.mark.parametrize("op", GATES)
def test_threads_share_steps_with_equal_bits(library, op, reverse):
    rng = np.random.default_rng(GATES[op])
    rows = GATES[op] * HIDDEN
    x = rng.uniform(-1, 1, (STEPS, BATCH, rows)).astype(np.float32)
    r = rng.uniform(-0.3, 0.3, (rows, HIDDEN)).astype(np.float32)
    bias = rng.uniform(-0.5, 0.5, HIDDEN).astype(np.float32)
    lengths = np.array([STEPS, STEPS - 2], np.int32)
    arrays = {"x": x, "r": packing_f32.pack_matmul(r.T, TILES), "lengths": lengths}
    if op == "gru":
        padded = np.concatenate([np.zeros(2 * HIDDEN, np.float32), bias])
        arrays["bias"] = packing_f32.pad_channels(padded, TILES.packed)

    def run(mode: int, shared: bool = True) -> tuple[int, list[np.ndarray]]:
        out = [np.full(shape, 7, np.float32) for shape in ((STEPS, BATCH, HIDDEN), (BATCH, HIDDEN))]
        named = {**arrays, "y": out[0], "h": out[1], "sums": np.empty(BATCH * 4 * HIDDEN, "f4")}
        if op == "lstm":
            named["c"] = np.empty((BATCH, HIDDEN), np.float32)
            out.append(named["c"])
        job = Job(STEPS, **{name: array.ctypes.data for name, array in named.items()})
        return library.run(list(GATES).index(op), mode, shared, reverse, ctypes.byref(job)), out

    _, alone = run(0, shared=False)
    for found, right in zip(alone, expected(op, x, r, bias, lengths, reverse)):
        np.testing.assert_allclose(found, right, rtol=1e-5, atol=1e-6)
    # steps that the helper had computed when the leader returned; -1: it has left
    for mode, ended in enumerate([0, 0, STEPS, STEPS, -1, -1]):
        steps, found = run(mode)
        assert steps == ended, mode
        for array, right in zip(found, alone):
            np.testing.assert_array_equal(array, right, strict=True)
