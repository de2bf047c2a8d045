"""Reads `--config FILE`: DeerFlow's `config.yaml`, or a file that is a bare `backend_config`.

Does what the host does on the way: `$VAR` values, the default of `storage_path`. Errors name the
file and the place, never a value.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import yaml

from resilient_ov.adapters.credentials import looks_like_variable
from resilient_ov.settings import knob_fields
from resilient_ov_manager.runtime_home import storage_folder


def load_config_file(
    path: str | Path, *, environ: Mapping[str, str] = os.environ
) -> dict[str, Any]:
    """Return the raw `backend_config` as DeerFlow would hand it over.

    A file with a `memory` section is DeerFlow's; otherwise the whole file is the section.
    `storage_path` is made absolute and is always there.

    Raises:
        ValueError: unreadable, not YAML, not a configuration of memory, or a `$VAR` is not set.

    """
    try:
        return _backend_config(_content(Path(path)), environ)
    except ValueError as error:
        raise ValueError(f"config file {path}: {error}") from None


def expand_environment(
    value: object, environ: Mapping[str, str] = os.environ, *, place: str = "value"
) -> Any:
    """Replace every text that begins with `$` by that variable, as the host does, at any depth.

    Only whole texts count; `a$B` stays. The input is not changed. `place` names the value in
    the error; keys are appended to it.

    Raises:
        ValueError: a variable is not set; tells the place of the first one.

    """
    if isinstance(value, str):
        return _expanded(value, environ, place) if value.startswith("$") else value
    if isinstance(value, Mapping):
        pairs = cast("Mapping[object, object]", value).items()
        return {
            key: expand_environment(item, environ, place=f"{place}.{key}") for key, item in pairs
        }
    if isinstance(value, list):
        items = cast("list[object]", value)
        return [expand_environment(item, environ, place=place) for item in items]
    return value


def _expanded(text: str, environ: Mapping[str, str], place: str) -> str:
    name = text[1:]
    if name not in environ:
        # A text that begins with $ by chance may be a secret.
        shown = name if looks_like_variable(name) else "(name not shown)"
        raise ValueError(
            f"{place}: environment variable {shown} is not set. Export it for this command too:"
            " DeerFlow also reads its .env file, which this command does not"
        )
    return environ[name]


def _content(path: Path) -> object:
    problem = None
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        problem = f"cannot be read ({error.strerror or type(error).__name__})"
    except UnicodeDecodeError:
        problem = "is not UTF-8 text"
    except yaml.YAMLError as error:
        # The text of the error quotes the file, which may hold a secret.
        mark = getattr(error, "problem_mark", None)
        place = "" if mark is None else f" (line {mark.line + 1}, column {mark.column + 1})"
        problem = f"is not valid YAML{place}"
    raise ValueError(problem)


def _backend_config(content: object, environ: Mapping[str, str]) -> dict[str, Any]:
    section = _section(content)
    expanded: dict[str, Any] = expand_environment(section, environ, place="backend_config")
    folder = expanded.get("storage_path")
    if folder is None or isinstance(folder, str):
        expanded["storage_path"] = str(storage_folder(folder, environ))
    return expanded


def _section(content: object) -> Mapping[object, object]:
    if not isinstance(content, Mapping):
        raise ValueError("holds no mapping of keys")  # noqa: TRY004  # about a file, not a type
    top = cast("Mapping[object, object]", content)
    if "memory" in top:
        memory = top["memory"]
        section: object = None
        if isinstance(memory, Mapping):
            section = cast("Mapping[object, object]", memory).get("backend_config")
        if not isinstance(section, Mapping):
            raise ValueError("memory.backend_config is missing. Set at least its base_url")
        return cast("Mapping[object, object]", section)
    ours = {found.key.partition(".")[0] for found in knob_fields()}
    if ours.isdisjoint(top):
        raise ValueError("has neither memory.backend_config nor a key of a bare backend_config")
    return top
