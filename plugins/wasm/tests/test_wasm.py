"""Test networks as WebAssembly in Node: results, sizes, the loader's errors, WASI, the page."""

from __future__ import annotations

import json
import os
import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from zlib import compress, crc32

import chromium
import numpy as np
import onnx
import onnxruntime
import pytest
import reproducible_networks
from varied_networks import varied_networks

import tvmrt
from tvmrt.cli import main
from tvmrt.plugins.wasm.typescript import ARRAYS

pytest.importorskip("ziglang")
HERE = Path(__file__).parent
ROOT = HERE.parents[2]
DIGITS = ROOT / "examples/digits/digits_int8.onnx"
OPTIONS = {"target": "wasm32", "interface_api": "c", "module_name": "net"}
MODELS = os.environ.get("TVMRT_MODELS", "")
NAMES = sorted(path.stem for path in Path(MODELS).glob("*.onnx")) if MODELS else []


def _node(*arguments) -> str:
    command = ["node", "--no-warnings", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _run(folder: Path, library, inputs, dims=None) -> dict[str, np.ndarray]:
    """Return the outputs of ``net.mjs`` of a folder."""
    rows = []
    for i, tensor in enumerate(library.summary.inputs):
        (folder / f"in{i}").write_bytes(inputs[tensor.name].astype(tensor.dtype).tobytes())
        rows.append([tensor.name, ARRAYS[tensor.dtype], f"in{i}"])
    (folder / "job.json").write_text(json.dumps({"inputs": rows}))
    names = json.loads(
        _node(HERE / "run_network.mjs", folder / "net.mjs", folder, json.dumps(dims or {}))
    )
    assert names == [tensor.name for tensor in library.summary.outputs]
    return {
        tensor.name: np.frombuffer((folder / f"out{i}").read_bytes(), tensor.dtype)
        for i, tensor in enumerate(library.summary.outputs)
    }


def _exported(model, folder: Path, **options):
    library = tvmrt.compile(model, **{**OPTIONS, **options})
    library.export(folder / "net.wasm")
    return library


def _reference(model, inputs) -> dict[str, np.ndarray]:
    session = onnxruntime.InferenceSession(model.SerializeToString())
    return dict(zip([o.name for o in session.get_outputs()], session.run(None, inputs)))


@pytest.fixture(scope="module")
def digits(tmp_path_factory) -> Path:
    """Return a folder with the digits network, written by the command without options."""
    folder = tmp_path_factory.mktemp("digits")
    for name in ("digits.wasm", "digits.js"):
        assert main(["compile", str(DIGITS), "-o", str(folder / name)]) == 0
    return folder


@pytest.fixture(scope="module")
def browser():
    with chromium.launched() as opened:
        yield opened


IN_BROWSER = """async () => {
  const { load } = await import("/net.mjs");
  const net = await load(), inputs = {};
  const job = await (await fetch("/job.json")).json();
  for (const [name, type, file] of job.inputs) {
    inputs[name] = new globalThis[type](await (await fetch("/" + file)).arrayBuffer());
  }
  const same = [];
  for (const [i, array] of Object.values(net.run(inputs)).entries()) {
    const node = new Uint8Array(await (await fetch(`/out${i}`)).arrayBuffer());
    const here = new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
    same.push(node.length === here.length && node.every((byte, j) => byte === here[j]));
  }
  return same;
}"""


def _check_in_browser(browser, folder: Path, library) -> None:
    """Compare a browser's results with Node's, bit by bit; a static server has all files."""
    watched = chromium.Watched(browser)
    with chromium.served(folder) as address:
        watched.page.goto(f"{address}/job.json")
        assert watched.page.evaluate(IN_BROWSER) == [True] * len(library.summary.outputs)
    watched.page.close()


@pytest.mark.slow
@pytest.mark.parametrize("group", reproducible_networks.GROUPS)
def test_reproducible_networks_have_the_bits_of_this_machine(group, tmp_path):
    """WebAssembly has no fused multiply-add: it is computed in doubles."""
    model, inputs = reproducible_networks.network(group)
    library = _exported(model, tmp_path, reproducible=True)
    here = tvmrt.load(model, reproducible=True, cache=False)(inputs)
    reproducible_networks.check_equal(_run(tmp_path, library, inputs), here)


@pytest.mark.slow
@pytest.mark.parametrize("name", varied_networks())
def test_results_are_those_of_onnxruntime(name, tmp_path):
    model = varied_networks()[name]
    library = _exported(model, tmp_path)
    rng = np.random.default_rng(3)
    inputs = {
        tensor.name: (rng.standard_normal(tensor.shape) * 2).astype(tensor.dtype)
        for tensor in library.summary.inputs
    }
    found = _run(tmp_path, library, inputs)
    for key, value in _reference(model, inputs).items():
        np.testing.assert_allclose(found[key].reshape(value.shape), value, rtol=1e-4, atol=1e-4)


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    """Return a function that compiles a network of TVMRT_MODELS, runs it in Node and checks it."""
    sys.path.insert(0, str(ROOT / "tests" / "python" / "networks"))
    import golden_case

    folder = tmp_path_factory.mktemp("real")
    kept = {}

    def run(name):
        if name not in kept:
            kept.clear()  # the tests of one network follow each other
            place = folder / name
            place.mkdir()
            inputs, outputs = golden_case.load(Path(MODELS), name)
            library = _exported(Path(MODELS) / f"{name}.onnx", place)
            found = _run(place, library, inputs)
            for key, value in outputs.items():
                noise = golden_case.noise(Path(MODELS), name)
                golden_case.check(key, found[key].reshape(value.shape), value, noise)
            kept[name] = place, library
        return kept[name]

    return run


real_networks = pytest.mark.parametrize("name", NAMES or [""], scope="module")
needs_models = pytest.mark.skipif(not NAMES, reason="TVMRT_MODELS is not set")


@pytest.mark.slow
@needs_models
@real_networks
def test_real_networks_have_their_golden_outputs(name, real):
    folder, _ = real(name)
    if name == "resnet8_int8":
        assert (folder / "net.wasm").stat().st_size <= 130_000


@pytest.mark.slow
@needs_models
@real_networks
def test_browser_computes_the_bits_of_node(name, real, browser):
    """Networks of any size: Chromium compiles large modules only asynchronously."""
    folder, library = real(name)
    _check_in_browser(browser, folder, library)


@pytest.mark.slow
def test_each_run_has_its_own_sizes(tmp_path):
    library = _exported(DIGITS, tmp_path, shapes={"image": ["N<=4", 1, 8, 8]})
    for n in (3, 4, 1):
        image = np.random.default_rng(n).random((n, 1, 8, 8), np.float32)
        found = _run(tmp_path, library, {"image": image}, {"N": n})["probabilities"]
        model = onnx.load(DIGITS)
        for tensor in (*model.graph.input, *model.graph.output):
            tensor.type.tensor_type.shape.dim[0].dim_param = "N"
        expected = [_reference(onnx.load(DIGITS), {"image": each[None]}) for each in image]
        expected = np.concatenate([each["probabilities"] for each in expected])
        np.testing.assert_allclose(found.reshape(n, 10), expected, atol=1e-5)
    types = (tmp_path / "net.d.ts").read_text()
    assert '"N": number' in types and "dims: Dims" in types
    program = f"""
        import {{ load }} from {json.dumps((tmp_path / "net.mjs").as_uri())};
        const net = await load(), image = new Float32Array(128);
        for (const dims of [undefined, {{N: 5}}, {{N: 1.5}}, {{M: 2}}, {{N: 1}},
                            {{N: "2"}}, {{N: 2n}}, {{N: null}}]) {{
          try {{ net.run({{image}}, dims); }} catch (error) {{ console.log(String(error)); }}
        }}"""
    (tmp_path / "dims.mjs").write_text(program)
    lines = _node(tmp_path / "dims.mjs").splitlines()
    assert lines == [
        "TypeError: the dimension N is missing; run() needs {N: 1 to 4}",
        "RangeError: the dimension N is 5; pass 1 to 4",
        "RangeError: the dimension N is 1.5; pass 1 to 4",
        "TypeError: there is no dimension M; run() needs {N: 1 to 4}",
        "RangeError: the input image has 128 elements; its shape [1, 1, 8, 8] has 64",
        "TypeError: the dimension N is a string; pass a number, 1 to 4",
        "TypeError: the dimension N is a bigint; pass a number, 1 to 4",
        "TypeError: the dimension N is null; pass a number, 1 to 4",
    ]


WRONG = {
    "": "run() needs an object of inputs: {image: Float32Array of shape [1, 1, 8, 8]}",
    "new Float32Array(64)": "run() needs an object of inputs: ",
    "{}": "the input image is missing; run() needs {image: Float32Array of shape [1, 1, 8, 8]}",
    "{image: new Float64Array(64)}": "the input image is Float64Array; pass a Float32Array",
    "{image: [1, 2]}": "the input image is Array; pass a Float32Array",
    "{image: null}": "the input image is null; pass a Float32Array",
    "{image: new Float32Array(63)}": "the input image has 63 elements; its shape [1, 1, 8, 8] has",
    "{image: new Float32Array(64), x: 1}": "there is no input x; run() needs {image: ",
}


@pytest.mark.slow
def test_wrong_inputs_are_one_sentence_and_change_nothing(digits):
    lines = [
        'import { load } from "./digits.mjs";',
        "const net = await load(), image = new Float32Array(64).fill(0.5);",
        "const first = net.run({ image }).probabilities;",
        *(f"try {{ net.run({w}) }} catch (e) {{ console.log(e.message) }}" for w in WRONG),
        "const last = net.run({ image }).probabilities;",
        "console.log(first !== last && String(first) === String(last));",
        "net.inputs[0].shape[0] = 9;",
        "console.log(JSON.stringify([net.inputs, net.outputs, net.dims]));",
        'await load("./absent.wasm").catch((e) => console.log(e.code));',
        "await load(new Uint8Array(8)).catch((e) => console.log(e.name));",
    ]
    (digits / "wrong.mjs").write_text("\n".join(lines))
    *errors, same, tensors, absent, damaged = _node(digits / "wrong.mjs").splitlines()
    assert len(errors) == len(WRONG)
    for found, words in zip(errors, WRONG.values()):
        assert found.startswith(words), found
    assert (same, absent, damaged) == ("true", "ENOENT", "CompileError")
    assert json.loads(tensors) == [
        [{"name": "image", "dtype": "float32", "shape": [1, 1, 8, 8]}],
        [{"name": "probabilities", "dtype": "float32", "shape": [1, 10]}],
        [],
    ]
    types = (digits / "digits.d.ts").read_text()
    assert types == (digits / "digits.d.mts").read_text()
    assert '"image": Float32Array' in types and "run(inputs: Inputs): Outputs" in types


@pytest.mark.slow
def test_module_needs_nothing_from_its_host_and_starts_as_a_wasi_reactor(digits):
    program = """
        import { readFileSync } from "node:fs";
        import { WASI } from "node:wasi";
        const module = new WebAssembly.Module(readFileSync(process.argv[2]));
        console.log(JSON.stringify(WebAssembly.Module.imports(module)));
        const instance = new WebAssembly.Instance(module, {});
        new WASI({ version: "preview1" }).initialize(instance);
        const { memory, tensor, run } = instance.exports;
        new Float32Array(memory.buffer, tensor(0), 64).fill(0.5);
        console.log(run());
        console.log(JSON.stringify([...new Float32Array(memory.buffer, tensor(1), 10)]));"""
    (digits / "wasi.mjs").write_text(program)
    lines = _node(digits / "wasi.mjs", digits / "digits.wasm").splitlines()
    imports, code, found = map(json.loads, lines)
    assert (imports, code) == ([], 0)
    image = np.full((1, 1, 8, 8), 0.5, np.float32)
    expected = _reference(onnx.load(DIGITS), {"image": image})["probabilities"][0]
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.slow
def test_wasi_program_of_the_page_about_it_runs(digits, monkeypatch):
    """In wasmtime, which shares no code with Node."""
    pytest.importorskip("wasmtime")
    page = (HERE.parent / "docs" / "webassembly.md").read_text()
    (program,) = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    monkeypatch.chdir(digits)
    names = {}
    exec(compile(program, "webassembly.md", "exec"), names)
    zeros = np.zeros((1, 1, 8, 8), np.float32)
    scores = _reference(onnx.load(DIGITS), {"image": zeros})["probabilities"]
    np.testing.assert_allclose(names["scores"], scores[0], atol=1e-5)


def _pictures(number: int) -> tuple[np.ndarray, np.ndarray]:
    """Return gray pictures of dark digits on light paper, and the digits."""
    with np.load(DIGITS.with_name("digits_test.npz")) as data:
        images, labels = data["images"][:number].astype(np.float32), data["labels"][:number]
    light = 240 - 14 * np.kron(images, np.ones((1, 12, 12)))
    light = np.pad(light, ((0, 0), (20, 30), (60, 40)), constant_values=240)
    return light.astype(np.uint8), labels


@pytest.mark.slow
def test_page_reads_pictures_of_digits(digits):
    """Its script, in Node: dark digits on light paper with margins, of the network's test set."""
    page = (ROOT / "examples" / "digits" / "digits.html").read_text()
    script = re.search(r'<script id="page">(.*?)</script>', page, re.DOTALL)[1]
    assert '<script src="digits.js"></script>' in page
    light, labels = _pictures(200)
    (digits / "pictures").write_bytes(np.repeat(light[..., None], 4, axis=3).tobytes())
    _, height, width = light.shape
    (digits / "page.cjs").write_text(
        f"""const digits = require("./digits.js");\n{script}
        const all = new Uint8ClampedArray(require("fs").readFileSync(__dirname + "/pictures"));
        all.forEach((_, i) => {{ if (i % 4 === 3) all[i] = 255; }});
        const size = {4 * height * width}, found = [];
        digits.load().then((net) => {{
          for (let i = 0; i < all.length; i += size) {{
            const input = toInput(all.subarray(i, i + size), {width}, {height});
            found.push(classify(net, input).digit);
          }}
          console.log(JSON.stringify(found));
        }});"""
    )
    found = json.loads(_node(digits / "page.cjs"))
    assert (np.array(found) == labels).mean() > 0.95


def _png(light: np.ndarray) -> bytes:
    """Return a picture of gray bytes, by rows."""
    height, width = light.shape

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = b"".join(b"\0" + row.tobytes() for row in light)
    chunks = chunk(b"IHDR", head) + chunk(b"IDAT", compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunks


DROP = """([bytes, name]) => {
  const files = new DataTransfer();
  files.items.add(new File([Uint8Array.from(bytes)], name));
  document.dispatchEvent(new DragEvent("drop", { dataTransfer: files, cancelable: true }));
}"""


@pytest.mark.slow
@pytest.mark.parametrize("where", ["file", "server"])
def test_page_reads_dropped_pictures_in_a_browser(where, digits, browser):
    shutil.copy(ROOT / "examples" / "digits" / "digits.html", digits)
    pictures, labels = _pictures(20)
    watched = chromium.Watched(browser, scheme="dark" if where == "server" else "light")
    page = watched.page
    with chromium.served(digits) as address:
        page.goto(f"{address if where == 'server' else digits.as_uri()}/digits.html")
        page.wait_for_function("document.getElementById('answer').textContent === 'Ready.'")
        found = []
        for picture in pictures:
            page.evaluate("document.getElementById('answer').textContent = ''")
            page.evaluate(DROP, [list(_png(picture)), "digit.png"])
            page.wait_for_function("document.getElementById('answer').textContent")
            found.append(int(page.text_content("#answer").removeprefix("It is a ")[0]))
        assert (np.array(found) == labels).sum() >= 18
        file = {"name": "a.png", "mimeType": "image/png", "buffer": b"no"}
        page.set_input_files("#file", file)
        page.wait_for_function("document.getElementById('answer').textContent.includes('a.png is')")
        assert not chromium.violations(page)
    assert not watched.wrong
    page.close()


@pytest.mark.slow
def test_script_may_have_the_name_of_a_property_of_pages(browser, tmp_path):
    assert main(["compile", str(DIGITS), "-o", str(tmp_path / "name.js")]) == 0
    (tmp_path / "page.html").write_text('<!doctype html><script src="name.js"></script>')
    page = chromium.Watched(browser).page
    page.goto(f"{tmp_path.as_uri()}/page.html")
    assert page.evaluate("name.load().then((net) => net.inputs[0].name)") == "image"
    page.close()


@pytest.mark.slow
def test_program_of_the_page_about_it_runs(digits):
    page = (HERE.parent / "docs" / "webassembly.md").read_text()
    (program,) = re.findall(r"^```js\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    (digits / "program.mjs").write_text(program)
    zeros = np.zeros((1, 1, 8, 8), np.float32)
    scores = _reference(onnx.load(DIGITS), {"image": zeros})["probabilities"]
    assert float(_node(digits / "program.mjs").split(": ")[1]) == pytest.approx(scores[0, 0], 1e-4)
