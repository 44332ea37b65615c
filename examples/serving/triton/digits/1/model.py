"""A network in Triton's Python backend; ``config.pbtxt`` names its file as a parameter.

Triton gathers requests to batches and runs ``execute`` in processes of its own, one an instance.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils

import tvmrt


class TritonPythonModel:
    """What Triton makes of this file."""

    def initialize(self, args: dict[str, str]) -> None:
        """Load the network with an open batch, so that one call runs all rows that Triton gathers.

        A library from 'tvmrt compile' needs no compiler on the server; its batch was chosen then.
        """
        config = json.loads(args["model_config"])
        path = config["parameters"]["network"]["string_value"]
        given, (result,) = config["input"], config["output"]
        batch = f"batch<={config['max_batch_size']}"
        shapes: dict[str, Any] = {each["name"]: (batch, *map(int, each["dims"])) for each in given}
        compiled = path.endswith((".so", ".tar"))
        self.net = tvmrt.load(path) if compiled else tvmrt.load(path, shapes=shapes)
        self.input, self.output = given[0]["name"], result["name"]

    def execute(self, requests: list[Any]) -> list[Any]:
        """Run the rows of all requests in one call, and give each request its own."""
        given = [
            pb_utils.get_input_tensor_by_name(request, self.input).as_numpy()
            for request in requests
        ]
        results = self.net(np.concatenate(given))
        ends = np.cumsum([len(rows) for rows in given])[:-1]
        return [
            pb_utils.InferenceResponse([pb_utils.Tensor(self.output, rows)])
            for rows in np.split(results, ends)
        ]
