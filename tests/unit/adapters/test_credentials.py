import os
import pickle
import traceback
from pathlib import Path

import pytest

from resilient_ov.adapters.credentials import (
    ApiKey,
    ApiKeySource,
    CredentialError,
    looks_like_variable,
)
from resilient_ov.settings import AuthMode, AuthSettings

VARIABLE = "OPENVIKING_API_KEY"


def from_variable(value: str | None, mode: AuthMode = AuthMode.TRUSTED) -> ApiKeySource:
    environ = {} if value is None else {VARIABLE: value}
    return ApiKeySource(AuthSettings(mode=mode), environ=environ)


def from_file(path: Path) -> ApiKeySource:
    return ApiKeySource(AuthSettings(api_key_file=path), environ={VARIABLE: "not-this-one"})


def revealed(source: ApiKeySource) -> str:
    key = source.current()
    assert key is not None
    return key.reveal()


def everything(error: BaseException) -> str:
    return "".join(traceback.format_exception(error)) + repr(error) + repr(error.__context__)


OUTER = ["SECRET3\n", " SECRET3", "SECRET3\r\n", "\t SECRET3 \n\n", "SECRET3"]
UNUSABLE = {
    "SEC\nRET3": "white space inside",
    "SEC RET3": "white space inside",
    "SEC\tRET3": "white space inside",
    "ключSECRET3": "printable ASCII",
    "SECRET3\x00": "printable ASCII",
    "SECRET3\x7f": "printable ASCII",
    "\ufeffSECRET3": "printable ASCII",
    "SECRET3\udcff": "printable ASCII",
    "": "empty",
    "   ": "empty",
    "\r\n": "empty",
    "SECRET3" * 1000: "longer than 4096",
}


class TestVariable:
    @pytest.mark.parametrize("value", OUTER)
    def test_outer_white_space_is_stripped(self, value: str) -> None:
        source = from_variable(value)
        assert source.refresh() is True
        assert revealed(source) == "SECRET3"

    @pytest.mark.parametrize("value", UNUSABLE)
    def test_unusable_key_is_refused_by_the_name_of_the_variable(self, value: str) -> None:
        with pytest.raises(CredentialError, match=UNUSABLE[value]) as caught:
            from_variable(value).refresh()
        assert VARIABLE in str(caught.value)
        assert "SECRET3" not in everything(caught.value)
        assert "SEC" not in str(caught.value)

    @pytest.mark.parametrize("mode", [AuthMode.TRUSTED, AuthMode.API_KEY])
    def test_unset_variable_is_refused_where_a_key_is_needed(self, mode: AuthMode) -> None:
        with pytest.raises(CredentialError, match=f"{VARIABLE}.*not set"):
            from_variable(None, mode).refresh()

    def test_unset_variable_is_no_key_in_dev_mode(self) -> None:
        source = from_variable(None, AuthMode.DEV)
        assert source.refresh() is True
        assert source.current() is None
        assert source.refresh() is False

    def test_dev_mode_still_refuses_a_broken_key(self) -> None:
        with pytest.raises(CredentialError):
            from_variable("a b", AuthMode.DEV).refresh()

    def test_changed_variable_is_seen(self) -> None:
        environ = {VARIABLE: "one"}
        source = ApiKeySource(AuthSettings(), environ=environ)
        source.refresh()
        assert source.refresh() is False
        environ[VARIABLE] = "two"
        assert source.refresh() is True
        assert revealed(source) == "two"

    def test_reads_the_environment_of_the_process_by_default(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("OTHER_OV_KEY", "k1")
        source = ApiKeySource(AuthSettings(api_key_env="OTHER_OV_KEY"))
        source.refresh()
        assert revealed(source) == "k1"

    @pytest.mark.parametrize("name", ["sk_live_4f9a8b", "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"])
    def test_a_key_written_in_place_of_a_name_is_not_repeated(self, name: str) -> None:
        source = ApiKeySource(AuthSettings(api_key_env=name), environ={})
        with pytest.raises(CredentialError) as caught:
            source.refresh()
        assert name not in everything(caught.value)
        assert name not in repr(source)
        assert "api_key_env" in str(caught.value)

    def test_no_name_of_a_variable_is_taken_for_a_key(self) -> None:
        assert looks_like_variable("OPENVIKING_API_KEY")
        assert looks_like_variable("OV2_KEY")


class TestFileOfVariable:
    """As container images have it: NAME_FILE names a file where NAME would hold the key."""

    def source(self, path: object, **more: str) -> ApiKeySource:
        return ApiKeySource(AuthSettings(), environ={f"{VARIABLE}_FILE": str(path), **more})

    def test_the_file_is_read_and_read_again_when_it_changes(self, tmp_path: Path) -> None:
        path = tmp_path / "key"
        path.write_text("one\n")
        source = self.source(path)
        assert source.refresh() is True
        assert revealed(source) == "one"
        assert source.refresh() is False
        path.write_text("twotwo")
        assert source.refresh() is True
        assert revealed(source) == "twotwo"

    def test_it_is_named_by_file_and_variable(self, tmp_path: Path) -> None:
        path = tmp_path / "key"
        source = self.source(path)
        assert source.origin == f"file {path} ({VARIABLE}_FILE)"
        assert source.path == path
        with pytest.raises(CredentialError, match=f"{VARIABLE}_FILE.*cannot be read"):
            source.refresh()

    def test_a_key_in_place_of_the_files_name_is_not_repeated(self) -> None:
        source = self.source("c2stU0VDUkVU")
        with pytest.raises(CredentialError, match=f"named by {VARIABLE}_FILE") as caught:
            source.refresh()
        assert "c2stU0VDUkVU" not in everything(caught.value) + repr(source)

    def test_a_key_in_place_of_the_variables_name_is_not_repeated(self, tmp_path: Path) -> None:
        name = "sk_live_4f9a8b"
        (tmp_path / "key").write_text("one")
        auth = AuthSettings(api_key_env=name)
        source = ApiKeySource(auth, environ={f"{name}_FILE": str(tmp_path / "key")})
        source.refresh()
        assert revealed(source) == "one"
        assert name not in source.origin

    def test_variable_and_file_together_are_refused_as_nobody_knows_which_is_meant(
        self, tmp_path: Path
    ) -> None:
        (tmp_path / "key").write_text("one")
        source = self.source(tmp_path / "key", **{VARIABLE: "SECRET3"})
        with pytest.raises(CredentialError, match="without _FILE is set too") as caught:
            source.refresh()
        assert "SECRET3" not in everything(caught.value)

    def test_an_empty_name_is_no_file(self) -> None:
        with pytest.raises(CredentialError, match="not set"):
            self.source("").refresh()

    def test_api_key_file_wins(self, tmp_path: Path) -> None:
        for name in ("a", "b"):
            (tmp_path / name).write_text(name)
        auth = AuthSettings(api_key_file=tmp_path / "a")
        source = ApiKeySource(auth, environ={f"{VARIABLE}_FILE": str(tmp_path / "b")})
        source.refresh()
        assert revealed(source) == "a"

    def test_a_plain_variable_has_no_path(self) -> None:
        assert from_variable("k").path is None


class TestFile:
    @pytest.mark.parametrize("value", OUTER)
    def test_outer_white_space_is_stripped(self, tmp_path: Path, value: str) -> None:
        path = tmp_path / "key"
        path.write_bytes(value.encode())
        source = from_file(path)
        assert source.refresh() is True
        assert revealed(source) == "SECRET3"

    @pytest.mark.parametrize("value", [v for v in UNUSABLE if "\udcff" not in v])
    def test_unusable_key_is_refused_by_the_name_of_the_file(
        self, tmp_path: Path, value: str
    ) -> None:
        path = tmp_path / "key"
        path.write_bytes(value.encode())
        with pytest.raises(CredentialError) as caught:
            from_file(path).refresh()
        assert str(path) in str(caught.value)
        assert "SECRET3" not in everything(caught.value)

    def test_bytes_that_are_no_text_are_refused(self, tmp_path: Path) -> None:
        path = tmp_path / "key"
        path.write_bytes(b"\xff\xfeSECRET3")
        with pytest.raises(CredentialError, match="printable ASCII"):
            from_file(path).refresh()

    def test_missing_file_is_refused_by_name(self, tmp_path: Path) -> None:
        with pytest.raises(CredentialError, match=r"nope.*cannot be read \(No such file"):
            from_file(tmp_path / "nope").refresh()

    def test_a_key_written_in_place_of_a_file_is_not_repeated(self) -> None:
        source = from_file(Path("c2stU0VDUkVU"))
        with pytest.raises(CredentialError, match="named by api_key_file") as caught:
            source.refresh()
        assert "c2stU0VDUkVU" not in str(caught.value) + repr(source)

    def test_folder_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(CredentialError, match="not a regular file"):
            from_file(tmp_path).refresh()

    @pytest.mark.timeout(10)
    def test_pipe_is_refused_without_waiting_for_a_writer(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "key")
        with pytest.raises(CredentialError, match="not a regular file"):
            from_file(tmp_path / "key").refresh()

    def test_unchanged_file_is_not_read_again_unless_forced(self, tmp_path: Path) -> None:
        path = tmp_path / "key"
        path.write_text("one")
        source = from_file(path)
        source.refresh()
        assert source.refresh() is False
        assert source.refresh(force=True) is False
        assert revealed(source) == "one"

    def test_rewritten_file_is_read_again(self, tmp_path: Path) -> None:
        path = tmp_path / "key"
        path.write_text("one")
        source = from_file(path)
        source.refresh()
        path.write_text("twotwo")
        assert source.refresh() is True
        assert revealed(source) == "twotwo"
        assert source.refresh() is False

    def test_same_size_and_time_in_a_replaced_file_is_noticed(self, tmp_path: Path) -> None:
        path = tmp_path / "key"
        path.write_text("one")
        source = from_file(path)
        source.refresh()
        known = path.stat()
        other = tmp_path / "next"
        other.write_text("two")
        os.utime(other, ns=(known.st_atime_ns, known.st_mtime_ns))
        other.replace(path)
        assert source.refresh() is True
        assert revealed(source) == "two"

    def test_swapped_link_of_a_mounted_secret_is_noticed(self, tmp_path: Path) -> None:
        for name in ("v1", "v2"):
            (tmp_path / name).write_text(name)
        link = tmp_path / "key"
        link.symlink_to("v1")
        source = from_file(link)
        source.refresh()
        link.unlink()
        link.symlink_to("v2")
        assert source.refresh() is True
        assert revealed(source) == "v2"

    def test_touched_file_with_the_same_key_is_no_change(self, tmp_path: Path) -> None:
        path = tmp_path / "key"
        path.write_text("one")
        source = from_file(path)
        source.refresh()
        path.write_text("one\n")
        assert source.refresh() is False

    @pytest.mark.parametrize("broken", [None, "", "two words"])
    def test_last_good_key_stays_while_the_file_is_broken(
        self, tmp_path: Path, broken: str | None
    ) -> None:
        path = tmp_path / "key"
        path.write_text("one")
        source = from_file(path)
        source.refresh()
        path.unlink() if broken is None else path.write_text(broken)
        for _ in range(2):
            with pytest.raises(CredentialError):
                source.refresh()
            assert revealed(source) == "one"
        path.write_text("healed")
        assert source.refresh() is True
        assert revealed(source) == "healed"

    def test_file_wins_over_the_variable(self, tmp_path: Path) -> None:
        (tmp_path / "key").write_text("from-file")
        source = from_file(tmp_path / "key")
        source.refresh()
        assert revealed(source) == "from-file"


def test_current_before_the_first_read_is_an_error_without_io() -> None:
    with pytest.raises(CredentialError, match="not read yet"):
        from_variable("k").current()


def test_key_does_not_show_itself() -> None:
    source = from_variable("SECRET3")
    assert repr(source).endswith(", unset)")
    source.refresh()
    key = source.current()
    assert "SECRET3" not in f"{key} {key!r} {source} {source!r}"
    assert repr(source).endswith(", set)")
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(key)


def test_keys_compare_by_value() -> None:
    assert ApiKey("a") == ApiKey("a")
    assert ApiKey("a") != ApiKey("b")
    assert ApiKey("a") != "a"
    assert len({ApiKey("a"), ApiKey("a"), ApiKey("b")}) == 2
