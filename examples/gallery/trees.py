"""Tabular data: boosted trees tell malignant tumours from benign ones.

Network: 60 trees, trained here. Data: scikit-learn's breast cancer (UCI, CC BY 4.0), 569 patients.
Writes the ROC curve of the third that was not trained on.
"""

import argparse
from pathlib import Path

import numpy as np
from plot import write_svg
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.metrics import roc_auc_score, roc_curve
from sklearn.model_selection import train_test_split

import tvmrt

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--out", type=Path, default=Path("trees.svg"))
options = parser.parse_args()

data, labels = load_breast_cancer(return_X_y=True)
data = data.astype(np.float32)
x, x_test, y, y_test = train_test_split(data, labels, test_size=1 / 3, random_state=0)
model = GradientBoostingClassifier(n_estimators=60, random_state=0).fit(x, y)
net = tvmrt.load(model)
answers, probabilities = net(x_test)
false_positives, true_positives, _ = roc_curve(y_test, probabilities[:, 1])
title = "share of benign tumours found, over malignant ones mistaken"
write_svg(options.out, {title: true_positives}, x=false_positives)
np.testing.assert_allclose(probabilities, model.predict_proba(x_test), atol=1e-5)
print(f"AUC {roc_auc_score(y_test, probabilities[:, 1]):.4f} of {len(y_test)} patients")
