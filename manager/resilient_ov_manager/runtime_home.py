"""Where DeerFlow keeps its state, for callers that DeerFlow did not hand the folder to.

Reads the environment and the current folder; touches no file.
"""

import os
from collections.abc import Mapping
from pathlib import Path


def runtime_home(environ: Mapping[str, str] = os.environ) -> Path:
    """DeerFlow's rule: `$DEER_FLOW_HOME`, else `.deer-flow` in the project or current folder."""
    if home := environ.get("DEER_FLOW_HOME"):
        return Path(home).resolve()
    project = environ.get("DEER_FLOW_PROJECT_ROOT") or Path.cwd()
    return Path(project).resolve() / ".deer-flow"


def storage_folder(value: str | Path | None, environ: Mapping[str, str] = os.environ) -> Path:
    """Absolute folder for a `storage_path`: empty = DeerFlow's home, relative = below it."""
    if value is None or not str(value):
        return runtime_home(environ)
    path = Path(value)
    return path if path.is_absolute() else (runtime_home(environ) / path).resolve()
