"""What a new user or agent scope holds from its first use on.

Functions take the open connection and run inside the caller's transaction. Only scope roots are
furnished; the containers above them hold nothing of their own. Empty directories need no row: the
layout presets them.
"""

import sqlite3
from typing import Final

from resilient_ov.domain.namespace import PRESET_DIRECTORIES, PROFILE_FILE, Area
from resilient_ov.embedded import files
from resilient_ov.embedded.auth import Caller
from resilient_ov.embedded.files import ABSTRACT, OVERVIEW
from resilient_ov.embedded.layout import Layout
from resilient_ov.embedded.layout_account import own_roots

_ABSTRACTS: Final = {
    Area.USER: "What is remembered of one user.",
    Area.AGENT: "What one agent has learned, can do and is told.",
}


def furnish(db: sqlite3.Connection, layout: Layout, caller: Caller) -> None:
    """Put the notes of the caller's two scope roots and an empty profile, once."""
    shelf = layout.shelf(caller)
    for area, root in own_roots(caller).items():
        if files.read(db, shelf, root.child(ABSTRACT)) is not None:
            continue
        listed = [f"- {'/'.join(path)}/" for path in PRESET_DIRECTORIES[area]]
        if area is Area.USER:
            files.write(db, shelf, root.child(PROFILE_FILE), "", ["memory_type=profile"])
            listed.append(f"- {PROFILE_FILE}")
        files.write_note(db, shelf, root, ABSTRACT, _ABSTRACTS[area])
        files.write_note(db, shelf, root, OVERVIEW, "\n".join([f"# {area.value}", *listed]))
