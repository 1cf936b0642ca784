"""Canaries: secrets we draw ourselves, plant in a corpus, and later ask a model about.

`make_canaries` draws distinct secrets from a space; `plant_canaries` puts copies of each between the records at
random places, with the secret's exact position as a span; the key file says what was planted. The key file holds
the secrets in clear, so only its owner may read it (mode 0600), and its errors show nothing of it.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np

from reticent.core.choice import member_of
from reticent.core.corpus import Corpus, Record, Span
from reticent.core.document import MALFORMED, check_schema
from reticent.core.errors import ConfigError, DataError
from reticent.core.randomness import Randomness
from reticent.core.secret import PLACEHOLDER, Canary, CodeSpace, ListedSpace, Secret, SecretSpace
from reticent.data.writing import replaced

SCHEMA_VERSION = 1
_PLANTED = ("canary/", "coin/")  # how the ids of planted records begin, here and in `coin_canaries`


class CanaryOwner(StrEnum):
    """Whose records the copies of a canary are.

    COPY: each copy has an owner of its own; an owner-level guarantee covers one copy. CANARY: all copies of a
    canary have one owner, and an owner-level guarantee covers them together.
    """

    COPY = "copy"
    CANARY = "canary"


def names_owner(record: Record) -> bool:
    """Whether a record says whose it is: not by its own id, nor as a canary, whose owner is made up."""
    return record.owner != record.id and not record.id.startswith(_PLANTED)


def make_canaries(
    template: str, space: SecretSpace, *, count: int, copies: int, randomness: Randomness, kind: str = "code"
) -> tuple[Canary, ...]:
    """`count` canaries with distinct secrets, uniform in `space`, named canary-0 and so on."""
    if template.count(PLACEHOLDER) != 1:
        raise ConfigError(
            "a canary's template needs one place for the secret", expected=f"exactly one {PLACEHOLDER}"
        )
    if not 1 <= count <= space.size:
        raise ConfigError("cannot draw that many distinct secrets", found=count, expected=f"1 to {space.size}")
    if copies < 1:
        raise ConfigError("a canary is planted at least once", found=copies, expected="copies of 1 or more")
    secrets = _draw(space, count, randomness)
    return tuple(
        Canary(f"canary-{number}", template, Secret(secret, kind), space, copies)
        for number, secret in enumerate(secrets)
    )


def _draw(space: SecretSpace, count: int, randomness: Randomness) -> list[str]:
    """`count` different members of `space`, every set of them equally likely."""
    if space.size <= 4 * count:  # drawing again and again would take long where nearly all are wanted
        members = list(space)
        return [members[int(place)] for place in randomness.permutation(len(members))[:count]]
    drawn: dict[str, None] = {}
    while len(drawn) < count:
        drawn[space.sample(randomness)] = None
    return list(drawn)


def plant_canaries(
    records: Sequence[Record],
    canaries: Sequence[Canary],
    *,
    randomness: Randomness,
    owner: CanaryOwner = CanaryOwner.COPY,
) -> Corpus:
    """The records, in their order, with all copies of all canaries at random places between them."""
    return Corpus(plant_stream(records, canaries, size=len(records), randomness=randomness, owner=owner))


def plant_stream(
    records: Iterable[Record],
    canaries: Sequence[Canary],
    *,
    size: int,
    randomness: Randomness,
    owner: CanaryOwner = CanaryOwner.COPY,
) -> Iterator[Record]:
    """The same for a stream of `size` records."""
    owner = member_of(CanaryOwner, owner, name="owner")
    copies = [record for canary in canaries for record in _copies(canary, owner)]
    return weave(records, copies, size=size, randomness=randomness)


def weave(
    records: Iterable[Record], copies: Sequence[Record], *, size: int, randomness: Randomness
) -> Iterator[Record]:
    """A stream of `size` records, in their order, with all `copies` at random places between them."""
    shuffled = [copies[int(place)] for place in randomness.permutation(len(copies))]
    # Which places of the output are canaries: all choices equally likely.
    places = np.sort(randomness.permutation(size + len(copies))[: len(copies)])
    waiting = iter(zip(places.tolist(), shuffled, strict=True))
    next_place, next_copy = next(waiting, (None, None))
    names = {record.id for record in copies}
    position = 0
    for record in records:
        while next_copy is not None and position == next_place:
            yield next_copy
            position += 1
            next_place, next_copy = next(waiting, (None, None))
        if record.id in names:
            raise ConfigError(
                "the corpus holds canaries of these names already", hint="plant in the original corpus"
            )
        yield record
        position += 1
    while next_copy is not None:
        yield next_copy
        position += 1
        next_place, next_copy = next(waiting, (None, None))
    if position != size + len(copies):
        raise ValueError(f"the stream held {position - len(copies)} records, not {size}")


def _copies(canary: Canary, owner: CanaryOwner) -> Iterator[Record]:
    start = len(canary.prefix)
    span = Span(start, start + len(canary.secret.reveal()), canary.secret.kind, "direct")
    for number in range(canary.copies):
        identity = f"canary/{canary.name}/{number}"
        holder = identity if owner is CanaryOwner.COPY else f"canary/{canary.name}"
        yield Record(identity, canary.text(), owner=holder, spans=(span,))


def write_key(canaries: Sequence[Canary], path: Path | str) -> None:
    """Write the key file: secrets in clear, readable and writable by its owner alone."""
    document = {"schema_version": SCHEMA_VERSION, "canaries": [_to_json(canary) for canary in canaries]}
    # The file is made with mode 0600 and keeps it when it takes its place.
    with replaced(Path(path), overwrite=False) as file:
        file.write(json.dumps(document, indent=1, ensure_ascii=False).encode() + b"\n")


def read_key(path: Path | str) -> tuple[Canary, ...]:
    """The canaries that `write_key` wrote; an unknown schema version is refused."""
    place = Path(path)
    try:
        document = json.loads(place.read_bytes())
    except OSError as problem:
        raise DataError("cannot be read", path=place, found=(problem.strerror or "").lower()) from None
    except (ValueError, RecursionError):
        raise DataError("not a key file: not valid JSON", path=place) from None
    if not isinstance(document, dict):
        raise DataError("not a key file: not a JSON object", path=place)
    check_schema(document, SCHEMA_VERSION, kind="key file")
    try:
        return tuple(_from_json(entry) for entry in document["canaries"])
    except MALFORMED:
        raise DataError("not a key file: a canary lacks a part or contradicts itself", path=place) from None


def _to_json(canary: Canary) -> dict[str, Any]:
    match canary.space:
        case CodeSpace(length=length, alphabet=alphabet):
            space: dict[str, Any] = {"type": "codes", "length": length, "alphabet": alphabet}
        case ListedSpace(candidates=candidates):
            space = {"type": "list", "candidates": list(candidates)}
        case other:
            raise ValueError(f"a key file cannot hold a space of type {type(other).__name__}")
    return {
        "name": canary.name,
        "template": canary.template,
        "secret": canary.secret.reveal(),
        "kind": canary.secret.kind,
        "copies": canary.copies,
        "space": space,
    }


def _from_json(entry: dict[str, Any]) -> Canary:
    stored = entry["space"]
    space: SecretSpace
    if stored["type"] == "codes":
        space = CodeSpace(stored["length"], stored["alphabet"])
    elif stored["type"] == "list":
        space = ListedSpace(tuple(stored["candidates"]))
    else:
        raise ValueError("unknown space")
    return Canary(entry["name"], entry["template"], Secret(entry["secret"], entry["kind"]), space, entry["copies"])
