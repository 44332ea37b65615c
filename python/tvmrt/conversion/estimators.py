"""Estimators of scikit-learn, LightGBM and XGBoost, converted by skl2onnx and onnxmltools."""

from __future__ import annotations

import copy
import importlib
import json
import re
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from tvmrt.conversion import COLUMNS, Converted, Settings, columns_of
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
    features = _columns(model)
    shapes, dims = _sizes(settings, features)
    skl2onnx = import_exporter(
        "skl2onnx", f"{what} is converted to ONNX", "'tvmrt[sklearn]'", "give the ONNX network"
    )
    boosters = _boosters_in(model)
    if boosters:
        import_exporter("onnxmltools", f"{what} is converted to ONNX", "onnxmltools", _INSTEAD)
    types = import_exporter("skl2onnx.common.data_types", what, "'tvmrt[sklearn]'", _INSTEAD)
    options: Any = {"zipmap": False} if _has_probabilities(model) else _options_of_scores(model)
    with report_failure("skl2onnx", what, _TYPED):
        if boosters:
            _register(skl2onnx)
        exported = skl2onnx.convert_sklearn(
            model, name=what, initial_types=[("X", types.FloatTensorType([None, features]))],
            options=options, target_opset=_BOOSTER_OPSETS if boosters else _OPSETS,
            custom_conversion_functions=_converters(),
        )  # fmt: skip
    takes_missing = not boosters and record_missing_values(model, exported)
    original = original_of(
        what, "onnxmltools" if boosters else "skl2onnx", exported, list(_parts(model)),
        settings.example, _row_shape(shapes, features),
        of_estimator(model, exported.graph.output, columns_of(model)),
        _OTHER_OPTIONS if boosters else _SKL2ONNX, takes_missing,
    )  # fmt: skip
    _name_rows(exported)
    if names := columns_of(model):
        exported.metadata_props.add(key=COLUMNS, value=json.dumps(names))
    return Converted(exported, shapes, dims, original)


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
    types = import_exporter(
        "onnxmltools.convert.common.data_types", what, "onnxmltools skl2onnx", _INSTEAD
    )
    if library == "lightgbm":
        features, more, predict = model.num_feature(), {"zipmap": False}, model.predict
    else:
        features, more = _columns_of_booster(model), {}
        model, predict = _without_names(model)
    with report_failure("onnxmltools", what, _INSTEAD):
        inputs = [("X", types.FloatTensorType([None, features]))]
        exported = getattr(tools, f"convert_{library}")(model, initial_types=inputs, **more)
    shapes, dims = _sizes(settings, features)
    run = of_booster(predict, len(exported.graph.output))
    shape = _row_shape(shapes, features)
    original = original_of(
        what, "onnxmltools", exported, [], settings.example, shape, run, _OTHER_OPTIONS
    )
    _name_rows(exported)
    return Converted(exported, shapes, dims, original)


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


class _IntegerAttributes:
    """Container of skl2onnx that takes booleans in lists of integers, which protobuf 7 rejects."""

    def __init__(self, container: Any) -> None:
        self._container = container

    def __getattr__(self, name: str) -> Any:
        return getattr(self._container, name)

    def add_node(self, *args: Any, **attributes: Any) -> Any:
        """Add a node to the network; see skl2onnx."""
        fixed = {name: _without_booleans(value) for name, value in attributes.items()}
        return self._container.add_node(*args, **fixed)


def _without_booleans(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    return [int(each) if type(each).__name__ in ("bool", "bool_") else each for each in value]


def _converters() -> dict[type, Any]:
    """Return replacements for converters of skl2onnx that write booleans, by estimator."""
    ensemble = sys.modules.get("sklearn.ensemble")
    if ensemble is None:
        return {}
    registered = importlib.import_module("skl2onnx.common._registration")

    def converter(name: str) -> Any:
        original = registered.get_converter(f"Sklearn{name}")
        return lambda scope, operator, container: original(
            scope, operator, _IntegerAttributes(container)
        )

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


def _sizes(settings: Settings, features: int) -> tuple[Any, Any]:
    """Return shapes, None for any number of rows, and dims. Raise ValueError for a wrong number of
    columns."""
    shape = _shape_of_input(settings.shapes)
    if shape is None or shape == (_ROWS, features):
        return settings.shapes if shape is None else None, settings.dims
    if len(shape) == 2 and isinstance(shape[1], int) and shape[1] != features:
        raise ValueError(
            f"{option('shapes', settings.shapes)}: the model was fitted with {features} columns, "
            f"not {shape[1]}; give {(shape[0], features)}"
        )
    return settings.shapes, settings.dims


def _row_shape(shapes: Any, features: int) -> tuple[int | str, int]:
    """Return the number of rows, or the name of their dimension, and the number of columns."""
    shape = _shape_of_input(shapes)
    rows = shape[0] if shape else _ROWS
    return re.split("[<=]", rows)[0].strip() if isinstance(rows, str) else int(rows), features


def _name_rows(model: Any) -> None:
    """Name the dimension of the rows, which stays open."""
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = _ROWS


def _shape_of_input(shapes: Any) -> tuple[Any, ...] | None:
    """Return the shape that is given for the input X; None if there is none."""
    shape = shapes.get("X") if isinstance(shapes, Mapping) else None
    return tuple(shape) if isinstance(shape, (tuple, list)) else None


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
