"""The folder of ``--format npm``: its description, its program in Node and in three bundlers."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from tvmrt.cli import main

pytest.importorskip("ziglang")
ROOT = Path(__file__).parents[3]
DIGITS = ROOT / "examples/digits/digits_int8.onnx"
PROGRAM = """
import { load } from "hand-digits";
const net = await load();
const { probabilities } = net.run({ image: new Float32Array(64) });
console.log(JSON.stringify(Array.from(probabilities)));
"""
# Output folders are served from any address; vite's own default is the root of a server.
VITE = 'export default { base: "./", build: { modulePreload: false, target: "esnext" } };'
WEBPACK = (
    'module.exports = { mode: "production", entry: "./main.mjs", target: "node",'
    ' output: { path: __dirname + "/dist", filename: "main.mjs", module: true },'
    " experiments: { outputModule: true } };"
)


def _call(folder: Path, *command: str) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def package(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("package") / "Hand_digits"
    assert main(["compile", str(DIGITS), "--format", "npm", "-o", str(folder)]) == 0
    return folder


@pytest.fixture(scope="module")
def project(package, tmp_path_factory) -> Path:
    """Return a folder with a program, the package and the bundlers."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    folder = tmp_path_factory.mktemp("project")
    (folder / "package.json").write_text('{"private": true}')
    tools = ["esbuild", "vite", "webpack", "webpack-cli"]
    command = ["npm", "install", "--silent", "--no-audit", "--no-fund", *tools]
    if subprocess.run(command, cwd=folder, capture_output=True, check=False).returncode != 0:
        pytest.skip("npm reaches no registry that has esbuild, vite and webpack")
    archive = _call(package, "npm", "pack", "--silent", "--pack-destination", str(folder))
    _call(folder, *command[:2], "--silent", f"./{archive.strip()}")
    (folder / "main.mjs").write_text(PROGRAM)
    (folder / "index.html").write_text('<script type="module" src="./main.mjs"></script>')
    (folder / "vite.config.mjs").write_text(VITE)
    (folder / "webpack.config.cjs").write_text(WEBPACK)
    return folder


def _check(text: str) -> None:
    session = onnxruntime.InferenceSession(DIGITS)
    (right,) = session.run(None, {"image": np.zeros((1, 1, 8, 8), np.float32)})
    np.testing.assert_allclose(json.loads(text), right[0], atol=1e-3)


def test_description_names_the_files(package):
    described = json.loads((package / "package.json").read_text())
    assert described["name"] == "hand-digits"
    files = {path.name for path in package.iterdir()} - {"package.json"}
    assert set(described["files"]) == files
    entry = described["exports"]["."]
    assert {Path(entry["types"]).name, Path(entry["default"]).name} < files


@pytest.mark.slow
def test_installed_package_runs_in_node(project):
    _check(_call(project, "node", "main.mjs"))


BUNDLERS = {
    "esbuild": ("esbuild", "main.mjs", "--bundle", "--format=esm", "--outfile=dist/main.mjs"),
    "vite": ("vite", "build"),
    "webpack": ("webpack", "--config", "webpack.config.cjs"),
}


@pytest.mark.slow
@pytest.mark.parametrize("bundler", BUNDLERS)
def test_bundled_program_runs_alone(bundler, project, tmp_path):
    """The output is moved away from the package."""
    _call(project, "npx", *BUNDLERS[bundler])
    if bundler == "esbuild":
        (module,) = (project / "node_modules" / "hand-digits").glob("*.wasm")
        shutil.copy(module, project / "dist")
    shutil.move(project / "dist", tmp_path)
    (program,) = [p for p in (tmp_path / "dist").rglob("*") if p.suffix in (".js", ".mjs")]
    program = program.rename(program.with_suffix(".mjs"))
    assert list((tmp_path / "dist").rglob("*.wasm"))
    _check(_call(tmp_path, "node", str(program)))
