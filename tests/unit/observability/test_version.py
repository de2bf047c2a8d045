from importlib.metadata import PackageNotFoundError

from resilient_ov_observability import version


def test_the_version_is_the_installed_one():
    assert version.version("resilient-ov") == version.VERSION


def test_a_source_tree_has_none(monkeypatch):
    def missing(_name):
        raise PackageNotFoundError

    monkeypatch.setattr(version, "version", missing)
    assert version._installed() == "unknown"
