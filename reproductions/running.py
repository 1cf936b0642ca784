"""Run an experiment piece by piece; what was computed once is read from the run directory.

    RUN/pieces/<experiment>/<piece>-<key>.json     a finished piece: its key's content, seconds, values

The key is a hash of all that a piece's values may depend on: experiment (or what several share), piece, scale,
parameters, seed, the contents of the files it reads, the code that it runs (`sources`) and the versions of the
libraries. Change one of them and the piece is computed anew, change none and it is read: a result is never stale. A
piece's file is written whole or not at all, so a run that was killed goes on with the pieces it lacks. Nothing else
is remembered: deleting a file is how to compute it again.

Pieces are independent: an engine runs several at once, each in a process with one thread.
"""

import hashlib
import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from reproductions.experiment import Experiment, Piece, Rendering, Scale, Values
from reproductions.sources import source_fingerprint
from reticent import __version__
from reticent.core import ConfigError, Randomness, read_document, write_document
from reticent.engine import EngineSettings, open_engine, run_pieces
from reticent.engine import Piece as Work
from reticent.runs import package_versions

SCHEMA_VERSION: Final = 2
Observe = Callable[[str, bool], None]
Land = Callable[[str, Values], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """How experiments are run: `data` holds the files that some of them read; no engine is this process alone."""

    folder: Path
    scale: Scale = Scale.SMALL
    seed: int = 7
    data: Path | None = None
    engine: EngineSettings | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reproduction:
    """A finished experiment: the values of its pieces and what they show. `seconds` is what computing them took."""

    experiment: Experiment
    scale: Scale
    seed: int
    values: Mapping[str, Values]
    seconds: float
    computed: int  # pieces that were not read from the cache
    rendering: Rendering

    def to_json(self) -> dict[str, Any]:
        """A document with a schema version: verdicts, tables and the pieces' values."""
        return {
            "schema_version": SCHEMA_VERSION,
            "experiment": self.experiment.name,
            "scale": self.scale.value,
            "seed": self.seed,
            "version": __version__,
            "seconds": self.seconds,
            "computed": self.computed,
            "judgements": [
                {"claim": one.claim, "verdict": one.verdict.value, "reason": one.reason}
                for one in self.rendering.judgements
            ],
            "tables": [
                {"title": one.title, "columns": list(one.columns), "rows": [list(row) for row in one.rows]}
                for one in self.rendering.tables
            ],
            "values": dict(self.values),
        }


def reproduce(experiment: Experiment, course: Course, *, observe: Observe = lambda _, __: None) -> Reproduction:
    """Compute the pieces that the folder lacks, then render all; `observe(piece, was cached)` after each."""
    pieces = _pieces(experiment, course)
    contents = {piece.name: _content(experiment, piece, course) for piece in pieces}
    paths = {name: _path(course.folder, content) for name, content in contents.items()}
    missing = []
    for piece in pieces:
        if _cached(paths[piece.name], contents[piece.name]) is None:
            missing.append(piece)
        else:
            observe(piece.name, True)

    def land(name: str, document: Values) -> None:
        write_document(paths[name], document)
        observe(name, False)

    _compute(experiment, missing, course, land)
    documents = {piece.name: read_document(paths[piece.name]) for piece in pieces}
    values = {name: document["values"] for name, document in documents.items()}
    return Reproduction(
        experiment=experiment,
        scale=course.scale,
        seed=course.seed,
        values=values,
        seconds=sum(document["seconds"] for document in documents.values()),
        computed=len(missing),
        rendering=experiment.render(values),
    )


def is_finished(experiment: Experiment, course: Course) -> bool:
    """Whether every piece whose files are there stands in the folder, so that `reproduce` computes nothing."""
    contents = [_content(experiment, piece, course) for piece in _present(experiment, course)]
    return bool(contents) and all(_cached(_path(course.folder, one), one) is not None for one in contents)


def lacks_files(experiment: Experiment, course: Course) -> tuple[str, ...]:
    """Files without which no piece of an experiment can be computed; none where at least one piece can."""
    if _present(experiment, course):
        return ()
    return tuple(dict.fromkeys(name for piece in experiment.pieces(course.scale) for name in piece.files))


def _present(experiment: Experiment, course: Course) -> list[Piece]:
    """The pieces whose files are there."""
    folder = course.data
    return [
        piece
        for piece in experiment.pieces(course.scale)
        if not piece.files or (folder is not None and all((folder / name).is_file() for name in piece.files))
    ]


def _pieces(experiment: Experiment, course: Course) -> Sequence[Piece]:
    if course.scale not in experiment.scales:
        raise ConfigError(
            f"{experiment.name} was not written for this scale",
            found=course.scale.value,
            expected=" or ".join(one.value for one in experiment.scales),
        )
    if lacking := lacks_files(experiment, course):
        raise ConfigError(
            f"{experiment.name} reads files that the package does not bring",
            expected=", ".join(lacking),
            hint="give --data DIR, the folder that holds them",
        )
    pieces = _present(experiment, course)
    if not pieces or len({piece.name for piece in pieces}) != len(pieces):
        raise ValueError(f"{experiment.name} needs pieces with distinct names")
    return pieces


def _content(experiment: Experiment, piece: Piece, course: Course) -> Values:
    """All that a piece's values may depend on."""
    content = {
        "experiment": piece.shared or experiment.name,
        "piece": piece.name,
        "scale": course.scale.value,
        "parameters": piece.parameters,
        "seed": course.seed,
        "source": source_fingerprint(piece.compute),
        "versions": package_versions(),
        "files": {name: _file_digest(course.data / name) for name in piece.files if course.data is not None},
    }
    read: Values = json.loads(json.dumps(content, allow_nan=False))
    return read


def _file_digest(path: Path) -> str:
    return hashlib.blake2b(path.read_bytes(), digest_size=8).hexdigest()


def _path(folder: Path, content: Values) -> Path:
    written = json.dumps(content, sort_keys=True, ensure_ascii=True, allow_nan=False).encode()
    key = hashlib.blake2b(written, digest_size=8).hexdigest()
    readable = re.sub(r"[^A-Za-z0-9.]+", "-", str(content["piece"])).strip("-.")
    return folder / "pieces" / str(content["experiment"]) / f"{readable}-{key}.json"


def _cached(path: Path, content: Values) -> Values | None:
    """The finished piece, None where there is none; a file that is not what its name says is refused."""
    if not path.is_file():
        return None
    document = read_document(path)
    if document.get("schema_version") != SCHEMA_VERSION or document.get("content") != content:
        raise ConfigError(
            f"{path}: this piece is not the one its name says", hint="delete it to compute the piece again"
        )
    return document


def _compute(experiment: Experiment, pieces: Sequence[Piece], course: Course, land: Land) -> None:
    """Compute the pieces, in this process or by the engine's; each one's document lands as it is finished."""
    if course.engine is None or not pieces:
        for piece in pieces:
            land(piece.name, compute_piece(experiment, piece, course))
        return
    jobs = [Work(piece.name, (experiment.name, piece.name, course)) for piece in pieces]
    with open_engine(course.engine) as engine:
        run_pieces(jobs, compute_named, engine=engine, land=land)


def compute_named(job: tuple[str, str, Course], _: object) -> Values:
    """A piece's document by the names of experiment and piece: what a worker is asked for."""
    from reproductions.catalogue import experiments

    name, wanted, course = job
    experiment = experiments()[name]
    return compute_piece(experiment, next(one for one in _pieces(experiment, course) if one.name == wanted), course)


def compute_piece(experiment: Experiment, piece: Piece, course: Course) -> Values:
    """Compute a piece, with a source of randomness of its own, or with that of all that share it: the same data."""
    content = _content(experiment, piece, course)
    randomness = Randomness.seeded(course.seed).child(str(content["experiment"]))
    if not piece.shared:
        randomness = randomness.child(piece.name)
    parameters = dict(piece.parameters) | ({"data": str(course.data)} if piece.files else {})
    began = time.perf_counter()
    values = piece.compute(parameters, randomness)
    seconds = round(time.perf_counter() - began, 3)
    return {"schema_version": SCHEMA_VERSION, "content": content, "seconds": seconds, "values": values}
