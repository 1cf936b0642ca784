"""Canaries planted into a corpus, with the key file that names them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from reticent.core.corpus import Record
from reticent.core.document import JsonObject
from reticent.core.errors import ConfigError, ModelError
from reticent.core.randomness import Randomness
from reticent.core.ranges import COUNT, Range
from reticent.core.secret import CodeSpace
from reticent.data.canaries import CanaryOwner, make_canaries, names_owner, plant_stream, weave, write_key
from reticent.data.coin_canaries import DesignName, NewToken, design_named, new_words, toss_canaries
from reticent.data.writing import write_corpus
from reticent.runs.corpus.places import require_apart, require_free
from reticent.runs.progress import Track, untracked
from reticent.runs.settings.declaration import option
from reticent.runs.settings.shared import CorpusOptions, Seeded, Shown

if TYPE_CHECKING:
    from reticent.models.huggingface.model import HuggingFaceModel

_MOST_PLANTED: Final = 10_000_000
_AUDIT: Final = "Audit of ε"


class PlantSettings(CorpusOptions, Seeded, Shown):
    """Everything that `reticent plant` can be asked for."""

    file: Path = option("Corpus to plant canaries in. It is not changed.", positional=True, metavar="FILE")
    out: Path = option("Planted corpus to write.", metavar="FILE")
    key: Path = option("Key file to write. It holds the secrets.", metavar="FILE")
    audit: int | None = option(
        "Instead of secrets, make N canaries for auditing ε; a fair coin decides whether each is planted.",
        default=None,
        within=Range(20, 1_000_000),
        metavar="N",
        panel=_AUDIT,
    )
    design: DesignName = option(
        "What these canaries are made of: random tokens, samples from the public model, an unlikely prefix "
        "followed by random tokens, or a likely prefix followed by a new token of its own.",
        default=DesignName.RANDOM_TOKENS,
        panel=_AUDIT,
    )
    model: str = option(
        "Public model whose tokens or samples they are made of.", default="embedded", metavar="MODEL", panel=_AUDIT
    )
    grown_model: Path | None = option(
        "Model to write for --design new-token: the public model with a new token for each canary. Train from it.",
        default=None,
        metavar="DIR",
        panel=_AUDIT,
    )
    length: int = option("Tokens per canary.", default=32, within=Range(4, 4096), metavar="N", panel=_AUDIT)
    template: str = option("Text of a canary, with {} for its secret.", default="My ID is: {}")
    digits: int = option(
        "Number of digits in a secret, 3.32 bits each.", default=6, within=Range(1, 60), metavar="N"
    )
    count: int = option("Number of distinct canaries.", default=10, within=COUNT, metavar="N")
    copies: int | None = option(
        "Copies of each canary.", default=None, shown="20, with --audit 1", within=COUNT, metavar="N"
    )
    owner: CanaryOwner = option("Give every copy, or every canary, an owner of its own.", default=CanaryOwner.COPY)

    def check(self) -> None:
        """Refuse more canaries than any corpus could hold."""
        if self.audit is not None and self.copies_of_each > 1 and self.owner is CanaryOwner.COPY:
            raise ConfigError(
                "one coin decides about one record, or about all records of one owner",
                found=f"--copies {self.copies_of_each}",
                hint="add --owner canary",
            )
        if (self.grown_model is not None) != (self.audit is not None and self.design is DesignName.NEW_TOKEN):
            raise ConfigError(
                "--grown-model and --audit N --design new-token belong together",
                found="one of them",
                hint="name a folder for the model with new tokens: --grown-model DIR",
            )
        if (self.audit or self.count) * self.copies_of_each > _MOST_PLANTED:
            found = f"{(self.audit or self.count) * self.copies_of_each:,} copies in all"
            raise ConfigError("too many canaries", found=found, expected=f"at most {_MOST_PLANTED:,}")

    @property
    def copies_of_each(self) -> int:
        """Copies of a canary."""
        return self.copies or (20 if self.audit is None else 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted(JsonObject):
    """What was planted where."""

    schema_version: ClassVar = 1
    records: int  # of the corpus with the canaries
    planted: int
    canaries: int
    copies: int
    bits: float | None  # of a secret; canaries with coins have none
    corpus: Path
    key: Path
    randomness: str
    names_owners: bool  # the corpus without the canaries

    @property
    def size(self) -> int:
        """Records before."""
        return self.records - self.planted


def plant(settings: PlantSettings, *, track: Track = untracked) -> Planted:
    """Write a corpus with canaries and the key file that names them, which its owner alone can read."""
    places = (settings.out, settings.key, settings.grown_model)
    require_apart(*places, names="--out, --key and --grown-model")
    require_free(*places, corpus=settings.file)
    randomness = settings.randomness
    made = _Secrets(settings, randomness) if settings.audit is None else _Coins(settings, randomness, track)
    corpus = settings.corpus(settings.file)
    # The whole corpus is read, and so checked, before anything is written.
    size, names_owners = 0, False
    for record in track(corpus, "checking"):
        size += 1
        names_owners |= names_owner(record)
    written = write_corpus(made.stream(track(corpus, "planting", size), size), settings.out)
    try:
        made.write_key(settings.key)
    except BaseException:
        settings.out.unlink(missing_ok=True)  # a planted corpus without its key is of no use
        raise
    return Planted(
        records=written,
        planted=written - size,
        canaries=made.count,
        copies=settings.copies_of_each,
        bits=made.bits,
        corpus=settings.out,
        key=settings.key,
        randomness=randomness.kind,
        names_owners=names_owners,
    )


class _Secrets:
    """Secrets of a space, all of them planted."""

    def __init__(self, settings: PlantSettings, randomness: Randomness) -> None:
        self._randomness, self._owner = randomness, settings.owner
        space, copies = CodeSpace(settings.digits), settings.copies_of_each
        self._canaries = make_canaries(
            settings.template, space, count=settings.count, copies=copies, randomness=randomness
        )
        self.count, self.bits = settings.count, self._canaries[0].bits

    def stream(self, records: Iterable[Record], size: int) -> Iterator[Record]:
        """The corpus with the copies."""
        return plant_stream(records, self._canaries, size=size, randomness=self._randomness, owner=self._owner)

    def write_key(self, path: Path) -> None:
        """The secrets."""
        write_key(self._canaries, path)


def _grow(model: "HuggingFaceModel", design: NewToken, *, words: int, folder: Path) -> None:
    """Add a new token for each canary to the public model and write it.

    A new row of the embeddings is the mean of what the model expects there: so that the gradient of a canary
    lies in its own row and hardly moves other weights.
    """
    import torch

    from reticent.models.huggingface.growth import grow_vocabulary
    from reticent.training.release import release_model

    expected = torch.from_numpy(model.next_token_log_probs([design.beginning])[0]).exp()  # [V]
    grown = grow_vocabulary(model, new_words(words), shares=expected)
    (row,) = grown.encode(design.texts(1, Randomness.seeded(0)))
    if row[-1:] != grown.encode(new_words(1))[0]:
        raise ModelError(f"{model.name}: the tokenizer joins a new word with what stands before it")
    release_model(grown, folder, certificate=None)


class _Coins:
    """Texts of a design, each planted or left out by a coin; none of them stands in the corpus already."""

    bits = None

    def __init__(self, settings: PlantSettings, randomness: Randomness, track: Track) -> None:
        from reticent.models.huggingface.loading import load_model  # loads torch
        from reticent.runs.audit.subject import find_model

        assert settings.audit is not None
        model = load_model(find_model(settings.model).source, name=settings.model)
        design = design_named(settings.design, model, length=settings.length)
        known = {record.text for record in track(settings.corpus(settings.file), "reading")}
        if settings.grown_model is not None and isinstance(design, NewToken):
            _grow(model, design, words=settings.audit, folder=settings.grown_model)
        self.count, self._randomness = settings.audit, randomness
        copies = settings.copies_of_each
        self._key = toss_canaries(design, self.count, copies=copies, known=known, randomness=randomness)

    def stream(self, records: Iterable[Record], size: int) -> Iterator[Record]:
        """The corpus with the canaries that were kept."""
        return weave(records, list(self._key.records()), size=size, randomness=self._randomness)

    def write_key(self, path: Path) -> None:
        """Texts and coins."""
        self._key.write(path)
