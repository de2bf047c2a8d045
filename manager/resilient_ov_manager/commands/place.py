"""Where the state of a gateway lies, as told by `--storage` or `--config`.

Rule: nothing is created or changed by looking.
"""

from pathlib import Path

from resilient_ov_manager.terminal import CommandError, ExitCode


def storage_of(storage: Path | None, config: Path | None) -> Path:
    """Return the folder `<storage_path>/openviking` of a gateway.

    Raises:
        CommandError: neither or both were given, the configuration is wrong, or nothing is there.

    """
    if (storage is None) == (config is None):
        raise CommandError("give --storage DIR or --config FILE, to say which gateway is meant")
    found = storage if storage is not None else _configured(config or Path())
    place = found.resolve() / "openviking"
    if not place.is_dir():
        raise CommandError(
            f"{place}: no gateway has kept state here; is it the storage_path of the gateway,"
            " and has a first turn been stored?",
            ExitCode.STORAGE,
        )
    return place


def _configured(config: Path) -> Path:
    from resilient_ov_manager.config_file import load_config_file
    from resilient_ov_manager.host_config import ConfigError, parse_config

    try:
        return parse_config(load_config_file(config)).storage_path
    except ConfigError as error:
        raise CommandError(f"{config}: {error}") from None
    except ValueError as error:
        raise CommandError(str(error)) from None
