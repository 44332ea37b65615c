"""Segment: separate a person from the background.

Network: MediaPipe's selfie segmentation, Apache-2.0, a file of the package mediapipe. Its last
operator is a custom one, declared here. Photograph: NASA, in scikit-image, public domain.
"""

import argparse
from importlib.metadata import distribution
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

import tvmrt
from tvmrt.custom import GraphBuilder, Value, composed


@composed("Convolution2DTransposeBias", domain="tflite")
def upsample(g: GraphBuilder, x: Value, w: Value, b: Value) -> Value:
    planes, weights = g.Transpose(x, perm=[0, 3, 1, 2]), g.Transpose(w, perm=[3, 0, 1, 2])
    return g.Transpose(g.ConvTranspose(planes, weights, b, strides=[2, 2]), perm=[0, 2, 3, 1])


NETWORK = "mediapipe/modules/selfie_segmentation/selfie_segmentation.tflite"
OUTLINE = """102 9 125 10 145 22 151 42 145 62 134 70 131 86 147 100 152 120 170 132 179 155
    181 172 200 171 225 185 245 215 247 255 15 255 11 210 14 165 22 135 37 117 56 102 59 90
    72 76 91 75 89 65 79 56 76 37 85 19"""  # of the person, x and y in pixels, measured by hand
parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--model", default=distribution("mediapipe").locate_file(NETWORK))
parser.add_argument("--out", type=Path, default=Path("segment.png"))
options = parser.parse_args()
astronaut = distribution("scikit-image").locate_file("skimage/data/astronaut.png")
photograph = Image.open(str(astronaut)).convert("RGB").resize((256, 256))
net = tvmrt.load(str(options.model), operators=[upsample])
mask = net(np.asarray(photograph, np.float32)[None] / 255)[0, :, :, 0] > 0.5
person = Image.new("1", mask.shape)
ImageDraw.Draw(person).polygon([int(number) for number in OUTLINE.split()], fill=1)
photograph.paste("white", mask=Image.fromarray(~mask))
photograph.save(options.out)
print(f"overlap {(mask & person).sum() / (mask | person).sum():.3f} with the person")
