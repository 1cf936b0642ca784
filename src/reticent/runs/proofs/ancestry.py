"""What the weights of a run came from: releases of one text add up, and a model trained on it is not public.

    RUN/ancestry.json    keyed hashes of this run's texts and owners, what it proved by itself, and its ancestors

A starting model is looked at before anything is trained. Where a run lies behind it, its text is compared with the
new corpus, and with it the text of every run before that one:

    trained plainly on text that the corpus shares     refused: no noise added later takes it back
    trained privately on text that the corpus shares   the two releases compose, and the guarantee says their sum
    trained on other text                              said in `assumes`, with how it was compared
    unknown                                            said in `assumes`: nothing beside the model tells

Texts are equal here up to case, white space and what Unicode does not show; near copies and parts of texts are not
seen, and `assumes` says so. The file is as private as the corpus: whoever has its key can test guesses at texts.
"""

import base64
import hashlib
import os
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from reticent.accounting.derivation import composed
from reticent.accounting.guarantees import guarantee_of
from reticent.core.corpus import Corpus
from reticent.core.document import (
    ADDED_LATER,
    MALFORMED,
    JsonObject,
    check_schema,
    fields_from_json,
    read_document,
    write_document,
)
from reticent.core.errors import ConfigError, DataError
from reticent.core.event import Composed
from reticent.core.guarantee import UNSEEN, Guarantee, Notion, Unit
from reticent.core.printing.numbers import counted
from reticent.data.canaries import names_owner
from reticent.models.embedded import EMBEDDED
from reticent.runs.directory import RUN
from reticent.runs.proofs.certificates import is_about, proved_of, stated

SCHEMA_VERSION: Final = 1
ANCESTRY: Final = "ancestry.json"
_DEPTH: Final = 3  # RUN/members/part-00/model is the deepest place of weights in a run
_RANDOM: Final = "lstm:"

# Soft hyphen, joiners, zero-width spaces, marks of direction and of byte order, variation selectors.
_RANGES: Final = (
    (0xAD, 0xAD),
    (0x34F, 0x34F),
    (0x61C, 0x61C),
    (0x180B, 0x180E),
    (0x200B, 0x200F),
    (0x202A, 0x202E),
)
_MORE_RANGES: Final = ((0x2060, 0x206F), (0xFE00, 0xFE0F), (0xFEFF, 0xFEFF), (0xE0000, 0xE01EF))
_UNSEEN: Final = {code: None for first, last in (*_RANGES, *_MORE_RANGES) for code in range(first, last + 1)}

Hashes = NDArray[np.uint64]


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Members:
    """Keyed hashes of a corpus's texts and owners: enough to tell whether another corpus shares any."""

    key: bytes
    texts: Hashes
    owners: Hashes

    @classmethod
    def of(cls, corpus: Corpus, key: bytes | None = None) -> "Members":
        """The hashes of a corpus under a key, a fresh one of the system's where none is given."""
        key = os.urandom(32) if key is None else key
        # Records without owners are their own: line numbers of two files must not look like shared people.
        owners = set(corpus.owners) if any(map(names_owner, corpus)) else set()
        return cls(key, _hashes((record.text for record in corpus), key), _hashes(owners, key))

    def shared(self, corpus: Corpus) -> "Shared":
        """How many texts and owners of another corpus stand here too."""
        other = Members.of(corpus, self.key)
        texts = int(np.isin(other.texts, self.texts).sum())
        if not len(other.owners) or not len(self.owners):
            return Shared(texts, None)
        return Shared(texts, int(np.isin(other.owners, self.owners).sum()))

    def to_json(self) -> dict[str, Any]:
        """JSON values: eight bytes a hash, packed."""
        return {"key": self.key.hex(), "texts": _packed(self.texts), "owners": _packed(self.owners)}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> "Members":
        """The hashes that `to_json` wrote."""
        texts, owners = _unpacked(document["texts"]), _unpacked(document["owners"])
        return cls(bytes.fromhex(document["key"]), texts, owners)


@dataclass(frozen=True, slots=True)
class Shared(JsonObject):
    """How many distinct texts and owners two corpora share; None where one of them names no owners."""

    texts: int
    owners: int | None

    def concerns(self, unit: Unit) -> bool:
        """Whether the two releases speak of the same unit: for one record an owner's other texts do not count."""
        return self.texts > 0 or (unit is not Unit.RECORD and bool(self.owners))

    def in_words(self) -> str:
        """For an error: "3 texts and 1 owner"."""
        owners = "" if self.owners is None else f" and {counted(self.owners, 'owner')}"
        return f"{counted(self.texts, 'text')}{owners}"

    def absent(self, unit: Unit) -> str:
        """What is known not to be shared, where nothing was found."""
        is_compared = unit is not Unit.RECORD and self.owners is not None
        shared = "no equal text and no owner" if is_compared else "no equal text"
        owners = "; owners were not compared, since one of the two names none" if self.owners is None else ""
        beyond = "near copies and parts of texts were not looked for"
        return f"{shared} is shared with it{'' if unit is Unit.RECORD else owners}; {beyond}"


def require_unseen(held_out: Corpus, trained_on: int, *, path: Path | str) -> None:
    """Refuse to hold out text that was trained on, whatever its ids and owners; `trained_on` counts its texts."""
    distinct = len(set(map(_plain, held_out.texts)))
    if trained_on >= distinct > 0:
        raise DataError(
            "the held-out text was trained on",
            path=path,
            found="each of its texts in the training corpus, if not in this order and with these ids",
            hint="give text of the same kind that was not trained on",
        )


def _hashes(values: Iterable[str], key: bytes) -> Hashes:
    """Sorted distinct 64-bit keyed hashes; a collision can only make corpora look as if they shared something."""
    digests = (
        hashlib.blake2b(_plain(value).encode("utf8", errors="surrogatepass"), key=key, digest_size=8).digest()
        for value in values
    )
    return np.unique(np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64))


def _plain(text: str) -> str:
    """A text without case, white space, characters that do not show, and Unicode's other ways to write a letter."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold()).translate(_UNSEEN)
    return " ".join(text.casefold().split())


def _packed(hashes: Hashes) -> str:
    return base64.b64encode(hashes.astype("<u8").tobytes()).decode("ascii")


def _unpacked(text: str) -> Hashes:
    return np.frombuffer(base64.b64decode(text), dtype="<u8").astype(np.uint64)


@dataclass(frozen=True, slots=True)
class Ancestor(JsonObject):
    """One training that weights went through: what it proved by itself (None: nothing), and on which text.

    `shared` is what it has in common with the corpus that the weights are to be trained on next.
    """

    name: str
    guarantee: Guarantee | None
    members: Members | None  # None: nobody knows on which text, but for its fingerprint
    shared: Shared | None = None
    corpus: str | None = field(default=None, metadata=ADDED_LATER)

    def compared_with(self, corpus: Corpus) -> "Ancestor":
        """The same, knowing what it shares with a corpus; without hashes, whether that is the very same one."""
        if self.members is not None:
            return replace(self, shared=self.members.shared(corpus))
        is_same = self.corpus is not None and self.corpus == corpus.fingerprint
        return replace(self, shared=Shared(len(corpus), None) if is_same else None)

    @property
    def identity(self) -> str | None:
        """A name that no other training has, from the key of its hashes; None where there are none."""
        return None if self.members is None else hashlib.blake2b(self.members.key, digest_size=16).hexdigest()

    def concerns(self, unit: Unit) -> bool:
        """Whether it is known to have read text of the same units."""
        return self.shared is not None and self.shared.concerns(unit)

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> "Ancestor":
        """The ancestor that `to_json` wrote, its guarantee derived again."""
        proved, others = document["guarantee"], document | {"guarantee": None}
        found = fields_from_json(cls, others, ignores_others=True)
        if proved is None:
            return found
        return replace(found, guarantee=stated(proved, where=f"{ANCESTRY}, {found.name}"))


@dataclass(frozen=True, slots=True)
class Ancestry(JsonObject):
    """The trainings behind some weights, oldest first; `is_public`: the first began with a public model."""

    schema_version: ClassVar = SCHEMA_VERSION
    source: str
    runs: tuple[Ancestor, ...] = ()
    is_public: bool = False

    def compared_with(self, corpus: Corpus) -> "Ancestry":
        """The same, knowing what every training has in common with a corpus."""
        return replace(self, runs=tuple(run.compared_with(corpus) for run in self.runs))

    def followed_by(self, name: str, guarantee: Guarantee | None, corpus: Corpus) -> "Ancestry":
        """The ancestry of what comes out of one more training, on that corpus."""
        last = Ancestor(name, guarantee, Members.of(corpus), corpus=corpus.fingerprint)
        return replace(self, runs=(*self.runs, last))

    def write(self, folder: Path) -> None:
        """Keep it in a run directory, for its owner's eyes."""
        write_document(folder / ANCESTRY, self.to_json(), mode=0o600)

    @classmethod
    def read(cls, folder: Path) -> "Ancestry":
        """What stands in a run directory."""
        document = read_document(folder / ANCESTRY)
        check_schema(document, SCHEMA_VERSION, kind="ancestry")
        try:
            return fields_from_json(cls, document, ignores_others=True)
        except MALFORMED as error:
            raise ConfigError(
                f"{folder / ANCESTRY}: not an ancestry that this version can read",
                found=type(error).__name__,
                hint="restore the file as training wrote it: it tells which text the model has seen",
            ) from None

    def overlapping(self, unit: Unit) -> tuple[Ancestor, ...]:
        """The trainings on text that the corpus shares; a plain one among them is refused."""
        found = tuple(run for run in self.runs if run.concerns(unit))
        for run in found:
            if run.guarantee is None:
                assert run.shared is not None
                raise ConfigError(
                    f"{self.source}: this model was trained plainly on text of this corpus, so it is not public",
                    found=f"{run.shared.in_words()} in common, in {run.name}",
                    hint="start from a model that has not seen the text: noise added now cannot hide it",
                )
        return found

    def assumptions(self, unit: Unit) -> tuple[str, ...]:
        """What must be believed of the starting model, since it cannot be checked, or not wholly."""
        said = []
        for run in self.runs:
            if run.shared is None:
                said.append(f"the starting model's training ({run.name}) used other text: nothing beside it tells")
            elif not run.concerns(unit):
                used = f"the starting model's training ({run.name}) used other text"
                said.append(f"{used}: {run.shared.absent(unit)}")
        if not self.is_public:
            first = f"the model that {self.runs[0].name} started from" if self.runs else "the starting model"
            named = "" if self.runs else f" ({self.source})"
            said.append(f"{first}{named} has not seen the private text: nothing beside it tells")
        return tuple(said)


def ancestry_of(source: str) -> Ancestry:
    """The trainings behind a starting model: from the run that it lies in, or the certificate beside it."""
    if source.startswith(_RANDOM):
        return Ancestry(source, is_public=True)
    folder = Path(source).expanduser()
    if not folder.is_dir():  # a folder of the embedded model's name is taken before that model
        return Ancestry(source, is_public=source == EMBEDDED)
    for place in (folder, *list(folder.resolve().parents)[:_DEPTH]):
        if (place / ANCESTRY).is_file():
            found = replace(Ancestry.read(place), source=source)
            _require_own_weights(folder / "model" if place == folder else folder, found)
            return found
        if (place / RUN).is_file():  # of a version that kept no ancestry: of its text the fingerprint is known
            corpora = read_document(place / RUN).get("corpora")
            seen = corpora.get("training") if isinstance(corpora, dict) else None
            return Ancestry(source, (Ancestor(place.name, proved_of(folder), None, corpus=seen),))
    proved = proved_of(folder)
    return Ancestry(source) if proved is None else Ancestry(source, (Ancestor(folder.name, proved, None),))


def seen_in_training(run: Path, corpus: Corpus, *, where: Path, flag: str) -> Shared | None:
    """What a training behind a run has in common with text that must be public; None if nothing.

    Guarantee: every training behind the run is compared, by texts and by owners; refused where no trace was kept.
    """
    if not (run / ANCESTRY).is_file():
        raise ConfigError(
            f"{run}: no trace was kept of the text that this run was trained on, so {where} cannot be compared",
            hint=f"train again, or leave {flag} out",
        )
    shared = [trained.compared_with(corpus).shared for trained in Ancestry.read(run).runs]
    return next((each for each in shared if each is not None and each.concerns(Unit.OWNER)), None)


def _require_own_weights(folder: Path, ancestry: Ancestry) -> None:
    """Refuse weights that lie in a private run's directory and are not the ones that it released."""
    last = ancestry.runs[-1].guarantee if ancestry.runs else None
    if last is None:
        return
    proved = proved_of(folder)
    if proved is None or not is_about("", last, proved):
        raise ConfigError(
            f"{folder}: these weights are in the directory of a private training run that did not release them",
            found="no guarantee beside them" if proved is None else "a guarantee of another event",
            expected="what that training left in model/",
            hint="move them elsewhere if they are public; restore the run if they are its own",
        )


def together(guarantee: Guarantee, ancestry: Ancestry) -> Guarantee:
    """What a training and the earlier ones behind its starting model prove together.

    Guarantee: where the starting model saw the same units, the events are composed and priced as one; where that
    cannot be done (another notion or unit), or the model was trained plainly on the text, this raises.
    """
    earlier, said = ancestry.overlapping(guarantee.unit), ancestry.assumptions(guarantee.unit)
    if not earlier:
        return replace(guarantee, assumes=(*guarantee.assumes, *said))
    proved = [_same_promise(run, guarantee) for run in earlier]
    assert guarantee.basis is not None
    events = [each.basis.event for each in proved if each.basis is not None]
    whole = guarantee_of(
        Composed((*events, guarantee.basis.event)),
        delta=guarantee.delta,
        unit=guarantee.unit,
        neighbours=guarantee.neighbours,
        mechanism=f"{guarantee.mechanism}, after {_count(len(earlier), 'private release')} of the same text",
    )
    assert whole.basis is not None
    last = guarantee.basis
    basis = replace(
        whole.basis,
        units=last.units,
        clip_norm=last.clip_norm,
        clip_quantile=last.clip_quantile,
        count_noise=last.count_noise,
    )
    rests_on = dict.fromkeys(line for each in (*proved, guarantee) for line in each.assumes)
    return replace(whole, basis=basis, assumes=(*_of_first_model(rests_on, ancestry), *said))


def _same_promise(run: Ancestor, guarantee: Guarantee) -> Guarantee:
    """The ancestor's guarantee, refused where it cannot be added to this one."""
    proved = run.guarantee
    assert proved is not None
    is_dp = proved.notion is guarantee.notion is Notion.DIFFERENTIAL_PRIVACY
    if not is_dp or proved.unit is not guarantee.unit or proved.basis is None or guarantee.basis is None:
        raise ConfigError(
            "the starting model was trained on this text with another kind of guarantee, and the two do not add up",
            found=f"{proved.notion.value} for one {proved.unit.value} in {run.name}",
            expected=f"{guarantee.notion.value} for one {guarantee.unit.value}",
            hint="protect the same unit by DP-SGD both times, or start from a model that has not seen the text",
        )
    return proved


def answers_together(guarantee: Guarantee, ancestry: Ancestry) -> Guarantee:
    """What private answers prove together with the base model under them, where that was trained on the same text.

    Guarantee: ε and δ of both are added (`accounting.derivation.composed`), the base's priced for the neighbours of
    the answers.
    """
    earlier, said = ancestry.overlapping(guarantee.unit), ancestry.assumptions(guarantee.unit)
    if not earlier:
        return replace(guarantee, assumes=(*guarantee.assumes, *said))
    again = []
    for run in earlier:
        proved = _same_promise(run, guarantee)
        assert proved.basis is not None
        price = guarantee_of(
            proved.basis.event,
            delta=proved.delta,
            unit=guarantee.unit,
            neighbours=guarantee.neighbours,
            mechanism=proved.mechanism,
            assumes=proved.assumes,
        )
        again.append(price)
    whole = composed(guarantee, tuple(again))
    rests_on = dict.fromkeys(line for each in (*again, guarantee) for line in each.assumes)
    return replace(whole, assumes=(*_of_first_model(rests_on, ancestry), *said))


def _of_first_model(assumes: Iterable[str], ancestry: Ancestry) -> Sequence[str]:
    """The assumptions of a chain of trainings: that the text was unseen is said of its first model alone."""
    others = [line for line in assumes if UNSEEN not in line]
    return [*others, f"the model and the tokenizer that {ancestry.runs[0].name} started from were public"]


def _count(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
