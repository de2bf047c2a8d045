"""Sets the demo up, plays it, and leaves nothing behind."""

import asyncio
import secrets
import tempfile
import time
from pathlib import Path

from resilient_ov.settings import ServerProfile
from resilient_ov_manager.demo.child import ChildServer
from resilient_ov_manager.demo.host import Host, build_manager
from resilient_ov_manager.demo.log import LogLines
from resilient_ov_manager.demo.names import ACCOUNT, POLICY, Names, configuration
from resilient_ov_manager.demo.reading_back import Reader
from resilient_ov_manager.demo.stage import Stage, shown_time
from resilient_ov_manager.demo.story import Story
from resilient_ov_manager.host_config import parse_config

OPENING = """\
A DeerFlow agent remembers through an OpenViking server. This demo starts one (the embedded one, \
as a process of its own), talks with two users and two agents, then kills the server in the \
middle of the conversation.

Watch two things: how long each call takes, and what the server holds at the end."""


def play(stage: Stage, profile: ServerProfile = ServerProfile.V0_5) -> bool:
    """Play the whole demo on a server profile; return whether every check held.

    Raises:
        CommandError: the server did not start.

    """
    began_s = time.monotonic()
    stage.opening(OPENING)
    key = secrets.token_hex(16)
    with (
        tempfile.TemporaryDirectory(prefix="resilient-ov-demo-") as name,
        ChildServer(Path(name), key, profile) as server,
        LogLines() as log,
        asyncio.Runner() as runner,
    ):
        folder = Path(name)
        key_file = folder / "key"
        key_file.write_text(key)
        took_s = server.start()
        stage.note(
            f"Server: {server.url} (pid {server.pid}), profile {profile.value},"
            f" up in {shown_time(took_s)}."
        )
        if profile is ServerProfile.NAMESPACE:
            server.make_account(ACCOUNT, POLICY)
            stage.note("Account: its policy keeps a user's memory apart per agent.")
        raw = configuration(server.url, key_file, folder / "gateway", profile)
        names = Names(parse_config(raw))
        manager = build_manager(raw)
        reader = Reader(server.url, key, names)
        try:
            story = Story(
                stage=stage,
                server=server,
                host=Host(manager, runner),
                reader=reader,
                names=names,
                log=log,
            )
            story.remember()
            story.recall()
            story.keep_apart()
            story.lose_the_server()
            story.get_it_back()
            story.go_on()
        finally:
            manager.close()
            reader.close()
    return stage.closing(time.monotonic() - began_s)
