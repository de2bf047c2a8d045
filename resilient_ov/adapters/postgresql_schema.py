"""The tables of the shared state: their version, how they are made, who may do what with them.

Rule: a version is made by one migration, in one transaction, by a role that may; the gateways
never change a table and refuse one that is missing, older or newer than theirs.

The tables lie in the first schema of the role's search path, so that several installations can
share a database: each with a schema of its own.
"""

from resilient_ov.adapters.postgresql_database import Connection, Database, DatabaseError

SCHEMA_VERSION = 1

TABLES = ("schema", "owners", "leader", "sessions", "kept_aside")

# One string for each version; each is run once, whole or not at all.
MIGRATIONS = (
    """
    CREATE TABLE resilient_ov_schema (
        one boolean PRIMARY KEY DEFAULT true CHECK (one), version integer NOT NULL);
    CREATE TABLE resilient_ov_owners (token text PRIMARY KEY, lease_until timestamptz NOT NULL);
    CREATE TABLE resilient_ov_leader (
        one boolean PRIMARY KEY DEFAULT true CHECK (one), token text NOT NULL);
    CREATE TABLE resilient_ov_sessions (
        session_id text PRIMARY KEY, fence bigint NOT NULL, holder text,
        revision bigint NOT NULL DEFAULT 0, state text,
        unfinished boolean NOT NULL DEFAULT false) WITH (fillfactor = 70);
    CREATE INDEX resilient_ov_unfinished ON resilient_ov_sessions (session_id) WHERE unfinished;
    CREATE TABLE resilient_ov_kept_aside (
        session_id text NOT NULL, kept_at timestamptz NOT NULL DEFAULT now(), state text NOT NULL);
    INSERT INTO resilient_ov_schema (version) VALUES (1);
    """,
)

# Two migrations at once wait for each other; the number is ours alone.
_ONE_AT_A_TIME = "SELECT pg_advisory_xact_lock(7305442186401);"
_VERSION = "SELECT version FROM resilient_ov_schema"


def grants(role: str) -> str:
    """Return the least rights of a gateway's role, as SQL for the owner of the tables."""
    return "\n".join(
        (
            f"GRANT SELECT ON resilient_ov_schema TO {role};",
            f"GRANT SELECT, INSERT, UPDATE, DELETE ON resilient_ov_owners TO {role};",
            f"GRANT SELECT, INSERT, UPDATE ON resilient_ov_leader TO {role};",
            f"GRANT SELECT, INSERT, UPDATE, DELETE ON resilient_ov_sessions TO {role};",
            f"GRANT SELECT, INSERT ON resilient_ov_kept_aside TO {role};",
        )
    )


def version_of(database: Database) -> int:
    """Return the version of the tables, 0 = there are none.

    Raises:
        DatabaseError: it could not be read.
    """
    try:
        rows = database.run(_VERSION)
    except DatabaseError as error:
        if error.problem != "schema_missing":
            raise
        return 0
    return _number(rows[0][0]) if rows else 0


def migrate(database: Database) -> tuple[int, int]:
    """Bring the tables to our version; return the version before and after. Does nothing twice.

    Raises:
        DatabaseError: it could not be done, and nothing changed; ``schema_newer``: the tables
            belong to a newer version.
    """
    before = version = version_of(database)
    if version > SCHEMA_VERSION:
        raise DatabaseError("schema_newer")
    while version < SCHEMA_VERSION:
        # Another migration that came first makes this one fail whole, and is seen by the look.
        try:
            database.run(_ONE_AT_A_TIME + MIGRATIONS[version])
        except DatabaseError:
            if version_of(database) <= version:
                raise
        version += 1
    return before, version


def check(connection: Connection, until_s: float) -> None:
    """Refuse tables that are not of our version.

    Raises:
        DatabaseError: ``schema_missing``, ``schema_older``, ``schema_newer``, or another problem.
    """
    rows = connection.execute(_VERSION, None, until_s)
    version = _number(rows[0][0]) if rows else 0
    if version < SCHEMA_VERSION:
        raise DatabaseError("schema_older" if rows else "schema_missing")
    if version > SCHEMA_VERSION:
        raise DatabaseError("schema_newer")


def _number(value: object) -> int:
    if not isinstance(value, int):
        raise DatabaseError("io")
    return value
