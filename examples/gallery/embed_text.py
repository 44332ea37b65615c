"""Embed text: find the sentence that means the same in other words.

Network: WordLlama, MIT, table and tokenizer of the package wordllama: the mean of the tokens'
vectors, scaled to length 1. Writes a picture of all similarities, pairs on the diagonal.
"""

import argparse
from importlib.metadata import distribution
from pathlib import Path

import numpy as np
from onnx import numpy_helper, parser
from PIL import Image
from safetensors.numpy import load_file
from tokenizers import Tokenizer

import tvmrt

TEXT = """I forgot my password. The train to Paris is late. She bakes bread every Sunday. The stock
market fell sharply. My dog has a fever. It will rain tomorrow. He plays the violin. The secret word
of my account is lost. Our railway journey to the French capital is delayed. At weekends my aunt
makes loaves. Share prices dropped. The puppy is ill. Wet weather comes. A musician has strings"""
arguments = argparse.ArgumentParser(description=__doc__)
arguments.add_argument("--out", type=Path, default=Path("embed_text.png"))
options = arguments.parse_args()
package = distribution("wordllama").locate_file("wordllama")
tokenizer = Tokenizer.from_file(f"{package}/tokenizers/l2_supercat_tokenizer_config.json")
table = load_file(f"{package}/weights/l2_supercat_256.safetensors")["embedding.weight"]
model = parser.parse_model("""<ir_version: 8, opset_import: ["": 13]>
    embed (int64[n] tokens) => (float[1, 256] vector) { rows = Gather(table, tokens)
    mean = ReduceMean<axes=[0]>(rows) norm = ReduceL2<axes=[1]>(mean) vector = Div(mean, norm) }""")
model.graph.initializer.append(numpy_helper.from_array(table.astype(np.float32), "table"))
net = tvmrt.load(model, dims={"n": 64})
tokens = [tokenizer.encode(text, add_special_tokens=False).ids for text in TEXT.split(".")]
left, right = np.split(np.concatenate([net(np.array(ids)) for ids in tokens]), 2)
likeness = left @ right.T
pixels = np.clip(likeness * 255, 0, 255).astype(np.uint8)
Image.fromarray(pixels).resize((280, 280), Image.Resampling.NEAREST).save(options.out)
found = np.mean(likeness.argmax(1) == np.arange(len(left)))
print(f"accuracy {found:.3f} of {len(left)} sentences")
