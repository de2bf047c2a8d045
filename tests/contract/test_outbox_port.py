"""The promises of ``Outbox``, on the fake and on the SQLite outbox."""

import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import pytest

from resilient_ov.adapters.sqlite_outbox import SqliteOutbox
from resilient_ov.adapters.volatile_outbox import VolatileOutbox
from resilient_ov.domain.exchange import Identity
from resilient_ov.domain.messages import Message, Role
from resilient_ov.domain.planning import Presentation, merge, present, trim
from resilient_ov.domain.ports import Outbox, OutboxError
from resilient_ov.domain.waiting import OutboxDepth, Parcel, Target
from resilient_ov.testing.memory_outbox import MemoryOutbox, OutboxPlace

SESSION = "df_" + "a" * 52
OTHER = "df_" + "b" * 52


class Place(Protocol):
    """Where outboxes of several owners meet."""

    def outbox(self, owner: str) -> Outbox: ...

    def kill(self, owner: str) -> None: ...

    def damage(self) -> None: ...


class InMemory:
    def __init__(self) -> None:
        self.place = OutboxPlace()
        self.alive: set[str] = set()

    def outbox(self, owner: str) -> Outbox:
        self.alive.add(owner)
        return MemoryOutbox(self.place, owner=lambda: owner, lives=self.alive.__contains__)

    def kill(self, owner: str) -> None:
        self.alive.discard(owner)

    def damage(self) -> None:
        self.place.break_down()


class InSqlite:
    def __init__(self, place: Path) -> None:
        self.place = place
        self.alive: set[str] = set()

    def outbox(self, owner: str) -> Outbox:
        self.alive.add(owner)
        return SqliteOutbox(self.place, owner=lambda: owner, lives=self.alive.__contains__)

    def kill(self, owner: str) -> None:
        self.alive.discard(owner)

    def damage(self) -> None:
        (self.place / "outbox" / "outbox.sqlite3").write_bytes(b"not a database " * 1000)


@pytest.fixture(params=["memory", "sqlite"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return InMemory() if request.param == "memory" else InSqlite(tmp_path)


def messages(*texts: str, ids: bool = True) -> list[Message]:
    return [
        Message(role=Role.USER, text=text, host_id=f"id-{text}" if ids else None) for text in texts
    ]


def parcel(
    *texts: str,
    session_id: str = SESSION,
    user: str = "df_user",
    since: str = "2030-01-01T00:00:00Z",
    ids: bool = True,
) -> Parcel:
    presentation = present(session_id, messages(*texts, ids=ids))
    return Parcel(
        target=Target(
            identity=Identity(user=user, agent="lead"),
            session_id=session_id,
            account="deerflow",
            user_role="u",
            agent_role="a",
        ),
        presentation=presentation,
        waited_s=tuple(float(n) for n in range(len(presentation.fingerprints))),
        trace_id="trace",
        since_utc=since,
    )


def keep(outbox: Outbox, *parcels: Parcel) -> OutboxDepth:
    by_session = {parcel.target.session_id: parcel for parcel in parcels}
    return outbox.keep(by_session.keys(), by_session.get)


def texts(found: Presentation) -> list[str]:
    return [shown.message.text for shown in found.fingerprints]


def adopt_all(outbox: Outbox) -> list[Parcel]:
    taken: list[Parcel] = []

    def take(left: Parcel) -> Parcel:
        taken.append(left)
        return left

    while outbox.adopt(take):
        pass
    return taken


def test_what_was_kept_is_adopted_as_it_was_when_its_owner_is_dead(place: Place) -> None:
    kept = parcel("one", "two", "three")
    keep(place.outbox("first"), kept)
    place.kill("first")
    assert adopt_all(place.outbox("second")) == [kept]


def test_what_a_living_owner_keeps_is_nobody_elses(place: Place) -> None:
    keep(place.outbox("first"), parcel("one"))
    assert adopt_all(place.outbox("second")) == []


def test_nothing_is_adopted_from_oneself(place: Place) -> None:
    outbox = place.outbox("first")
    keep(outbox, parcel("one"))
    assert adopt_all(outbox) == []


def test_what_is_adopted_belongs_to_its_new_owner_and_to_its_heir_again(place: Place) -> None:
    kept = parcel("one")
    keep(place.outbox("first"), kept)
    place.kill("first")
    adopt_all(place.outbox("second"))
    assert adopt_all(place.outbox("third")) == []
    place.kill("second")
    assert adopt_all(place.outbox("third")) == [kept]


def test_each_parcel_is_taken_once_by_many_who_adopt_at_once(place: Place) -> None:
    names = [f"df_{number:03}" for number in range(60)]
    keep(place.outbox("dead"), *(parcel("one", session_id=name) for name in names))
    place.kill("dead")
    heirs = [place.outbox(f"heir-{number}") for number in range(4)]
    taken: list[str] = []
    start = threading.Barrier(len(heirs))

    def inherit(outbox: Outbox) -> None:
        start.wait()
        for _ in range(50):
            with suppress(OutboxError):
                while outbox.adopt(lambda left: taken.append(left.target.session_id) or left):
                    pass
                return

    threads = [threading.Thread(target=inherit, args=(outbox,)) for outbox in heirs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == names


def test_the_longest_waiting_is_adopted_first(place: Place) -> None:
    outbox = place.outbox("first")
    keep(outbox, parcel("late", session_id=OTHER, since="2030-01-02T00:00:00Z"))
    keep(outbox, parcel("early", since="2030-01-01T00:00:00Z"))
    place.kill("first")
    assert [texts(p.presentation) for p in adopt_all(place.outbox("second"))] == [
        ["early"],
        ["late"],
    ]


def test_what_finds_no_room_stays_for_later(place: Place) -> None:
    kept = parcel("one")
    keep(place.outbox("first"), kept)
    place.kill("first")
    heir = place.outbox("second")
    assert heir.adopt(lambda _: None) == 0
    assert adopt_all(heir) == [kept]


def test_what_an_heir_has_already_is_kept_together_with_what_it_adopts(place: Place) -> None:
    keep(place.outbox("first"), parcel("one"))
    place.kill("first")
    heir = place.outbox("second")
    keep(heir, parcel("one", "two"))
    both = parcel("one", "two")
    assert heir.adopt(lambda _: both) == 1
    assert heir.depth().messages == 2
    place.kill("second")
    assert adopt_all(place.outbox("third")) == [both]


def test_each_owner_keeps_its_own_of_one_session(place: Place) -> None:
    keep(place.outbox("first"), parcel("one"))
    keep(place.outbox("second"), parcel("two"))
    place.kill("first")
    place.kill("second")
    found = [texts(p.presentation) for p in adopt_all(place.outbox("third"))]
    assert sorted(found) == [["one"], ["two"]]


def test_what_waits_no_longer_is_forgotten(place: Place) -> None:
    outbox = place.outbox("first")
    keep(outbox, parcel("one"), parcel("two", session_id=OTHER))
    depth = outbox.keep([SESSION], lambda _: None)
    assert (depth.sessions, depth.messages) == (1, 1)
    place.kill("first")
    assert [texts(p.presentation) for p in adopt_all(place.outbox("second"))] == [["two"]]


def test_only_what_still_waits_of_a_session_is_kept(place: Place) -> None:
    whole = parcel("one", "two", "three")
    digests = [shown.exact for shown in whole.presentation.fingerprints]
    rest = Parcel(
        target=whole.target,
        presentation=trim(whole.presentation, digests, digests[1:2]),
        waited_s=(7.5,),
        trace_id=None,
        since_utc=whole.since_utc,
    )
    outbox = place.outbox("first")
    keep(outbox, whole)
    keep(outbox, rest)
    place.kill("first")
    assert adopt_all(place.outbox("second")) == [rest]


def test_lists_that_follow_each_other_come_back_in_their_order(place: Place) -> None:
    first, second = parcel("one", "two"), parcel("three", "two")
    both = Parcel(
        target=first.target,
        presentation=merge(first.presentation, second.presentation),
        waited_s=(3.0, 2.0, 1.0),
        trace_id=None,
        since_utc=first.since_utc,
    )
    keep(place.outbox("first"), both)
    place.kill("first")
    (found,) = adopt_all(place.outbox("second"))
    assert found == both
    assert texts(found.presentation) == ["one", "two", "three"]


def test_equal_texts_without_an_id_stay_several(place: Place) -> None:
    kept = parcel("yes", "no", "yes", ids=False)
    keep(place.outbox("first"), kept)
    place.kill("first")
    assert adopt_all(place.outbox("second")) == [kept]


def test_any_text_comes_back_unchanged(place: Place) -> None:
    kept = parcel("'; DROP TABLE message; --", "日本語 🎉", "line\nline\u2028\t", "é" * 3000)
    keep(place.outbox("first"), kept)
    place.kill("first")
    assert adopt_all(place.outbox("second")) == [kept]


def test_depth_counts_all_owners_and_the_oldest(place: Place) -> None:
    assert place.outbox("nobody").depth().messages == 0
    keep(place.outbox("first"), parcel("one", "two", since="2030-01-02T00:00:00Z"))
    told = keep(
        place.outbox("second"), parcel("x" * 1000, session_id=OTHER, since="2030-01-01T00:00:00Z")
    )
    found = place.outbox("third").depth()
    assert found == told
    assert (found.sessions, found.messages) == (2, 3)
    assert found.since_utc == "2030-01-01T00:00:00Z"
    assert 2000 < found.text_bytes < 2200


def test_entries_tell_whose_and_how_much_and_no_text(place: Place) -> None:
    assert place.outbox("nobody").entries() == ()
    keep(place.outbox("first"), parcel("one", "two"))
    (entry,) = place.outbox("second").entries()
    assert (entry.owner, entry.session_id, entry.messages) == ("first", SESSION, 2)
    assert "one" not in repr(entry)


def test_what_the_dead_left_for_a_user_is_erased_and_nothing_else(place: Place) -> None:
    assert place.outbox("nobody").erase("df_alice") == 0
    keep(place.outbox("dead"), parcel("one", "two", user="df_alice"))
    keep(place.outbox("dead"), parcel("three", session_id=OTHER, user="df_bob"))
    keep(place.outbox("alive"), parcel("four", user="df_alice"))
    place.kill("dead")
    assert place.outbox("other").erase("df_alice") == 2
    place.kill("alive")
    found = sorted(texts(p.presentation)[0] for p in adopt_all(place.outbox("heir")))
    assert found == ["four", "three"]


def test_a_broken_place_is_begun_anew_and_says_so(place: Place) -> None:
    outbox = place.outbox("first")
    before = keep(outbox, parcel("one")).generation
    assert keep(outbox, parcel("one")).generation == before
    place.damage()
    with suppress(OutboxError):  # it is told at most once
        keep(outbox, parcel("two"))
    assert keep(outbox, parcel("two")).generation != before
    place.kill("first")
    assert [texts(p.presentation) for p in adopt_all(place.outbox("second"))] == [["two"]]


def test_nothing_is_kept_when_one_of_several_cannot_be_told(place: Place) -> None:
    outbox = place.outbox("first")

    def fails(session_id: str) -> Parcel | None:
        if session_id == OTHER:
            raise LookupError
        return parcel("one")

    with pytest.raises(LookupError):
        outbox.keep([SESSION, OTHER], fails)
    assert outbox.depth().messages == 0
    assert keep(outbox, parcel("one")).messages == 1


def test_what_waits_is_asked_while_no_other_keep_runs(place: Place) -> None:
    outbox = place.outbox("first")
    inside = threading.Semaphore(0)
    seen: list[int] = []

    def waiting(_: str) -> Parcel | None:
        seen.append(1)
        inside.acquire(timeout=0.05)
        seen.append(2)
        return None

    threads = [threading.Thread(target=outbox.keep, args=([SESSION], waiting)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [1, 2] * 3


def test_closing_leaves_everything_to_the_heir(place: Place) -> None:
    outbox = place.outbox("first")
    keep(outbox, parcel("one"))
    outbox.close()
    outbox.close()
    place.kill("first")
    assert len(adopt_all(place.outbox("second"))) == 1


def test_who_wants_none_has_an_outbox_that_keeps_nothing() -> None:
    outbox: Outbox = VolatileOutbox()
    asked: Callable[[Parcel], Parcel | None] = lambda left: left  # noqa: E731 - a typed stand-in
    assert outbox.durable is False
    assert keep(outbox, parcel("one")) == outbox.depth()
    assert (outbox.adopt(asked), outbox.entries(), outbox.erase("df_user")) == (0, (), 0)
    outbox.close()
