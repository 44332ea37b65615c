"""A random forest that classifies iris flowers: trained, exported, with one example input.

    python examples/forest/forest.py FOLDER

writes FOLDER/iris.onnx, for one flower at a time, and FOLDER/iris.npz with a flower of each kind as
input X, and what scikit-learn says of the first as out:label and out:probabilities.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from skl2onnx import to_onnx
from skl2onnx.common.data_types import FloatTensorType
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier


def main(folder: Path) -> None:
    x, y = load_iris(return_X_y=True)
    x = x.astype(np.float32)
    forest = RandomForestClassifier(20, max_depth=4, random_state=0).fit(x, y)
    types: Any = [("X", FloatTensorType([1, 4]))]
    model: Any = to_onnx(
        forest,
        initial_types=types,
        options={"zipmap": False},  # probabilities as one array
    )
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "iris.onnx").write_bytes(model.SerializeToString())
    flower = x[70:71]
    np.savez(
        folder / "iris.npz",
        **{"X": flower, "out:label": forest.predict(flower)},
        **{"out:probabilities": forest.predict_proba(flower).astype(np.float32)},
    )
    nodes = sum(tree.tree_.node_count for tree in forest.estimators_)
    print(f"{len(forest.estimators_)} trees with {nodes} nodes, {forest.score(x, y):.1%} right")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
