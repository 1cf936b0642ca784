"""Run an experiment piece by piece; what was computed once is read from the run directory.

    RUN/pieces/<experiment>/<piece>-<key>.json     a finished piece: its key's content, seconds, values

The key is a hash of experiment (or what several share), piece, scale, parameters, seed and the package's version:
change one of them and the piece is computed anew, change none and it is read. A piece's file is written whole or
not at all, so a run that was killed goes on with the pieces it lacks. Nothing else is remembered: deleting a file
is how to compute it again.
"""

import hashlib
import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from reticent import __version__
from reticent.app.experiments.experiment import Experiment, Piece, Rendering, Scale, Values
from reticent.core.document import check_schema, read_document, write_document
from reticent.core.errors import ConfigError
from reticent.core.randomness import Randomness

SCHEMA_VERSION: Final = 1
Observe = Callable[[str, bool], None]


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


def reproduce(
    experiment: Experiment,
    folder: Path,
    *,
    scale: Scale,
    seed: int,
    observe: Observe = lambda _, __: None,
) -> Reproduction:
    """Compute the pieces that `folder` lacks, then render all; `observe(piece, was cached)` after each."""
    pieces = _pieces(experiment, scale)
    values: dict[str, Values] = {}
    seconds, computed = 0.0, 0
    for piece in pieces:
        content = _content(experiment, piece, scale=scale, seed=seed)
        path = _path(folder, content)
        document = _cached(path, content)
        is_cached = document is not None
        if document is None:
            document = _computed(piece, content, seed=seed)
            write_document(path, document)
            computed += 1
        values[piece.name] = document["values"]
        seconds += document["seconds"]
        observe(piece.name, is_cached)
    return Reproduction(
        experiment=experiment,
        scale=scale,
        seed=seed,
        values=values,
        seconds=seconds,
        computed=computed,
        rendering=experiment.render(values),
    )


def is_finished(experiment: Experiment, folder: Path, *, scale: Scale, seed: int) -> bool:
    """Whether every piece stands in `folder`, so that `reproduce` computes nothing."""
    contents = [_content(experiment, piece, scale=scale, seed=seed) for piece in _pieces(experiment, scale)]
    return all(_cached(_path(folder, content), content) is not None for content in contents)


def _pieces(experiment: Experiment, scale: Scale) -> Sequence[Piece]:
    if scale not in experiment.scales:
        raise ConfigError(
            f"{experiment.name} was not written for this scale",
            found=scale.value,
            expected=" or ".join(one.value for one in experiment.scales),
        )
    pieces = experiment.pieces(scale)
    if not pieces or len({piece.name for piece in pieces}) != len(pieces):
        raise ValueError(f"{experiment.name} needs pieces with distinct names")
    return pieces


def _content(experiment: Experiment, piece: Piece, *, scale: Scale, seed: int) -> Values:
    """All that a piece's values may depend on."""
    return {
        "experiment": piece.shared or experiment.name,
        "piece": piece.name,
        "scale": scale.value,
        "parameters": piece.parameters,
        "seed": seed,
        "version": __version__,
    }


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
    check_schema(document, SCHEMA_VERSION, kind="piece of an experiment")
    if document.get("content") != json.loads(json.dumps(content)):
        raise ConfigError(
            f"{path}: this piece is not the one its name says", hint="delete it to compute the piece again"
        )
    return document


def _computed(piece: Piece, content: Values, *, seed: int) -> Values:
    """Compute a piece, with a source of randomness of its own, or with that of all that share it: the same data."""
    randomness = Randomness.seeded(seed).child(str(content["experiment"]))
    if not piece.shared:
        randomness = randomness.child(piece.name)
    began = time.perf_counter()
    values = piece.compute(piece.parameters, randomness)
    document = {
        "schema_version": SCHEMA_VERSION,
        "content": content,
        "seconds": round(time.perf_counter() - began, 3),
        "values": values,
    }
    # Read as it will be from the file, so that a first run and a later one render from the same values.
    read: Values = json.loads(json.dumps(document, allow_nan=False))
    return read
