"""Starting a server: everything that is refused is refused here, before a port is open.

One process answers by itself. Several (`workers`) share the port, the ledger and the counts of quotas, and each
loads the ensemble; the first process looks after them, starts again what was killed, and has the operator's page.
"""

import contextlib
import gc
import ipaddress
import logging
import multiprocessing
import os
import signal
import socket
import ssl
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any, Final

import uvicorn
from starlette.types import ASGIApp

from reticent.core.errors import ConfigError
from reticent.core.guarantee import Guarantee
from reticent.prediction.budgets import MechanismName
from reticent.prediction.mechanisms.mechanism import Layout
from reticent.runs.ensemble.manifest import Manifest
from reticent.runs.ensemble.prediction import PredictionSettings, with_base
from reticent.runs.ledger_place import LedgerPlace
from reticent.runs.proofs.certificates import weights_guarantee
from reticent.server.access.keys import KeyFile
from reticent.server.access.quotas import Quotas, usage_path
from reticent.server.backends.backend import ALONE, Backend, open_ensemble, sentences
from reticent.server.backends.weights import weights_notes
from reticent.server.http.connections import connection_class
from reticent.server.limits import Limits

LOG: Final = logging.getLogger("reticent.serve")
LEDGER_SECONDS: Final = 5.0  # that a charge may take; then nothing is released and the lock is let go of
_SETTLED: Final = 5.0  # seconds after which a worker that ends is started again


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """What a server is started with: all public but the contents of the files it names.

    `settings` is None for a model whose weights are protected. `memfree` is the training text for its filter;
    `ledger` where an ensemble is charged.
    """

    run: Path
    name: str
    settings: PredictionSettings | None
    ledger: LedgerPlace = field(default_factory=LedgerPlace)
    limits: Limits = field(default_factory=Limits)
    keys: Path | None = None
    memfree: Path | None = None
    memfree_length: int = 8
    host: str = "127.0.0.1"
    port: int = 8000
    workers: int = 1
    operator_port: int | None = None
    tls_certificate: Path | None = None
    tls_key: Path | None = None

    def check(self) -> None:
        """Refuse combinations that nobody should run."""
        if self.workers < 1:
            raise ConfigError("a server needs at least one worker", found=self.workers)
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ConfigError("TLS needs both --tls-cert and --tls-key")
        if self.tls_certificate is not None and self.tls_key is not None:
            try:
                ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(
                    self.tls_certificate, self.tls_key
                )
            except (OSError, ssl.SSLError):
                raise ConfigError("the certificate and key of TLS cannot be used together") from None
        if self.keys is None and not is_loopback(self.host):
            raise ConfigError(
                f"--host {self.host} is open to others and needs keys",
                hint="reticent keys add NAME --file keys.json, then --keys keys.json",
            )
        if self.operator_port is not None and self.keys is None:
            raise ConfigError("the operator's page needs --keys with an operator's key")
        keys = self.key_file()
        if self.operator_port is not None and (keys is None or not any(key.is_operator for key in keys.keys)):
            raise ConfigError("no key in the key file is an operator's", hint="reticent keys add NAME --operator")
        if self.ledger.address is not None and self.settings is None:
            raise ConfigError(
                "a model whose weights are protected has nothing to charge", hint="leave --ledger out"
            )
        if (
            self.settings is not None
            and self.settings.until is not None
            and (self.workers > 1 or self.ledger.address is not None)
        ):
            raise ConfigError(
                "--until counts the answers of one process, and here several share the budget",
                hint="use --workers 1 and a ledger of its own, or an ensemble whose first use had no --until",
            )
        if self.memfree is not None and self.settings is not None:
            raise ConfigError(
                "MemFree would void an ensemble's guarantee",
                hint="it is for models whose weights are protected, of which it voids the answers' guarantee too",
            )

    def key_file(self) -> KeyFile | None:
        """Who may ask; None where everybody on this machine may. ConfigError where the file cannot be used."""
        return None if self.keys is None else KeyFile(self.keys)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@contextmanager
def open_backend(serving: Serving) -> Iterator[Backend]:
    """The model or ensemble of a server, its ledger checked from the first row to the last."""
    if serving.settings is not None:
        place = replace(serving.ledger, timeout=LEDGER_SECONDS)
        with open_ensemble(serving.run, serving.settings, name=serving.name, place=place) as backend:
            yield backend
        return
    from reticent.data.reading.corpus_file import open_corpus
    from reticent.server.backends.weights import n_gram_index, open_weights

    index = None
    if serving.memfree is not None:
        texts = (record.text for record in open_corpus(serving.memfree))
        index = n_gram_index(serving.run, texts, serving.memfree_length)
    with open_weights(serving.run, name=serving.name, index=index) as backend:
        yield backend


def serve(serving: Serving, announce: Callable[[int], None]) -> int:
    """Answer until told to stop; the exit code. `announce` is called with the port once clients can connect."""
    serving.check()
    with ExitStack() as stack:
        port = stack.enter_context(_bound(serving))
        if serving.workers > 1:
            with open_backend(serving):  # refuses what must be refused, and makes the ledger, once for all workers
                serving = replace(serving, ledger=replace(serving.ledger, joins=False))
            stack.enter_context(_operator_port(serving))
            return _workers(serving, port, announce)
        backend = stack.enter_context(open_backend(serving))
        stack.enter_context(_operator_port(serving))
        _run(server(backend, serving), port, announce)
        return 0


class _Stopped(Exception):
    """A signal ended the server, which was shut down in good order."""


def _run(web: uvicorn.Server, port: socket.socket, announce: Callable[[int], None] | None = None) -> None:
    """Answer until a signal comes, then go on here, so that ledger and witness are closed."""
    if announce is not None:
        begin = web.startup

        async def listen(sockets: list[socket.socket] | None = None) -> None:
            await begin(sockets=sockets)
            announce(port.getsockname()[1])

        web.startup = listen  # type: ignore[method-assign]

    def stop(*_: object) -> None:
        raise _Stopped

    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, stop)  # uvicorn shuts down first, then sends itself the signal again
    with contextlib.suppress(_Stopped), long_lived_memory():
        web.run(sockets=[port])


@contextmanager
def long_lived_memory() -> Iterator[None]:
    """What is loaded by now is not searched for garbage meanwhile: that made an answer wait for half a second."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


@contextmanager
def _bound(serving: Serving) -> Iterator[socket.socket]:
    """The public port, or an error that says so."""
    family = socket.AF_INET6 if ":" in serving.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as port:
        port.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            port.bind((serving.host, serving.port))
        except OSError as error:
            raise ConfigError(
                f"{serving.host}:{serving.port} cannot be used", found=error.strerror, hint="choose another --port"
            ) from None
        port.set_inheritable(True)
        yield port


def server(backend: Backend, serving: Serving) -> uvicorn.Server:
    """The web server of one process. Prometheus' library is imported here: it looks at the environment then."""
    from reticent.server.http.api import create_app
    from reticent.server.service import Service

    quotas = Quotas(None if serving.keys is None else usage_path(serving.keys))
    service = Service(backend, serving.limits, keys=serving.key_file(), quotas=quotas)
    tls: dict[str, Any] = {}
    if serving.tls_certificate is not None and serving.tls_key is not None:
        tls = {"ssl_certfile": str(serving.tls_certificate), "ssl_keyfile": str(serving.tls_key)}
    app = create_app(service)
    return uvicorn.Server(web_config(app, host=serving.host, port=serving.port, limits=serving.limits, **tls))


def web_config(app: ASGIApp, *, host: str, port: int, limits: Limits | None = None, **tls: Any) -> uvicorn.Config:
    """No access log, no header that names the software, no websockets; connections with limits."""
    limits = limits or Limits()
    return uvicorn.Config(
        app,
        http=connection_class(connections=limits.connections, patience=limits.patience),
        host=host,
        port=port,
        log_config=None,
        access_log=False,
        server_header=False,
        ws="none",
        lifespan="on",
        timeout_keep_alive=max(1, min(15, int(limits.patience))),
        timeout_graceful_shutdown=30,
        **tls,
    )


@contextmanager
def _operator_port(serving: Serving) -> Iterator[None]:
    """The operator's page in a thread, on loopback."""
    if serving.operator_port is None or serving.keys is None:
        yield
        return
    from reticent.server.operator.page import operator_app

    with ExitStack() as stack:
        ledger = queries = None
        if serving.settings is not None and serving.settings.mechanism is not MechanismName.PUBLIC:
            ledger, queries = stack.enter_context(serving.ledger.open(serving.run)), serving.settings.queries
        quotas = Quotas(usage_path(serving.keys))
        app = operator_app(ledger, KeyFile(serving.keys), quotas, name=serving.name, queries=queries)
        page = uvicorn.Server(web_config(app, host="127.0.0.1", port=serving.operator_port))
        thread = threading.Thread(target=page.run, name="reticent-operator", daemon=True)
        thread.start()
        try:
            yield
        finally:
            page.should_exit = True
            thread.join(10.0)


def _workers(serving: Serving, port: socket.socket, announce: Callable[[int], None]) -> int:
    """Look after the worker processes until a signal ends them all."""
    ending = threading.Event()
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, lambda *_: ending.set())
    with tempfile.TemporaryDirectory(prefix="reticent-metrics-") as counts:
        workers = [_started(serving, port, counts) for _ in range(serving.workers)]
        code = 0
        is_announced = False
        while not ending.wait(0.2):
            if not is_announced and _is_listening(port):
                is_announced = True
                announce(port.getsockname()[1])
            for place, (worker, since) in enumerate(workers):
                if worker.is_alive():
                    continue
                if time.monotonic() - since < _SETTLED or worker.exitcode == 0:
                    LOG.error("a worker ended with code %s: stopping", worker.exitcode)
                    code = 1
                    ending.set()
                    break
                LOG.warning("a worker ended with code %s: starting another", worker.exitcode)
                workers[place] = _started(serving, port, counts)
        for worker, _ in workers:
            worker.terminate()
        for worker, _ in workers:
            worker.join(40.0)
        return code


def _is_listening(port: socket.socket) -> bool:
    """Whether a worker has begun to listen on the port that all of them share."""
    return bool(port.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))


def _started(serving: Serving, port: socket.socket, counts: str) -> tuple[SpawnProcess, float]:
    context = multiprocessing.get_context("spawn")
    worker = context.Process(target=_work, args=(serving, port, counts))
    worker.start()
    return worker, time.monotonic()


def _work(serving: Serving, port: socket.socket, counts: str) -> None:
    """One worker process."""
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = counts  # before the library is imported
    log_plainly()
    with open_backend(serving) as backend:
        _run(server(backend, serving), port)


def log_plainly() -> None:
    """Log lines of the server on stderr: time, level, words."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    LOG.setLevel(logging.INFO)
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)


def promised(serving: Serving) -> tuple[Guarantee | None, list[str]]:
    """The guarantee of all answers together, None where they have none, and what it says in words."""
    settings = serving.settings
    if settings is None:
        guarantee = weights_guarantee(serving.run)
        notes = weights_notes(guarantee, is_filtered=serving.memfree is not None)
        promise = guarantee if serving.memfree is None else None
        return promise, sentences(promise, notes)
    manifest = Manifest.read(serving.run)
    layout = Layout.halves(manifest.parts) if manifest.halves else Layout.single(manifest.parts)
    budget = with_base(serving.run, settings.set_up(layout)).budget
    promise = None if budget is None else budget.guarantee
    return promise, sentences(promise, () if promise is not None else (ALONE,))
