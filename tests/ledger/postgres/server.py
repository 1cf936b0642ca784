"""A real PostgreSQL for tests: Debian's, or the one on the path, in a folder and on a socket of its own."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from tests.patience import PATIENCE

PASSWORD = "hunter2-of-the-ledger"
USER = "reticent_operator"


def find_program(name: str) -> str | None:
    """A program of PostgreSQL, which Debian keeps off the path."""
    beside = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda path: float(path.parts[4]))
    return shutil.which(name) or (str(beside[-1]) if beside else None)


class PostgresServer:
    """A cluster that can be started, killed like a machine that loses power, and started again."""

    def __init__(self) -> None:
        # In memory where there is room: the tests kill processes, not machines, and recovery syncs every file.
        memory = Path("/dev/shm")
        is_roomy = memory.is_dir() and shutil.disk_usage(memory).free > 2**28
        self.folder = Path(tempfile.mkdtemp(prefix="reticent-pg-", dir=memory if is_roomy else None))
        self._as: dict[str, object] = {}
        if os.getuid() == 0:  # PostgreSQL refuses to run as root
            user = next((u for u in pwd.getpwall() if u.pw_name == "postgres"), pwd.getpwnam("nobody"))
            os.chown(self.folder, user.pw_uid, user.pw_gid)
            self._as = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        (self.folder / "password").write_text(PASSWORD)
        (self.folder / "password").chmod(0o644)
        data = str(self.folder / "data")
        make = [find_program("initdb"), "-D", data, "-U", USER, "-A", "scram-sha-256", "--no-locale", "-E", "UTF8"]
        make += ["--no-sync", "--no-instructions", "--pwfile", str(self.folder / "password")]
        subprocess.run(make, check=True, capture_output=True, cwd=self.folder, **self._as)
        self._process: subprocess.Popen | None = None

    @property
    def url(self) -> str:
        return f"postgresql://{USER}:{PASSWORD}@/postgres?host={self.folder}"

    def start(self, **settings: str) -> "PostgresServer":
        """Start, and wait until it answers; a crash before makes it recover first."""
        options = {"listen_addresses": "", "shared_buffers": "16MB", "max_connections": "40", **settings}
        command = [find_program("postgres"), "-D", str(self.folder / "data"), "-k", str(self.folder)]
        command += [f"-c{name}={value}" for name, value in options.items()]
        deadline = time.monotonic() + PATIENCE
        while True:
            if self._process is None or self._process.poll() is not None:  # shared memory may still be in use
                with (self.folder / "log").open("ab") as log:
                    self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder, **self._as)
            if self._answers():
                return self
            assert time.monotonic() < deadline, (self.folder / "log").read_text()[-2000:]
            time.sleep(0.05)

    def kill(self) -> None:
        """SIGKILL to the server and all its processes."""
        assert self._process is not None
        everyone = [self._process.pid, *_children(self._process.pid)]
        for process in everyone:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self._process.wait(30)
        self._process = None

    def stop(self) -> None:
        """Stop at once and remove the folder."""
        if self._process is not None:
            self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def execute(self, *statements: str) -> None:
        """Run statements as the owner."""
        import psycopg

        with psycopg.connect(self.url, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement)

    def _answers(self) -> bool:
        import psycopg

        try:
            psycopg.connect(self.url, connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True


def _children(parent: int) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError, IndexError):
            if int(path.read_text().rpartition(")")[2].split()[1]) == parent:
                found.append(int(path.parent.name))
    return found
