"""The libraries that the tests of the Python layer load."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from library_fixtures import aot_library, graph_library, toolbox, toolbox_path  # noqa: F401
