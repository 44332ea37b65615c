"""Fitted estimators of scikit-learn, LightGBM and XGBoost with their predictions."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn import (
    calibration,
    cluster,
    datasets,
    decomposition,
    discriminant_analysis,
    ensemble,
    feature_selection,
    impute,
    linear_model,
    multiclass,
    naive_bayes,
    neighbors,
    neural_network,
    preprocessing,
    svm,
    tree,
)
from sklearn.pipeline import make_pipeline

# Their networks subtract large float32 values; onnxruntime has the same error.
LOOSE = {"power": 1e-4, "k-means": 2e-4}

OPSETS = {"": 18, "ai.onnx.ml": 3}
ROWS = 23


@dataclass
class Fitted:
    """A fitted estimator as a network, its inputs, and the expected outputs: (output, array).

    ``tolerance``: relative; absolutely a fifth of it.
    """

    model: Any
    x: np.ndarray
    wanted: list[tuple[int, np.ndarray]]
    tolerance: float = 1e-5


def iris() -> tuple[np.ndarray, np.ndarray]:
    x, y = datasets.load_iris(return_X_y=True)
    return x.astype(np.float32), y


def cancer() -> tuple[np.ndarray, np.ndarray]:
    x, y = datasets.load_breast_cancer(return_X_y=True)
    return x[:, :8].astype(np.float32), y


def diabetes() -> tuple[np.ndarray, np.ndarray]:
    x, y = datasets.load_diabetes(return_X_y=True)
    return (10 * x).astype(np.float32), (y / 100).astype(np.float32)


def gaps() -> tuple[np.ndarray, np.ndarray]:
    x, y = iris()
    x[np.random.default_rng(0).random(x.shape) < 0.1] = np.nan
    return x, y


def _classifiers() -> dict[str, tuple[Any, Callable]]:
    linear, vote = linear_model, linear_model.LogisticRegression(max_iter=400)
    small = {"n_estimators": 7, "max_depth": 4, "random_state": 0}
    return {
        "logistic": (linear.LogisticRegression(max_iter=400), iris),
        "logistic-2": (linear.LogisticRegression(max_iter=3000), cancer),
        "sgd": (
            make_pipeline(
                preprocessing.StandardScaler(),
                linear.SGDClassifier(loss="log_loss", random_state=0),
            ),
            iris,
        ),
        "lda": (discriminant_analysis.LinearDiscriminantAnalysis(), iris),
        "qda": (discriminant_analysis.QuadraticDiscriminantAnalysis(), iris),
        "bayes": (naive_bayes.GaussianNB(), iris),
        "multinomial": (naive_bayes.MultinomialNB(), iris),
        "bernoulli": (naive_bayes.BernoulliNB(binarize=2.0), iris),
        "svc": (svm.SVC(probability=True, random_state=0), iris),
        "svc-2": (
            make_pipeline(
                preprocessing.StandardScaler(),
                svm.SVC(probability=True, random_state=0, kernel="linear"),
            ),
            cancer,
        ),
        "nu-svc": (svm.NuSVC(probability=True, random_state=0, kernel="poly"), iris),
        "tree": (tree.DecisionTreeClassifier(max_depth=5, random_state=0), iris),
        "forest": (ensemble.RandomForestClassifier(**small), iris),
        "forest-2": (ensemble.RandomForestClassifier(**small), cancer),
        "extra-trees": (ensemble.ExtraTreesClassifier(**small), iris),
        "boosted": (ensemble.GradientBoostingClassifier(**small), iris),
        "boosted-2": (ensemble.GradientBoostingClassifier(**small), cancer),
        "ada": (ensemble.AdaBoostClassifier(n_estimators=4, random_state=0), iris),
        "bagging": (ensemble.BaggingClassifier(n_estimators=3, random_state=0), iris),
        "stack": (
            ensemble.StackingClassifier(
                [("a", vote), ("b", tree.DecisionTreeClassifier(max_depth=2))]
            ),
            iris,
        ),
        "neighbours": (neighbors.KNeighborsClassifier(3), iris),
        "perceptron": (neural_network.MLPClassifier((8,), max_iter=50, random_state=0), iris),
        "calibrated": (calibration.CalibratedClassifierCV(vote), iris),
        "one-vs-rest": (multiclass.OneVsRestClassifier(vote), iris),
        "pipeline": (
            make_pipeline(
                impute.SimpleImputer(),
                preprocessing.StandardScaler(),
                decomposition.PCA(2),
                linear_model.LogisticRegression(),
            ),
            gaps,
        ),
        "pipeline-svc": (
            make_pipeline(preprocessing.MinMaxScaler(), svm.SVC(probability=True, random_state=0)),
            iris,
        ),
        "pipeline-select": (
            make_pipeline(
                feature_selection.SelectKBest(k=2), ensemble.RandomForestClassifier(**small)
            ),
            iris,
        ),
    }


def _regressors() -> dict[str, tuple[Any, Callable]]:
    small = {"n_estimators": 7, "max_depth": 4, "random_state": 0}
    return {
        "least-squares": (linear_model.LinearRegression(), diabetes),
        "ridge": (linear_model.Ridge(), diabetes),
        "lasso": (linear_model.Lasso(alpha=0.01), diabetes),
        "bayesian-ridge": (linear_model.BayesianRidge(), diabetes),
        "poisson": (linear_model.PoissonRegressor(), diabetes),
        "svr": (svm.SVR(), diabetes),
        "nu-svr": (svm.NuSVR(kernel="sigmoid", gamma=0.01), diabetes),
        "linear-svr": (svm.LinearSVR(random_state=0), diabetes),
        "regression-tree": (tree.DecisionTreeRegressor(max_depth=6, random_state=0), diabetes),
        "regression-forest": (ensemble.RandomForestRegressor(**small), diabetes),
        "regression-boosted": (ensemble.GradientBoostingRegressor(**small), diabetes),
        "regression-bagging": (ensemble.BaggingRegressor(n_estimators=3, random_state=0), diabetes),
        "regression-neighbours": (neighbors.KNeighborsRegressor(3), diabetes),
    }


def _transformers() -> dict[str, tuple[Any, Callable]]:
    return {
        "standard": (preprocessing.StandardScaler(), iris),
        "min-max": (preprocessing.MinMaxScaler(), iris),
        "max-abs": (preprocessing.MaxAbsScaler(), iris),
        "robust": (preprocessing.RobustScaler(), iris),
        "norm-l1": (preprocessing.Normalizer("l1"), iris),
        "norm-l2": (preprocessing.Normalizer("l2"), iris),
        "norm-max": (preprocessing.Normalizer("max"), iris),
        "binarized": (preprocessing.Binarizer(threshold=2.0), iris),
        "polynomial": (preprocessing.PolynomialFeatures(2), iris),
        "power": (preprocessing.PowerTransformer(), iris),
        "imputed": (impute.SimpleImputer(strategy="median"), gaps),
        "components": (decomposition.PCA(2), iris),
        "k-means": (cluster.KMeans(3, n_init=1, random_state=0), iris),
    }


def _fit(name: str, estimator: Any, data: Callable) -> Fitted:
    from skl2onnx import to_onnx

    x, y = data()
    estimator.fit(x, y)
    options = {id(estimator): {"zipmap": False}} if hasattr(estimator, "predict_proba") else None
    model = to_onnx(estimator, x[:1], target_opset=OPSETS, options=options)
    x = np.ascontiguousarray(x[:: len(x) // ROWS][:ROWS])
    if hasattr(estimator, "predict_proba"):
        wanted = [(0, estimator.predict(x)), (1, estimator.predict_proba(x))]
    elif hasattr(estimator, "predict") and not hasattr(estimator, "transform"):
        wanted = [(0, estimator.predict(x).reshape(len(x), -1))]
    elif hasattr(estimator, "predict"):
        wanted = [(0, estimator.predict(x)), (1, estimator.transform(x))]
    else:
        wanted = [(0, estimator.transform(x))]
    return Fitted(model, x, wanted, LOOSE.get(name, 1e-5))


def scikit_learn() -> Iterator[tuple[str, Fitted]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for group in (_classifiers(), _regressors(), _transformers()):
            for name, (estimator, data) in group.items():
                yield name, _fit(name, estimator, data)


NAMES = [*_classifiers(), *_regressors(), *_transformers()]


def _boosters() -> dict[str, tuple[str, Callable]]:
    """Return boosters by class name; the class is looked up in the installed library."""
    return {
        "LGBMClassifier": ("lightgbm", gaps),
        "LGBMClassifier-2": ("lightgbm", cancer),
        "LGBMRegressor": ("lightgbm", diabetes),
        "XGBClassifier": ("xgboost", gaps),
        "XGBClassifier-2": ("xgboost", cancer),
        "XGBRegressor": ("xgboost", diabetes),
        "XGBRFRegressor": ("xgboost", diabetes),
    }


def booster(name: str, library: Any, converters: Any) -> Fitted:
    """Convert a boosted ensemble of ``library`` (lightgbm or xgboost) with onnxmltools."""
    from onnxmltools.convert.common.data_types import FloatTensorType

    module, data = _boosters()[name]
    x, y = data()
    more = {"verbose": -1} if module == "lightgbm" else {}
    estimator = getattr(library, name.partition("-")[0])(
        n_estimators=6, max_depth=4, random_state=0, **more
    ).fit(x, y)
    types = [("x", FloatTensorType([None, x.shape[1]]))]
    convert = getattr(converters, f"convert_{module}")
    more = {"zipmap": False} if name.startswith("LGBMC") else {}
    model = convert(estimator, initial_types=types, target_opset=15, **more)
    x = np.ascontiguousarray(x[:: len(x) // ROWS][:ROWS])
    x[0, :2] = np.nan
    if hasattr(estimator, "predict_proba"):
        return Fitted(model, x, [(0, estimator.predict(x)), (1, estimator.predict_proba(x))])
    return Fitted(model, x, [(0, estimator.predict(x).reshape(-1, 1))])


BOOSTERS = {name: module for name, (module, _) in _boosters().items()}
