"""Detect: find the face in a photograph.

Network: BlazeFace (short range), Apache-2.0, a file of the package mediapipe. Photograph: the
astronaut of scikit-image, NASA, public domain. Writes the photograph with the box.
"""

import argparse
from importlib.metadata import distribution
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

import tvmrt

NETWORK = "mediapipe/modules/face_detection/face_detection_short_range.tflite"
FACE = np.array([182, 75, 267, 178])  # hairline to chin, measured by hand: left, top, right, bottom
parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--model", default=distribution("mediapipe").locate_file(NETWORK))
parser.add_argument("--out", type=Path, default=Path("detect.png"))
options = parser.parse_args()

net = tvmrt.load(str(options.model))
astronaut = distribution("scikit-image").locate_file("skimage/data/astronaut.png")
photograph = Image.open(str(astronaut)).convert("RGB")
boxes, scores = net(np.asarray(photograph.resize((128, 128)), np.float32)[None] / 127.5 - 1)
centres = [(np.indices((n, n)).reshape(2, -1).T[:, ::-1] + 0.5) / n for n in (16, 8)]
anchors = np.concatenate([centre.repeat(k, 0) for centre, k in zip(centres, (2, 6))])
best = scores.argmax()
middle, size = anchors[best] + boxes[0, best, :2] / 128, boxes[0, best, 2:4] / 128
box = np.concatenate([middle - size / 2, middle + size / 2]) * photograph.width
ImageDraw.Draw(photograph).rectangle(box.tolist(), outline="lime", width=4)
photograph.resize((256, 256)).save(options.out)
inner = np.maximum(np.minimum(box[2:], FACE[2:]) - np.maximum(box[:2], FACE[:2]), 0).prod()
union = np.prod(box[2:] - box[:2]) + np.prod(FACE[2:] - FACE[:2]) - inner
print(f"overlap {inner / union:.3f} with the face, measured by hand")
