"""Text and SVG charts of a memory plan."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

import tvmrt
from tvmrt.compiler.ir.program import RowFusionPlan
from tvmrt.compiler.pictures.memory_picture import FREE, Box, Picture, of_libraries, svg, text

NAMESPACE = "{http://www.w3.org/2000/svg}"
PICTURE = Picture(
    boxes=[Box("a", 0, 512, 0, 1), Box("b <&>", 512, 512, 1, 2), Box("tiny", 0, 1, 2, 2)],
    steps=["conv", "pool", "dense"],
    arena_bytes=1024,
    lower_bound_bytes=1000,
)


DIGITS = Path(__file__).parents[3] / "examples" / "digits"


def _texts(root: ElementTree.Element, what: str) -> list[str]:
    return [text.text for text in root.iter(f"{NAMESPACE}text") if text.get("class") == what]


def _grid(picture: str) -> list[str]:
    return [line.split("|")[1] for line in picture.splitlines() if line.endswith("|")]


def test_text_shows_lifetimes_and_offsets():
    grid = _grid(text(PICTURE, width=6, height=4))
    assert grid == ["AAAACC", "AAAA··", "··BBBB", "··BBBB"]


def test_text_names_bytes_and_bound():
    lines = text(PICTURE).splitlines()
    assert lines[0].startswith("1,024 bytes for 3 tensors over 3 steps; at least 1,000")
    assert "1.024 of it" in lines[0]
    assert any(line.endswith("b <&>") and "512 B at" in line for line in lines)


@pytest.mark.parametrize("steps", [1, 7, 72, 73, 500])
def test_text_stays_within_its_width(steps):
    boxes = [Box(f"t{i}", 10 * (i % 3), 10, i, min(i + 1, steps - 1)) for i in range(steps)]
    grid = _grid(text(Picture(boxes, ["s"] * steps, 30, 20), width=72, height=9))
    assert len(grid) == 9
    assert {len(row) for row in grid} == {72 // steps * steps if steps <= 72 else 72}


def test_shared_bytes_are_counted_once():
    over = [Box("x", 0, 512, 0, 1), Box("y", 256, 512, 1, 1), Box("z", 1000, 24, 1, 2)]
    assert Picture(over, ["a", "b", "c"], 1024, 1000).peak() == (1, 768 + 24)


def test_smaller_plans_are_shown_with_their_cost():
    plans = [
        RowFusionPlan(1000, 0, ()),
        RowFusionPlan(700, 20_000, (("conv", "pool"),), (1,)),
        RowFusionPlan(690, 30_000, (("conv", "pool"),), (1,)),
        RowFusionPlan(300, 3_000_000, (("conv", "dense"),), (3,), 55_000),
    ]
    root = ElementTree.fromstring(svg(replace(PICTURE, plans=[(690, plans)])))
    found = [c for c in root.iter(f"{NAMESPACE}circle") if c.get("class").startswith("plan")]
    across, up = ([float(c.get(k)) for c in found] for k in ("cx", "cy"))
    assert across == sorted(across, reverse=True) and up == sorted(up, reverse=True)
    assert [c.get("class") == "plan twice" for c in found] == [False, False, False, True]
    ring = [c for c in root.iter(f"{NAMESPACE}circle") if c.get("class") == "taken"]
    assert [float(c.get("cx")) for c in ring] == [across[2]]
    assert _texts(root, "plan-label") == ["1,000", "690", "300"], "700 would lie over 690"
    title = found[3].find(f"{NAMESPACE}title").text
    assert title == (
        "300 bytes, about 3,000,000 instructions more, 55,000 multiply-adds twice; "
        "conv to dense in 3 patches"
    )


def test_line_buffers_have_the_colour_of_their_operator():
    options = {"target": "cortex-m4", "interface_api": "c"}
    plans = tvmrt.compile(DIGITS / "digits_f32.onnx", ram=1 << 30, **options).summary.row_plans
    library = tvmrt.compile(DIGITS / "digits_f32.onnx", ram=plans[-1].ram_bytes, **options)
    picture = of_libraries([library])
    kept = [box for box in picture.boxes if box.name.endswith("_chain_scratch")]
    assert kept and all(box.kind in ("convolution", "pooling") for box in kept)
    assert picture.peak()[1] <= picture.arena_bytes == plans[-1].ram_bytes
    assert picture.plans == [(plans[-1].ram_bytes, plans)]


def test_svg_is_xml_with_one_named_box_a_tensor():
    root = ElementTree.fromstring(svg(PICTURE))
    titles = [t.text for t in root.iter(f"{NAMESPACE}title")]
    assert titles[:3] == [
        "a: 512 bytes at 0, steps 0 to 1",
        "b <&>: 512 bytes at 512, steps 1 to 2",
        "tiny: 1 bytes at 0, steps 2 to 2",
    ]


def test_svg_boxes_lie_inside_the_frame():
    root = ElementTree.fromstring(svg(PICTURE, width=400, height=300))
    for box in root.iter(f"{NAMESPACE}rect"):
        right = float(box.get("x", 0)) + float(box.get("width"))
        bottom = float(box.get("y", 0)) + float(box.get("height"))
        assert right <= 400.05
        assert bottom <= 300.05


def test_svg_shows_kinds_peak_and_distinct_names():
    boxes = [
        Box("MobilenetV1/block_1/expand", 0, 600, 0, 1, "convolution"),
        Box("MobilenetV1/block_1/project", 600, 300, 1, 2, "pooling"),
        Box("MobilenetV1/tail", 900, 50, 2, 2),
    ]
    picture = Picture(boxes, ["a", "b", "c"], 950, 900)
    assert picture.peak() == (1, 900)
    root = ElementTree.fromstring(svg(picture))
    assert _texts(root, "legend") == ["convolution", "pooling", "other"]
    (peak,) = (p for p in root.iter(f"{NAMESPACE}path") if p.get("class") == "peak")
    assert peak[0].text == "most is held at step 1, b: 900 bytes"
    shown = [text.text for text in root.iter(f"{NAMESPACE}text")]
    assert {"block_1/expand", "block_1/project", "tail"} <= set(shown)
    assert "rotate(90)" in svg(picture, width=160)  # vertical in narrow boxes


def test_network_without_intermediate_tensors_has_a_picture():
    empty = Picture([], [], 0, 0)
    assert set("".join(_grid(text(empty)))) == {FREE}
    ElementTree.fromstring(svg(empty))


@pytest.mark.parametrize("count", [1, 2])
def test_pools_lie_one_above_the_other_and_networks_side_by_side(count):
    options = {"target": "cortex-m4", "interface_api": "c", "unpacked_api": True}
    networks = {"a": DIGITS / "digits_f32.onnx", "b": DIGITS / "digits_int8.onnx"}
    chosen = dict(list(networks.items())[:count])
    pools = {"dtcm": 700, "sram": 65536}
    image = tvmrt.compile_together(chosen, pools=pools, workspace_io=True, **options)
    libraries = list(image.libraries.values())
    picture = of_libraries(libraries)
    assert picture.arena_bytes == image.arena_bytes
    assert len(picture.boxes) == sum(len(library.summary.plan) for library in libraries)
    assert picture.count_steps() == sum(len(library.program.steps) for library in libraries)
    first_of_sram = next(pool.used_bytes for pool in image.pools if pool.name == "dtcm")
    for box in picture.boxes:
        assert box.name.endswith(" in sram" if box.offset >= first_of_sram else " in dtcm")
        assert 0 <= box.first <= box.last < picture.count_steps()
    root = ElementTree.fromstring(svg(picture))
    assert _texts(root, "pool") == ["dtcm", "sram"]
    assert _texts(root, "network") == (["a", "b"] if count == 2 else [])
    assert f"{picture.weights_bytes:,} bytes of weights" in "".join(root.itertext())
