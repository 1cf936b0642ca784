"""Where a ledger in PostgreSQL is: a URL of which nothing secret is ever shown.

    postgresql://[user[:password]@]host[:port]/database[?libpq options][#ledger]

The fragment names one of several ledgers in a database; without it the name is `ledger`. Everything before it goes
to libpq as it is, so that `~/.pgpass`, `PGPASSWORD`, service files and TLS options work. What is shown of an
address, in messages, logs and `repr`, is host, port, database and ledger; a URL that cannot be taken apart for
certain is refused without showing any of it, since nobody knows which part of it is the password.
"""

import re
from dataclasses import dataclass, field

from reticent.core.errors import ConfigError

_DEFAULT = "ledger"
_HOST = r"(?:[\w.%-]*|\[[0-9A-Fa-f:.]+\])(?::\d*)?"
# At most one @, and a place that is hosts and ports: no part that is shown can be a part of a password.
_FORM = re.compile(
    rf"postgres(?:ql)?://(?:[^/?#@\s]*@)?(?P<place>{_HOST}(?:,{_HOST})*)"
    r"(?P<database>/[^/?#@\s]*)?(?:\?[^#@\s]*)?(?:#(?P<ledger>[A-Za-z0-9._-]{1,63}))?"
)


@dataclass(frozen=True, slots=True)
class PostgresAddress:
    """A database and the name of a ledger in it. `conninfo` may hold a password and is never shown."""

    shown: str
    ledger: str
    conninfo: str = field(repr=False)

    @classmethod
    def parse(cls, url: str) -> "PostgresAddress":
        """The address in a URL; ConfigError, showing nothing of it, if it is not one."""
        found = _FORM.fullmatch(url)
        if found is None:
            raise ConfigError(
                "the ledger's address cannot be read (not shown: it may hold a password)",
                expected="postgresql://user@host:port/database#ledger",
                hint="write / ? # @ in a password as %2F %3F %23 %40, or keep it in ~/.pgpass",
            )
        ledger = found["ledger"] or _DEFAULT
        shown = f"postgresql://{found['place']}{found['database'] or '/'}#{ledger}"
        return cls(shown, ledger, url.partition("#")[0])

    def __str__(self) -> str:
        return self.shown
