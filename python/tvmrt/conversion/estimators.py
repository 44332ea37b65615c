"""Estimators of scikit-learn, LightGBM and XGBoost, converted by skl2onnx and onnxmltools."""

from __future__ import annotations

import copy
import importlib
import json
import re
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tvmrt.conversion import COLUMNS, Converted, Settings
from tvmrt.conversion.categories import Categories
from tvmrt.conversion.exporter import import_exporter, report_failure
from tvmrt.conversion.missing_values import record_missing_values
from tvmrt.conversion.predictions import of_booster, of_estimator, original_of
from tvmrt.option_syntax import option

_INSTEAD = "convert it to ONNX yourself and give that file"
# Some converters of skl2onnx fail with later versions of ai.onnx.ml, others with opsets before 18.
_OPSETS = {"": 18, "ai.onnx.ml": 3}
_BOOSTER_OPSETS = {"": 17, "ai.onnx.ml": 3}  # the latest that the converters of onnxmltools support
_SKL2ONNX = "convert it with skl2onnx.to_onnx() and give that network"
_TYPED = (
    "if its input is not a table of float32, give the network of skl2onnx.to_onnx(model, sample)"
)
_OTHER_OPTIONS = (
    "train it with another objective or boosting, or convert it in another way and give the ONNX "
    "file"
)
_ROWS = "batch"  # name of the dimension of the rows
_BOOSTERS = ("lightgbm", "xgboost")


def convert_estimator(model: Any, settings: Settings) -> Converted:
    """Convert a trained estimator or pipeline, with a dynamic batch."""
    what = f"a {type(model).__name__}"
    if type(model).__module__.startswith("catboost."):
        raise ValueError(
            f'{what} is of CatBoost; write it with save_model("net.onnx", format="onnx") and give '
            "that file, which CatBoost can do without columns of categories"
        )
    features = _columns(model)
    if any(np.any(getattr(each, "is_categorical_", None)) for each in _parts(model)):
        raise ValueError(
            f"{what} has trees with columns of categories, which skl2onnx does not export; encode "
            "the categories with OneHotEncoder"
        )
    shapes, shape = _sizes(settings, features)
    categories = Categories(model, getattr(model, "feature_names_in_", None), features)
    skl2onnx = import_exporter(
        "skl2onnx", f"{what} is converted to ONNX", "'tvmrt[sklearn]'", "give the ONNX network"
    )
    boosters = _boosters_in(model)
    if boosters:
        import_exporter("onnxmltools", f"{what} is converted to ONNX", "onnxmltools", _INSTEAD)
    types = import_exporter("skl2onnx.common.data_types", what, "'tvmrt[sklearn]'", _INSTEAD)
    zipmap: Any = {"zipmap": False}
    options = zipmap if _has_probabilities(model) else _options_of_scores(categories.model)
    with report_failure("skl2onnx", what, _TYPED):
        if boosters:
            _register(skl2onnx)
        exported = skl2onnx.convert_sklearn(
            categories.model, name=what,
            initial_types=[("X", types.FloatTensorType([None, features]))],
            options=options, target_opset=_BOOSTER_OPSETS if boosters else _OPSETS,
            custom_conversion_functions=_converters(),
        )  # fmt: skip
    takes_missing = not boosters and record_missing_values(model, exported)
    original = original_of(
        what, "onnxmltools" if boosters else "skl2onnx", exported, categories, list(_parts(model)),
        settings.example, shape, of_estimator(model, exported.graph.output, categories),
        _OTHER_OPTIONS if boosters else _SKL2ONNX, takes_missing,
    )  # fmt: skip
    _describe_input(exported, categories)
    return Converted(exported, shapes, settings.dims, original)


def _options_of_scores(model: Any) -> dict[int, dict[str, bool]] | None:
    """Return options of skl2onnx that give the scores of two classes the sign of
    scikit-learn's ``decision_function``; None if there are no such classifiers."""
    vectors = [part for part in _parts(model) if type(part).__name__ in ("SVC", "NuSVC")]
    return {id(part): {"raw_scores": True, "zipmap": False} for part in vectors} or None


def convert_booster(model: Any, settings: Settings) -> Converted:
    """Convert a Booster of LightGBM or XGBoost, with a dynamic batch."""
    library = type(model).__module__.partition(".")[0]
    what = f"a {type(model).__name__} of {library}"
    tools = import_exporter(
        "onnxmltools", f"{what} is converted to ONNX", "onnxmltools skl2onnx", _INSTEAD
    )
    types = importlib.import_module("onnxmltools.convert.common.data_types")
    if library == "lightgbm":
        features, names, more = model.num_feature(), model.feature_name(), {"zipmap": False}
    else:
        features, names, more = _columns_of_booster(model), model.feature_names, {}
    categories = Categories(model, names, features)
    predict = model.predict
    if library == "xgboost":
        model, predict = _without_names(model)
    with report_failure("onnxmltools", what, _INSTEAD):
        inputs = [("X", types.FloatTensorType([None, features]))]
        exported = getattr(tools, f"convert_{library}")(model, initial_types=inputs, **more)
    run = of_booster(predict, len(exported.graph.output))
    shapes, shape = _sizes(settings, features)
    original = original_of(
        what, "onnxmltools", exported, categories, [], settings.example, shape, run, _OTHER_OPTIONS
    )
    _describe_input(exported, categories)
    return Converted(exported, shapes, settings.dims, original)


def _columns(model: Any) -> int:
    """Return the number of columns that a fitted estimator takes. Raise ValueError for an
    estimator that is not fitted, or that states no number of columns."""
    name = type(model).__name__
    columns = getattr(model, "n_features_in_", None)
    if columns is not None:
        return int(columns)
    if not _is_fitted(model):
        raise ValueError(f"this {name} is not fitted; call fit() first")
    raise ValueError(
        f"this {name} has no n_features_in_, so the shape of its input is unknown; call fit() with "
        f"an array of numbers, or {_SKL2ONNX}"
    )


def _columns_of_booster(model: Any) -> int:
    """Return the number of columns of a Booster of XGBoost. Raise ValueError if it has no trees."""
    try:
        columns, rounds = int(model.num_features()), int(model.num_boosted_rounds())
    except Exception:  # the library's own error, for a Booster that has seen no data
        columns, rounds = 0, 0
    if not columns or not rounds:
        raise ValueError("this Booster is not trained; make it with xgboost.train()")
    return columns


def _without_names(model: Any) -> tuple[Any, Any]:
    """Return a Booster of XGBoost without names of columns, which its converter does not read, and
    its function of rows."""
    import xgboost

    types = model.feature_types
    model = model.copy()
    model.feature_names = None
    # this objective predicts labels; the network also has the scores
    has_labels = '"multi:softmax"' in model.save_config()

    def predict(rows: Any) -> Any:
        table = xgboost.DMatrix(rows, feature_types=types, enable_categorical=True)
        return model.predict(table, output_margin=has_labels)

    return model, predict


def _has_probabilities(model: Any) -> bool:
    """Return whether an estimator is a classifier that predicts probabilities."""
    if not hasattr(model, "predict_proba"):  # mixtures have it, too, and are not classifiers
        return False
    return bool(importlib.import_module("sklearn.base").is_classifier(model))


def _without_booleans(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    return [int(each) if type(each).__name__ in ("bool", "bool_") else each for each in value]


def _converters() -> dict[type, Any]:
    """Return replacements for converters of skl2onnx, by estimator: those that write booleans in
    lists of integers, which protobuf 7 rejects."""
    ensemble = sys.modules.get("sklearn.ensemble")
    if ensemble is None:
        return {}
    registered = importlib.import_module("skl2onnx.common._registration")

    def converter(name: str) -> Any:
        original = registered.get_converter(f"Sklearn{name}")

        def convert(scope: Any, operator: Any, container: Any) -> None:
            add = container.add_node
            container.add_node = lambda *names, **attributes: add(
                *names, **{key: _without_booleans(value) for key, value in attributes.items()}
            )
            original(scope, operator, container)
            del container.add_node

        return convert

    names = ("HistGradientBoostingClassifier", "HistGradientBoostingRegressor")
    return {getattr(ensemble, name): converter(name) for name in names}


def _is_fitted(model: Any) -> bool:
    """Return whether an estimator is fitted, by scikit-learn's own test."""
    try:
        validation = importlib.import_module("sklearn.utils.validation")
        validation.check_is_fitted(model)
    except Exception:  # its exception for this, and those of estimators with tests of their own
        return False
    return True


def _sizes(settings: Settings, features: int) -> tuple[Any, tuple[int | str, int]]:
    """Return shapes, None for any number of rows, and the shape of the input, with the name of an
    open dimension. Raise ValueError for a wrong number of columns."""
    given = settings.shapes.get("X") if isinstance(settings.shapes, Mapping) else None
    shape = tuple(given) if isinstance(given, (tuple, list)) and given else (_ROWS, features)
    if len(shape) == 2 and isinstance(shape[1], int) and shape[1] != features:
        raise ValueError(
            f"{option('shapes', settings.shapes)}: the model was fitted with {features} columns, "
            f"not {shape[1]}; give {(shape[0], features)}"
        )
    rows = re.split("[<=]", shape[0])[0].strip() if isinstance(shape[0], str) else int(shape[0])
    any_rows = given is not None and shape == (_ROWS, features)
    return None if any_rows else settings.shapes, (rows, features)


def _describe_input(model: Any, categories: Categories) -> None:
    """Name the dimension of the rows, which stays open, and the columns."""
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = _ROWS
    if entries := [each.entry() for each in categories.columns]:
        model.metadata_props.add(key=COLUMNS, value=json.dumps(entries))


def _boosters_in(model: Any) -> list[Any]:
    """Return the estimators of LightGBM and XGBoost in an estimator, a pipeline among them."""
    return [e for e in _parts(model) if type(e).__module__.partition(".")[0] in _BOOSTERS]


def _parts(model: Any, depth: int = 8) -> Iterator[Any]:
    """Yield an estimator and the estimators that it contains."""
    if isinstance(model, (list, tuple)):
        for each in model if depth else ():
            yield from _parts(each, depth - 1)
    elif hasattr(model, "get_params"):
        yield model
        for each in model.get_params(deep=False).values() if depth else ():
            yield from _parts(each, depth - 1)


def _register(skl2onnx: Any) -> None:
    """Let skl2onnx convert the estimators of the libraries that are loaded."""
    from skl2onnx.common import shape_calculator

    classifier = shape_calculator.calculate_linear_classifier_output_shapes
    regressor = shape_calculator.calculate_linear_regressor_output_shapes
    choices = {"nocl": [True, False], "zipmap": [True, False, "columns"]}
    package = "onnxmltools.convert"
    for library, name, alias, shapes, options in (
        ("lightgbm", "LGBMClassifier", "LightGbm", classifier, choices),
        ("lightgbm", "LGBMRegressor", "LightGbm", regressor, {"split": None}),
        ("xgboost", "XGBClassifier", "XGBoost", classifier, choices),
        ("xgboost", "XGBRegressor", "XGBoost", regressor, None),
    ):
        if library not in sys.modules:
            continue
        module = importlib.import_module(f"{package}.{library}.operator_converters.{alias}")
        convert = getattr(module, f"convert_{library}")
        skl2onnx.update_registered_converter(
            getattr(sys.modules[library], name), f"{alias}{name}", shapes,
            _ignoring_names(convert) if library == "xgboost" else convert,
            options=options, overwrite=True,
        )  # fmt: skip


def _ignoring_names(convert: Any) -> Any:
    """Return a converter of estimators of XGBoost that were fitted with named columns."""

    def converter(scope: Any, operator: Any, container: Any) -> None:
        model = operator.raw_operator
        nameless = copy.copy(model)
        nameless._Booster, _ = _without_names(model.get_booster())
        operator.raw_operator = nameless
        try:
            convert(scope, operator, container)
        finally:
            operator.raw_operator = model

    return converter
