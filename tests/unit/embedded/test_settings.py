from pathlib import Path

import pytest

from resilient_ov.embedded.settings import EmbeddedSettings
from resilient_ov.settings.server import AuthMode


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, "root_key: required with auth 'trusted'"),
        ({"root_key": ""}, "root_key: required"),
        ({"auth": AuthMode.API_KEY}, "root_key: required with auth 'api_key'"),
        ({"auth": AuthMode.DEV, "root_key": "k"}, "root_key: must be absent"),
        ({"root_key": "k", "extraction_delay_s": -1.0}, "extraction_delay_s: must be 0..3600"),
        ({"root_key": "k", "extraction_delay_s": 3601.0}, "extraction_delay_s: must be 0..3600"),
    ],
)
def test_settings_that_do_not_fit_are_named(
    options: dict[str, object], problem: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=problem):
        EmbeddedSettings(data_dir=tmp_path, **options)  # type: ignore[arg-type]


def test_the_key_is_not_in_the_repr(tmp_path: Path) -> None:
    assert "s3cret" not in repr(EmbeddedSettings(data_dir=tmp_path, root_key="s3cret"))
