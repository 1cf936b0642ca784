"""A Ray cluster of two nodes on one machine: `ray start` twice, each with its own processes, to be killed."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path


class Node:
    """One `ray start --block` in a session of its own."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._log = (folder / "start.log").open("wb")
        command = [str(Path(sys.executable).parent / "ray"), "start", "--block", "--num-cpus", "1", *arguments]
        extra = {"RAY_USAGE_STATS_ENABLED": "0", "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
        self.process = subprocess.Popen(
            command,
            env=os.environ | extra,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            cwd=Path(__file__).resolve().parents[2],
        )

    def kill(self) -> None:
        """SIGKILL for everything the node started, as if the machine lost its power."""
        import psutil

        try:
            family = [*psutil.Process(self.process.pid).children(recursive=True), psutil.Process(self.process.pid)]
        except psutil.NoSuchProcess:
            family = []
        for each in family:
            try:
                os.kill(each.pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self.process.wait(10)
        self._log.close()


class Cluster:
    """Two nodes of one processor each; `address` is the first one's."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.address = f"127.0.0.1:{port}"
        small = ("--object-store-memory", str(100 * 2**20), "--disable-usage-stats")
        self.first = Node(
            folder / "first",
            *("--head", "--port", str(port), "--node-ip-address", "127.0.0.1", "--include-dashboard", "false"),
            *("--temp-dir", str(folder / "r"), *small),
        )
        self._wait(port)
        self.second = Node(folder / "second", "--address", self.address, "--node-ip-address", "127.0.0.1", *small)

    @staticmethod
    def _wait(port: int, seconds: float = 90) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    return
            time.sleep(0.2)
        raise TimeoutError("the first node of the cluster did not start")

    def close(self) -> None:
        """Kill what is left."""
        for node in (self.second, self.first):
            node.kill()


def living_nodes() -> int:
    """Nodes that the cluster believes to be alive."""
    import ray

    return sum(node["Alive"] for node in ray.nodes())


def wait_for_nodes(count: int, seconds: float = 90) -> None:
    """Until the cluster has so many living nodes."""
    deadline = time.monotonic() + seconds
    while living_nodes() != count:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{living_nodes()} nodes instead of {count}")
        time.sleep(0.2)
