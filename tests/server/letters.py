"""A server on an ensemble of letters: a table of known distributions, a token a letter, nothing trained."""

import json
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import uvicorn

from reticent.prediction.mechanisms.mechanism import Layout
from reticent.runs.ensemble.prediction import settings_of
from reticent.server.access.quotas import Quotas
from reticent.server.backends.backend import open_ensemble
from reticent.server.http.api import create_app
from reticent.server.launching import web_config
from reticent.server.limits import Limits
from reticent.server.service import Service
from tests.patience import PATIENCE
from tests.prediction.tables import RandomTable, TableEnsemble, TablePublic

LETTERS = "\0abcdefghijklmnopqrstuvwxyz "
ASKED = {"epsilon": 8.0, "delta": 1e-5, "queries": 2000}
NAME = "letters"


class LetterModel(TablePublic):
    """A letter a token; token 0 begins and, where `end` says so, ends a text."""

    vocabulary_size = len(LETTERS)

    def __init__(self, table, *, end=False, context_length=200):
        super().__init__(table)
        self.end_token = 0 if end else None
        self.context_length = context_length

    def encode(self, texts):
        return [[max(1, LETTERS.find(letter)) for letter in text.lower()] for text in texts]

    def decode(self, sequences):
        return ["".join(LETTERS[token] for token in tokens) for tokens in sequences]


class LetterEnsemble(TableEnsemble):
    """Three parts; `pause` is how long a look-up takes at least."""

    def __init__(self, *, seed=0, end=False, pause=0.0, context_length=200):
        table = RandomTable(seed, rows=3, vocabulary=len(LETTERS))
        super().__init__(table, Layout.single(3))
        self.public = LetterModel(table, end=end, context_length=context_length)
        self.pause = pause

    def streams(self):
        made = super().streams()
        if self.pause:
            plain = made.look_up
            made.look_up = lambda handles: (time.sleep(self.pause), plain(handles))[1]
        return made


def make_run(folder: Path) -> Path:
    """A run directory that an ensemble can be served from."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "run.json").write_text(json.dumps({"schema_version": 1, "command": "train"}))
    return folder


@contextmanager
def opened(run, *, ensemble=None, asked=ASKED, place=None):
    """The backend of a run of letters."""
    settings = settings_of(run, asked)
    with open_ensemble(run, settings, name=NAME, ensemble=ensemble or LetterEnsemble(), place=place) as backend:
        yield backend


class Address:
    """Where a server listens, and its service."""

    def __init__(self, port, service):
        self.url, self.port, self.service = f"http://127.0.0.1:{port}", port, service


@contextmanager
def listening(app, limits=None):
    """Any application on a free port, in a thread."""
    web = uvicorn.Server(web_config(app, host="127.0.0.1", port=0, limits=limits))
    thread = threading.Thread(target=web.run, daemon=True)
    thread.start()
    deadline = time.monotonic() + PATIENCE
    while not web.started:
        assert thread.is_alive()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    try:
        yield web.servers[0].sockets[0].getsockname()[1]
    finally:
        web.should_exit = True
        thread.join(60)


@contextmanager
def serving(run, *, ensemble=None, limits=None, keys=None, asked=ASKED, place=None):
    """A server of letters."""
    with opened(run, ensemble=ensemble, asked=asked, place=place) as backend:
        service = Service(backend, limits or Limits(), keys=keys, quotas=Quotas(None))
        with listening(create_app(service), limits) as port:
            yield Address(port, service)


def serve_for_ever(run: Path, pause: float, asked=ASKED, place=None) -> None:
    """A server of letters that fills a process of its own; its port goes to RUN/port."""
    with serving(run, ensemble=LetterEnsemble(pause=pause), asked=asked, place=place) as address:
        (run / "port.new").write_text(str(address.port))
        (run / "port.new").rename(run / "port")
        threading.Event().wait()
