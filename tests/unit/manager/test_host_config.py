import enum
import os
import pickle
import traceback
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resilient_ov.settings import (
    AuthMode,
    InjectionMode,
    KnobField,
    ReadFailurePolicy,
    ServerProfile,
    Settings,
    StartupPolicy,
    WriteFailurePolicy,
    knob_fields,
)
from resilient_ov_manager.config_rules import NOT_IN_THIS_VERSION
from resilient_ov_manager.host_config import ConfigError, parse_config, settings_from_config

ENVIRON = {"DEER_FLOW_HOME": "/srv/deer", "OPENVIKING_API_KEY": "k"}
MINIMAL = {"base_url": "https://ov.example", "account": "acme"}
KNOBS = {found.key: found for found in knob_fields()}
NUMERIC = [key for key, found in KNOBS.items() if found.kind in (int, float)]
TO_COME = {key for key, _ in NOT_IN_THIS_VERSION}


CANARY = "canary/0123456789/canary"
# The paths of TLS files and the storage are named in errors on purpose.
ANY_KEY = [
    *(key for key in KNOBS if not key.startswith("tls.") and key != "storage_path"),
    *("model", "api_key", "retry.zzz", "top_k"),
]
ANY_VALUE: list[object] = [
    CANARY,
    [CANARY],
    {CANARY: CANARY},
    None,
    True,
    3,
    0.5,
    -1,
    f"http://{CANARY}",
    "http://localhost",
    "dev",
    "api_key",
]


def config(**flat: object) -> dict[str, Any]:
    """A minimal section with dotted keys (`__` for the dot) put in."""
    raw: dict[str, Any] = dict(MINIMAL)
    for name, value in flat.items():
        section, _, key = name.rpartition("__")
        if section:
            raw.setdefault(section, {})[key] = value
        else:
            raw[key] = value
    return raw


def with_key(key: str, value: object) -> dict[str, Any]:
    return config(**{key.replace(".", "__"): value})


def parse(raw: object) -> Settings:
    return parse_config(raw, environ=ENVIRON)


def problems(raw: object) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        parse(raw)
    return caught.value.problems


def value_of(parsed: Settings, found: KnobField) -> object:
    holder = parsed if found.section is None else getattr(parsed, found.section)
    value: object = getattr(holder, found.attribute)
    return value


class TestDefaults:
    def test_minimal_section_gives_every_documented_default(self) -> None:
        parsed = parse(MINIMAL)
        for key, found in KNOBS.items():
            if key not in ("base_url", "account", "storage_path"):
                assert value_of(parsed, found) == found.default, key
        assert parsed.base_url == "https://ov.example"
        assert parsed.auth.account == "acme"
        assert parsed.storage_path == Path("/srv/deer")

    def test_null_section_and_null_value_are_the_default(self) -> None:
        nulls: dict[str, Any] = {key: None for key in KNOBS if "." not in key}
        nulls |= {key.partition(".")[0]: None for key in KNOBS if "." in key}
        assert parse({**nulls, **MINIMAL}) == parse(MINIMAL)
        inner: dict[str, Any] = {}
        for key in KNOBS:
            section, _, name = key.rpartition(".")
            if section:
                inner.setdefault(section, {})[name] = None
        assert parse({**inner, **MINIMAL}) == parse(MINIMAL)

    def test_empty_section_is_the_default(self) -> None:
        assert parse({**MINIMAL, "breaker": {}, "retry": {}}) == parse(MINIMAL)

    @pytest.mark.parametrize("raw", [None, {}, {"base_url": None}])
    def test_base_url_is_required(self, raw: object) -> None:
        assert any(text.startswith("base_url: required") for text in problems(raw))

    def test_input_is_not_changed(self) -> None:
        raw = config(budgets__add_seconds=None, session__memory_types=["events"])
        before = repr(raw)
        parse(raw)
        assert repr(raw) == before

    def test_every_default_written_out_is_accepted(self) -> None:
        for key, found in KNOBS.items():
            default = found.default
            if found.required or default is None:
                continue
            raw = default.value if isinstance(default, enum.Enum) else default
            assert value_of(parse(with_key(key, raw)), found) == default


BAD_NUMBERS = [
    "nan",
    "inf",
    "-inf",
    "NaN",
    float("nan"),
    float("inf"),
    float("-inf"),
    -1,
    "-1",
    True,
    False,
    "1e400",
    1e308,
    10**400,
    "abc",
    "",
    " ",
    "0x1",
    "1_0",
    "1,5",
    "१",
    b"2",
    [2],
    {"a": 2},
    "\ud800",
]


class TestNumbers:
    @pytest.mark.parametrize("key", NUMERIC)
    def test_bad_number_is_refused_by_key_range_and_advice(self, key: str) -> None:
        for bad in BAD_NUMBERS:
            (text,) = problems(with_key(key, bad))
            assert text.startswith(f"{key}: must be "), (key, bad)
            assert ".." in text
            assert "remove it for the default" in text

    @pytest.mark.parametrize("key", [k for k in NUMERIC if (KNOBS[k].knob.low or 0) > 0])
    def test_zero_is_refused_where_it_would_switch_a_limit_off(self, key: str) -> None:
        for zero in (0, 0.0, "0"):
            (text,) = problems(with_key(key, zero))
            assert text.startswith(f"{key}: must be "), zero

    @pytest.mark.parametrize("key", [key for key in NUMERIC if key not in TO_COME])
    def test_bounds_are_inclusive_and_text_counts_as_a_number(self, key: str) -> None:
        found = KNOBS[key]
        assert found.knob.low is not None
        assert found.knob.high is not None
        extra: dict[str, object] = {
            "breaker.open_seconds": {"breaker__max_open_seconds": 3600},
            "breaker.max_open_seconds": {"breaker__open_seconds": 0.1},
            "limits.max_connections": {"limits__max_keepalive": 1},
            "limits.max_keepalive": {"limits__max_connections": 1000},
            "messages.max_message_chars": {"messages__max_batch_bytes": 16777216},
            "messages.max_batch_bytes": {"messages__max_message_chars": 256},
        }.get(key, {})  # type: ignore[assignment]
        for edge in (found.knob.low, found.knob.high):
            for spelt in (edge, str(edge), f" {edge}\n", float(edge)):
                raw = config(**{key.replace(".", "__"): spelt}, **extra)
                value = value_of(parse(raw), found)
                assert value == edge, (key, spelt)
                assert type(value) is found.kind
        step = 1 if found.kind is int else 0.001
        for outside in (found.knob.low - step, found.knob.high + step):
            assert problems(with_key(key, outside))[0].startswith(f"{key}: ")

    def test_whole_number_refuses_a_fraction(self) -> None:
        (text,) = problems(config(retrieval__top_k=2.5))
        assert text.startswith("retrieval.top_k: must be a whole number, 1..100, got 2.5")
        assert parse(config(retrieval__top_k="2")).retrieval.top_k == 2
        assert parse(config(retrieval__top_k=2.0)).retrieval.top_k == 2

    def test_error_names_the_unit(self) -> None:
        assert "0.5..120 (seconds), got 500" in problems(config(budgets__add_seconds=500))[0]
        assert "(bytes)" in problems(config(limits__write_queue_bytes=1))[0]
        assert "(characters)" in problems(config(retrieval__max_item_chars=1))[0]

    def test_nullable_number_says_so(self) -> None:
        assert (
            "0.05..120 (seconds), or null, got 0" in problems(config(retry__attempt_seconds=0))[0]
        )


class TestOtherTypes:
    @pytest.mark.parametrize("key", [k for k, f in KNOBS.items() if f.kind is bool])
    def test_truth_value(self, key: str) -> None:
        bads: tuple[object, ...] = (0, 1, 1.0, "yes", "", "on", [], {})
        for bad in bads:
            (text,) = problems(with_key(key, bad))
            assert text.startswith(f"{key}: must be true or false, got "), bad
        extra: dict[str, object] = {"budgets__add_seconds": 15}
        if key.startswith("namespace."):
            extra["server_profile"] = "namespace"
        for good, meant in ((True, True), ("true", True), (" FALSE ", False), (False, False)):
            if key in TO_COME and meant:
                continue
            raw = config(**{key.replace(".", "__"): good}, **extra)
            assert value_of(parse(raw), KNOBS[key]) is meant

    @pytest.mark.parametrize(
        "key", [k for k, f in KNOBS.items() if issubclass(f.kind, enum.StrEnum)]
    )
    def test_choice_refuses_what_is_not_offered_and_lists_the_offer(self, key: str) -> None:
        bads: tuple[object, ...] = ("sometimes", "", 1, False, [], 0.6)
        for bad in bads:
            (text,) = problems(with_key(key, bad))
            assert text.startswith(f"{key}: must be one of "), bad

    @pytest.mark.parametrize(
        "key", [k for k, f in KNOBS.items() if f.kind in (str, Path) and k != "storage_path"]
    )
    def test_text_refuses_other_types_and_nothing(self, key: str) -> None:
        bads: tuple[object, ...] = (1, True, 1.5, [], {}, "", " ", "\ud800", b"x")
        for bad in bads:
            if bad == " " and KNOBS[key].kind is Path:
                continue
            (text,) = [t for t in problems(with_key(key, bad)) if t.startswith(f"{key}: ")]
            assert text.startswith(f"{key}: must "), bad

    def test_choices_are_read(self) -> None:
        parsed = parse(
            config(
                auth_mode="api_key",
                owner_user_id="alice",
                startup_policy="warn",
                failure_policy__read="fail_fast",
                failure_policy__write="fail_fast",
            )
        )
        assert parsed.auth.mode is AuthMode.API_KEY
        assert parsed.startup_policy is StartupPolicy.WARN
        assert parsed.failure_policy.read is ReadFailurePolicy.FAIL_FAST
        assert parsed.failure_policy.write is WriteFailurePolicy.FAIL_FAST

    def test_fail_closed_is_the_hosts_word_for_fail_fast(self) -> None:
        parsed = parse(config(failure_policy__read="fail_closed"))
        assert parsed.failure_policy.read is ReadFailurePolicy.FAIL_FAST
        assert problems(config(failure_policy__write="fail_closed"))

    def test_unquoted_yaml_spellings_are_understood(self) -> None:
        parsed = parse(config(injection__mode=True, server_profile=0.5))
        assert parsed.injection.mode is InjectionMode.ON
        assert parsed.server_profile is ServerProfile.V0_5
        assert problems(config(injection__mode=1))

    def test_memory_types(self) -> None:
        parsed = parse(config(session__memory_types=["profile", "events"]))
        assert parsed.session.memory_types == ("profile", "events")
        for bad in ([], "profile", ["a", "a"], ["A"], [1], [""], ["a b"], {"a": 1}, [None]):
            (text,) = problems(config(session__memory_types=bad))
            assert text.startswith("session.memory_types: must be a non-empty list"), bad

    @pytest.mark.parametrize("name", ["acme", "a" * 255, "a.b@c-d_E9", "...", "a_"])
    def test_account_the_server_accepts(self, name: str) -> None:
        assert parse({**MINIMAL, "account": name}).auth.account == name

    @pytest.mark.parametrize(
        "name", ["_a", ".", "..", "a@b@c", "a" * 256, "a b", "a/b", "ключ", "a\n", "\na"]
    )
    def test_account_the_server_would_refuse(self, name: str) -> None:
        (text,) = problems({**MINIMAL, "account": name})
        assert text.startswith("account: must be 1..255 of ")

    def test_account_alias(self) -> None:
        assert parse(config(account_alias="prod-1")).auth.alias == "prod-1"
        for bad in ("a" * 65, "a b", "a\n"):
            assert problems(config(account_alias=bad))[0].startswith("account_alias: must be 1..64")

    def test_owner_user_id_is_not_repeated(self) -> None:
        raw = config(auth_mode="api_key", owner_user_id="mallory" * 200)
        (text,) = problems(raw)
        assert text.startswith("owner_user_id: must be 1..1024 characters")
        assert "mallory" not in text

    @pytest.mark.parametrize("name", ["$KEY", "sk-SECRET", "A B", "1A", "A\n", "KEY="])
    def test_variable_name_must_be_one_and_is_not_repeated(self, name: str) -> None:
        (text,) = problems(config(api_key_env=name))
        assert text.startswith("api_key_env: must be the NAME of an environment variable")
        assert name not in text


class TestUnknownKeys:
    def test_misspelt_section_is_named_with_a_guess(self) -> None:
        assert problems(config(retrys={})) == (
            "retrys: unknown key. Did you mean retry? Otherwise remove it",
        )

    def test_null_does_not_hide_an_unknown_key(self) -> None:
        assert problems(config(retrys=None))[0].startswith("retrys: unknown key")
        assert problems(config(breaker__opens=None))[0].startswith("breaker.opens: unknown key")

    def test_key_of_a_section_written_outside_is_found(self) -> None:
        (text,) = problems(config(add_seconds=3))
        assert "Did you mean budgets.add_seconds?" in text
        (text,) = problems(config(retry__top_k=3))
        assert "Did you mean retrieval.top_k?" in text

    def test_misspelt_key_of_a_section(self) -> None:
        (text,) = problems(config(budgets__add_second=3))
        assert "budgets.add_second: unknown key. Did you mean budgets.add_seconds?" in text

    def test_key_like_nothing_points_to_the_table(self) -> None:
        assert "README" in problems(config(zzzzqqqq=3))[0]

    def test_dotted_key_is_not_a_section(self) -> None:
        (text,) = problems({**MINIMAL, "budgets.add_seconds": 3})
        assert "unknown key" in text
        (text,) = problems(config(budgets__base_url="x"))
        assert text.startswith("budgets.base_url: unknown key")

    def test_value_of_an_unknown_key_is_never_repeated(self) -> None:
        for text in problems(config(password="SECRET", tls__key="SECRET")):
            assert "SECRET" not in text

    def test_the_key_itself_is_refused_with_the_way_to_give_it(self) -> None:
        (text,) = problems(config(api_key="SECRET"))
        assert text.startswith("api_key: ")
        assert "api_key_env" in text
        assert "SECRET" not in text

    @pytest.mark.parametrize("key", [5, None, True, ("a",), 1.5, "a b", "x" * 500, "\ud800", "\n"])
    def test_key_that_is_no_word_is_named_printably(self, key: object) -> None:
        raw: dict[object, object] = dict(MINIMAL.items())
        (text,) = problems({**raw, key: 1})
        assert "unknown key" in text
        assert text.isascii()
        assert text.isprintable()
        assert len(text) < 200
        (text,) = problems({**MINIMAL, "retry": {key: 1}})
        assert text.startswith("retry.")

    @pytest.mark.parametrize("bad", [[], "x", 1, True, 0.5])
    def test_section_that_is_no_mapping(self, bad: object) -> None:
        (text,) = problems(config(breaker=bad))
        assert text.startswith("breaker: must be a mapping of keys, or null, got ")

    @pytest.mark.parametrize("raw", [[], "x", 1, True])
    def test_whole_configuration_that_is_no_mapping(self, raw: object) -> None:
        (text,) = problems(raw)
        assert text.startswith("must be a mapping of keys, got ")


def everything(error: BaseException) -> str:
    return "".join(traceback.format_exception(error)) + repr(error) + repr(error.__context__)


class TestErrors:
    def test_all_problems_are_told_at_once(self) -> None:
        raw = {
            "base_url": "ftp://x",
            "budgets": {"add_seconds": "nan", "typo": 1},
            "max_facts": 3,
            "breaker": {"open_seconds": 60},
            "limits": {"max_connections": 0, "max_keepalive": 5000},
            "state": {"kind": "postgresql"},
        }
        keys = [text.partition(":")[0] for text in problems(raw)]
        assert sorted(keys) == [
            "account",
            "base_url",
            "breaker.max_open_seconds",
            "budgets.add_seconds",
            "budgets.typo",
            "limits.max_connections",
            "limits.max_keepalive",
            "max_facts",
            "state.kind",
        ]

    def test_message_lists_them_one_a_line(self) -> None:
        with pytest.raises(ValueError, match="retrys: unknown key") as caught:
            parse(config(retrys=1, retry__max_attempts=9))
        assert str(caught.value).startswith("memory.backend_config has 2 problems:\n- retrys: ")
        assert "\n- retry.max_attempts: must be a whole number, 1..5, got 9." in str(caught.value)

    def test_single_problem_is_one_line(self) -> None:
        with pytest.raises(ConfigError) as caught:
            parse(config(retrys=1))
        assert str(caught.value).startswith("memory.backend_config: retrys: unknown key")
        assert "\n" not in str(caught.value)

    def test_error_survives_pickle(self) -> None:
        with pytest.raises(ConfigError) as caught:
            parse(config(retrys=1))
        again = pickle.loads(pickle.dumps(caught.value))
        assert str(again) == str(caught.value)
        assert again.problems == caught.value.problems

    def test_secrets_in_base_url_reach_no_part_of_the_error(self) -> None:
        raw = {**MINIMAL, "base_url": "http://bob:SECRET1@127.0.0.1:1933/?token=SECRET2"}
        with pytest.raises(ConfigError) as caught:
            parse(raw)
        assert "base_url: must not carry user-info" in str(caught.value)
        for secret in ("SECRET", "bob", "127.0.0.1"):
            assert secret not in everything(caught.value)

    @given(flat=st.dictionaries(st.sampled_from(ANY_KEY), st.sampled_from(ANY_VALUE), max_size=12))
    @settings(max_examples=300, deadline=None)
    def test_anything_gives_settings_or_an_error_and_never_the_text_found(
        self, flat: dict[str, object]
    ) -> None:
        raw = config()
        for key, value in flat.items():
            section, _, name = key.rpartition(".")
            if section:
                raw.setdefault(section, {})[name] = value
            else:
                raw[key] = value
        told = ""
        try:
            parsed = settings_from_config(raw, environ=ENVIRON)
            told = repr(parsed) + str(parsed.redacted_summary(api_key_set=True))
        except ConfigError as error:
            told = everything(error)
        assert told
        assert CANARY not in told


class TestStorage:
    def test_folder_given_by_the_host_is_kept(self, tmp_path: Path) -> None:
        assert parse(config(storage_path=str(tmp_path))).storage_path == tmp_path
        assert parse(config(storage_path=tmp_path)).storage_path == tmp_path

    @pytest.mark.parametrize("empty", [None, ""])
    def test_empty_is_the_home_of_the_host(self, empty: str | None) -> None:
        assert parse(config(storage_path=empty)).storage_path == Path("/srv/deer")

    def test_relative_folder_lies_in_the_home_of_the_host(self) -> None:
        assert parse(config(storage_path="memory")).storage_path == Path("/srv/deer/memory")

    @pytest.mark.parametrize("bad", [3, True, [], "a\0b", "\ud800"])
    def test_what_is_no_path_is_refused(self, bad: object) -> None:
        assert problems(config(storage_path=bad))[0].startswith("storage_path: must be a folder")


class TestSurroundings:
    def surrounded(self, raw: object, environ: dict[str, str] | None = None) -> tuple[str, ...]:
        with pytest.raises(ConfigError) as caught:
            settings_from_config(raw, environ=ENVIRON if environ is None else environ)
        assert "SECRET" not in everything(caught.value)
        return caught.value.problems

    def test_good_surroundings_give_the_same_settings(self, tmp_path: Path) -> None:
        for name in ("ca", "cert", "key", "token"):
            (tmp_path / name).write_text("x")
        raw = config(
            tls__ca_file=str(tmp_path / "ca"),
            tls__client_cert_file=str(tmp_path / "cert"),
            tls__client_key_file=str(tmp_path / "key"),
            api_key_file=str(tmp_path / "token"),
            storage_path=str(tmp_path),
        )
        parsed = settings_from_config(raw, environ={})
        assert parsed == parse(raw)
        assert parsed.tls.ca_file == tmp_path / "ca"

    def test_storage_folder_need_not_exist_and_is_not_made(self, tmp_path: Path) -> None:
        folder = tmp_path / "new"
        parsed = settings_from_config(config(storage_path=str(folder)), environ=ENVIRON)
        assert parsed.storage_path == folder
        assert os.listdir(tmp_path) == []

    def test_storage_path_that_is_a_file(self, tmp_path: Path) -> None:
        (tmp_path / "memory.json").write_text("{}")
        (text,) = self.surrounded(config(storage_path=str(tmp_path / "memory.json")))
        assert text.startswith("storage_path: ")
        assert "not a folder" in text

    @pytest.mark.parametrize("key", ["ca_file", "client_cert_file", "client_key_file"])
    def test_missing_tls_file_is_named(self, tmp_path: Path, key: str) -> None:
        (tmp_path / "cert").write_text("x")
        raw = config(tls__client_cert_file=str(tmp_path / "cert"))
        raw["tls"][key] = str(tmp_path / "nope")
        (text,) = self.surrounded(raw)
        assert text.startswith(f"tls.{key}: {tmp_path / 'nope'} cannot be read (No such file")

    def test_tls_folder_and_pipe_are_refused_without_waiting(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "pipe")
        for path in (tmp_path, tmp_path / "pipe"):
            (text,) = self.surrounded(config(tls__ca_file=str(path)))
            assert "is not a regular file" in text

    def test_missing_key_names_the_variable(self) -> None:
        (text,) = self.surrounded(MINIMAL, {})
        assert text.startswith("api_key_env: environment variable OPENVIKING_API_KEY")
        assert "not set" in text

    @pytest.mark.parametrize("value", ["SEC\nRET3", "ключSECRET", "", "   "])
    def test_unusable_key_names_the_variable(self, value: str) -> None:
        (text,) = self.surrounded(MINIMAL, {"OPENVIKING_API_KEY": value})
        assert "OPENVIKING_API_KEY" in text

    @pytest.mark.parametrize("value", ["SECRET3\n", " SECRET3", "SECRET3\r\n"])
    def test_key_with_outer_white_space_is_fine(self, value: str) -> None:
        settings_from_config(MINIMAL, environ={"OPENVIKING_API_KEY": value})

    def test_unusable_key_file_is_named(self, tmp_path: Path) -> None:
        (text,) = self.surrounded(config(api_key_file=str(tmp_path / "nope")))
        assert text.startswith(f"api_key_file: file {tmp_path / 'nope'}")

    def test_dev_mode_needs_no_key(self) -> None:
        raw = {"base_url": "http://localhost:1933", "auth_mode": "dev"}
        assert settings_from_config(raw, environ={}).auth.mode is AuthMode.DEV

    def test_wrong_shape_and_missing_surroundings_are_told_together(self, tmp_path: Path) -> None:
        raw = config(retrys=1, tls__ca_file=str(tmp_path / "nope"))
        keys = [text.partition(":")[0] for text in self.surrounded(raw, {})]
        assert keys == ["retrys", "tls.ca_file", "api_key_env"]

    def test_key_is_not_looked_for_when_its_place_is_wrong(self) -> None:
        keys = [t.partition(":")[0] for t in self.surrounded(config(api_key_env="a b"), {})]
        assert keys == ["api_key_env"]
        keys = [t.partition(":")[0] for t in self.surrounded(config(tls__ca_file=3))]
        assert keys == ["tls.ca_file"]

    def test_environment_of_the_process_is_the_default(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("OPENVIKING_API_KEY", "k")
        monkeypatch.setenv("DEER_FLOW_HOME", "/srv/other")
        assert settings_from_config(MINIMAL).storage_path == Path("/srv/other")
        assert parse_config(MINIMAL).storage_path == Path("/srv/other")
