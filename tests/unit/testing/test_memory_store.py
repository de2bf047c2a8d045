from collections.abc import Iterator

import pytest

from resilient_ov.domain.ports import Loaded, StateUnwritableError
from resilient_ov.domain.watermark import Watermark
from resilient_ov.testing.memory_store import MemoryPlace, MemoryWatermarkStore

STATE = Watermark(
    session_id="df_s", openviking_user="u", account="a", server_id="s", server_profile="0.5"
)


@pytest.fixture
def place() -> Iterator[MemoryPlace]:
    return MemoryPlace()


def test_a_killed_owner_is_dead_and_holds_nothing(place: MemoryPlace) -> None:
    first, second = MemoryWatermarkStore(place), MemoryWatermarkStore(place)
    token = first.owner()
    assert first.lead() is True
    with first.session("df_s") as unit, second.session("df_other") as other:
        assert unit.open() is not None
        assert other.open() is not None
        first.kill()
        assert second.owner_lives(token) is False
        assert second.lead() is True
        with second.session("df_s") as taken:
            assert taken.open() == Loaded(watermark=None)
            with pytest.raises(RuntimeError):
                unit.save(STATE)
        other.save(Watermark(**{**_fields(STATE), "session_id": "df_other"}))
    assert place.saves == 1


def test_a_place_that_cannot_be_opened_says_why(place: MemoryPlace) -> None:
    store = MemoryWatermarkStore(place)
    place.open_problem = "denied"
    with store.session("df_s") as unit, pytest.raises(StateUnwritableError) as raised:
        unit.open()
    assert raised.value.problem == "denied"
    with pytest.raises(StateUnwritableError):
        store.owner()
    assert store.persistent() is False
    place.open_problem = None
    with store.session("df_s") as unit:
        assert unit.open() == Loaded(watermark=None)


def test_stores_without_a_common_place_share_nothing() -> None:
    first, second = MemoryWatermarkStore(), MemoryWatermarkStore()
    with first.session("df_s") as unit:
        unit.open()
        unit.save(STATE)
    with second.session("df_s") as unit:
        assert unit.open() == Loaded(watermark=None)


def _fields(watermark: Watermark) -> dict[str, object]:
    return {name: getattr(watermark, name) for name in watermark.__slots__}
