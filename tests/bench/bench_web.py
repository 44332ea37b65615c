"""Compare networks in a browser with onnxruntime-web: compressed bytes, time to the first result,
and time of a run, in one page of Chromium, with one thread.

Run: ``python tests/bench/bench_web.py [NAME.onnx ...]``; by default the digits, and the networks of
``TVMRT_MODELS`` in ``NAMES``. It needs the extra ``browser``, ziglang, Chromium and npm. Runs of
both alternate; times are medians. The last column is the largest difference of an output.
``--write`` puts the table into the page about WebAssembly.
"""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "python" / "support"))
sys.path.insert(0, str(Path(__file__).parent / "firmware"))
import chromium
import page_tables

import tvmrt

ROOT = Path(__file__).parents[2]
NAMES = ("resnet8_int8", "kws_dscnn_int8", "yunet_n_320_f32", "mobilenetv2_100_224_f32")
RIVAL = "node_modules/onnxruntime-web/dist"
RIVAL_FILES = ("ort.wasm.min.mjs", "ort-wasm-simd-threaded.mjs", "ort-wasm-simd-threaded.wasm")
SECONDS = 2.0
PAGE_FILE = ROOT / "plugins/wasm/docs/webassembly.md"
HEAD = ("network", "KB, compressed", "onnxruntime-web", "first result, ms", "onnxruntime-web",
        "run, ms", "onnxruntime-web", "times as fast", "apart")  # fmt: skip
PAGE = """
async ({name, inputs, rival, seconds}) => {
  const arrays = {};
  for (const [key, kind] of Object.entries(inputs)) {
    const bytes = await (await fetch(`./${name}.${key}.bin`)).arrayBuffer();
    arrays[key] = new globalThis[kind[0]](bytes);
  }
  let begin = performance.now();
  const { load } = await import(`./${name}.mjs`);
  const net = await load();
  let ours = net.run(arrays);
  const ourFirst = performance.now() - begin;
  begin = performance.now();
  const ort = await import(`./${rival}/ort.wasm.min.mjs`);
  ort.env.wasm.numThreads = 1;
  ort.env.wasm.wasmPaths = new URL(`./${rival}/`, location.href).href;
  const options = {executionProviders: ["wasm"]};
  const session = await ort.InferenceSession.create(`./${name}.onnx`, options);
  const feeds = {};
  for (const [key, array] of Object.entries(arrays)) {
    feeds[key] = new ort.Tensor(inputs[key][1], array, inputs[key][2]);
  }
  let theirs = await session.run(feeds);
  const theirFirst = performance.now() - begin;
  const calls = [async () => { ours = net.run(arrays); },
                 async () => { theirs = await session.run(feeds); }];
  const times = [[], []], counts = [1, 1];
  const end = performance.now() + 1000 * seconds;
  while (performance.now() < end || times[1].length < 8) {
    for (const i of [0, 1]) {
      begin = performance.now();
      for (let n = 0; n < counts[i]; n++) await calls[i]();
      const time = performance.now() - begin;
      if (time < 4) counts[i] *= 2; // the clock of browsers is coarse
      else times[i].push(time / counts[i]);
    }
  }
  let apart = 0;
  for (const [key, tensor] of Object.entries(theirs)) {
    const found = Object.keys(ours).length === 1 ? Object.values(ours)[0] : ours[key];
    if (found.length !== tensor.data.length) throw new Error(`${key}: ${found.length} elements`);
    tensor.data.forEach((value, i) => { apart = Math.max(apart, Math.abs(value - found[i])); });
  }
  const middle = (list) => list.sort((a, b) => a - b)[list.length >> 1];
  return [ourFirst, theirFirst, middle(times[0]), middle(times[1]), apart];
}
"""
# by dtype: the typed array, and onnxruntime's name
KINDS = {"float32": ("Float32Array", "float32"), "int8": ("Int8Array", "int8"),
         "uint8": ("Uint8Array", "uint8"), "int32": ("Int32Array", "int32"),
         "int64": ("BigInt64Array", "int64")}  # fmt: skip


def prepare(path: Path, folder: Path) -> dict:
    """Write the network for both, and its inputs; return what the page needs to know of these."""
    (folder / path.name).write_bytes(path.read_bytes())
    inputs = {}
    for name, array in tvmrt.load(path).example_inputs().items():
        array.tofile(folder / f"{path.stem}.{name}.bin")
        inputs[name] = (*KINDS[array.dtype.name], array.shape)
    tvmrt.compile(path, target="wasm32", interface_api="c").export(folder / f"{path.stem}.wasm")
    return inputs


def kilobytes(*files: Path) -> float:
    """Return what a server that compresses sends."""
    return sum(len(gzip.compress(file.read_bytes())) for file in files) / 1e3


def rows(paths: list[Path], folder: Path):
    """Yield a row of the table for each network."""
    (folder / "package.json").write_text('{"private": true}')
    (folder / "index.html").write_text("<title>networks</title>")
    command = ["npm", "install", "--silent", "--no-audit", "onnxruntime-web"]
    subprocess.run(command, cwd=folder, check=True)
    runtime = [folder / RIVAL / each for each in RIVAL_FILES]
    with chromium.served(folder) as address, chromium.launched() as browser:
        for path in paths:
            arguments = {"name": path.stem, "inputs": prepare(path, folder), "rival": RIVAL,
                         "seconds": SECONDS}  # fmt: skip
            page = browser.new_page()
            page.goto(f"{address}/index.html")
            first, rival_first, run, rival_run, apart = page.evaluate(PAGE, arguments)
            page.close()
            own = kilobytes(*(folder / f"{path.stem}.{end}" for end in ("wasm", "mjs")))
            yield (
                path.stem, f"{own:,.0f}", f"{kilobytes(*runtime, path):,.0f}", f"{first:.0f}",
                f"{rival_first:.0f}", f"{run:.3g}", f"{rival_run:.3g}", f"{rival_run / run:.2f}",
                f"{apart:.1g}",
            )  # fmt: skip


def main() -> None:
    names = [Path(each) for each in sys.argv[1:] if each != "--write"]
    models = Path(os.environ.get("TVMRT_MODELS", "."))
    defaults = [ROOT / f"examples/digits/digits_{kind}.onnx" for kind in ("int8", "f32")]
    defaults += [path for name in NAMES if (path := models / f"{name}.onnx").is_file()]
    with tempfile.TemporaryDirectory() as folder:
        text = page_tables.table(HEAD, rows(names or defaults, Path(folder)))
    page_tables.show(PAGE_FILE, {"web": text}, "--write" in sys.argv)


if __name__ == "__main__":
    main()
