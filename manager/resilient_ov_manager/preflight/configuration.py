"""The configuration file, what it names on this machine, and where the key comes from."""

import time
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Final

from resilient_ov.adapters.credentials import ApiKeySource
from resilient_ov.settings import AuthMode, AuthSettings, Settings
from resilient_ov_manager.config_file import load_config_file
from resilient_ov_manager.host_config import ConfigError, parse_config, settings_from_config
from resilient_ov_manager.preflight.step import State, Step, failed
from resilient_ov_manager.terminal import ExitCode

_KEY_PROBLEMS: Final = ("api_key_env:", "api_key_file:")


def configuration_steps(
    config: Path, environ: Mapping[str, str]
) -> Generator[Step, None, Settings | None]:
    """Yield the steps; returns the settings if they can be used."""
    try:
        raw = load_config_file(config, environ=environ)
        settings = parse_config(raw, environ=environ)
        problems = _problems_around(raw, environ)
    except ConfigError as error:
        yield _invalid("config", "cannot be used", error.problems)
        return None
    except ValueError as error:
        yield _invalid("config", "cannot be read", (str(error),))
        return None
    about_key = tuple(text for text in problems if text.startswith(_KEY_PROBLEMS))
    others = tuple(text for text in problems if text not in about_key)
    summary = (
        f"server profile {settings.server_profile.value}, auth_mode {settings.auth.mode.value},"
        f" account {settings.auth.alias}"
    )
    if others:
        yield _invalid("config", "cannot be used here", others)
    else:
        yield Step(name="config", state=State.OK, found=summary)
    if about_key:
        yield _invalid("key", "there is no usable key", about_key)
    elif settings.auth.mode is AuthMode.DEV:
        yield Step(name="key", state=State.OK, found="none is needed (auth_mode dev)")
    else:
        yield Step(name="key", state=State.OK, found=_key_source(settings.auth, environ))
    return None if problems else settings


def _problems_around(raw: object, environ: Mapping[str, str]) -> tuple[str, ...]:
    try:
        settings_from_config(raw, environ=environ)
    except ConfigError as error:
        return error.problems
    return ()


def _key_source(auth: AuthSettings, environ: Mapping[str, str]) -> str:
    """Name the place of the key and how old it is there."""
    source = ApiKeySource(auth, environ=environ)
    if source.path is None:
        return f"{source.origin}, read when a process starts"
    age_s = max(0.0, time.time() - source.path.stat().st_mtime)
    return f"{source.origin}, written {_age(age_s)} ago"


def _age(age_s: float) -> str:
    for unit, length_s in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if age_s >= 2 * length_s:
            return f"{int(age_s / length_s)} {unit}"
    return f"{int(age_s)} s"


def _invalid(name: str, found: str, advice: tuple[str, ...]) -> Step:
    return failed(name, found, *advice, code=ExitCode.INVALID)
