"""Classify images: handwritten digits of 8 x 8 pixels.

Network: ``examples/digits/digits_int8.onnx`` of this repository, Apache-2.0. Images: the test part
of scikit-learn's digits (UCI, CC BY 4.0). Writes a picture of the first 40 with the answers.
"""

import argparse
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

import tvmrt

DIGITS = Path(__file__).parents[1] / "digits"
parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--model", default=DIGITS / "digits_int8.onnx")
parser.add_argument("--out", type=Path, default=Path("classify.png"))
options = parser.parse_args()

net = tvmrt.load(options.model)
with np.load(DIGITS / "digits_test.npz") as data:
    images, labels = data["images"], data["labels"]
answers = np.array([net(image[None, None] / np.float32(16)).argmax() for image in images])

picture = Image.new("RGB", (10 * 64, 4 * 64), "white")
draw = ImageDraw.Draw(picture)
for index in range(40):
    place = index % 10 * 64, index // 10 * 64
    pixels = (255 - images[index] * 15.9).astype(np.uint8)
    picture.paste(Image.fromarray(pixels).resize((48, 48), Image.Resampling.NEAREST), place)
    colour = "green" if answers[index] == labels[index] else "red"
    draw.text((place[0] + 52, place[1] + 2), str(answers[index]), fill=colour)
picture.save(options.out)
print(f"accuracy {np.mean(answers == labels):.3f} of {len(labels)} images")
