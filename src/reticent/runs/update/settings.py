"""The settings of `reticent diff`."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from reticent.core.ranges import SEED, Range
from reticent.runs.directory import RunDirectory
from reticent.runs.settings.declaration import option
from reticent.runs.settings.shared import CorpusOptions, LogOptions, Shown

if TYPE_CHECKING:
    from reticent.runs.update.comparing import PhraseSearch

_COUNT: Final = Range(1, 1_000_000)  # phrases, or tokens of one
_SEARCH: Final = "Search"


class Search(StrEnum):
    """How phrases are searched."""

    GUIDED = "guided"  # windows of texts that the snapshot after writes: any vocabulary
    BOUNDED = "bounded"  # from the start of a text, with a bound: small vocabularies
    BEAM = "beam"  # the paper's


class DiffSettings(CorpusOptions, LogOptions, Shown):
    """Everything that `reticent diff` can be asked for."""

    before: str = option(
        "Snapshot before the update: a directory, adapter, hub id, run directory or 'embedded'.",
        positional=True,
        metavar="BEFORE",
    )
    after: str = option("Snapshot after the update.", positional=True, metavar="AFTER")
    out: Path = option("Run directory to write.", metavar="DIR")
    data: Path | None = option(
        "Records of the update (with --removed: the forgotten ones), to see which of them are exposed.",
        default=None,
        metavar="FILE",
    )
    untouched: Path | None = option(
        "Text that was not in the update, for comparison.", default=None, metavar="FILE"
    )
    null: tuple[str, ...] = option(
        "Null snapshot: made from BEFORE like AFTER, with another seed and without the text of the update. "
        "Repeatable: a verdict needs 19, or 24 with --data and --untouched.",
        default=(),
        metavar="MODEL",
    )
    then: tuple[str, ...] = option("A further snapshot, in order of time. Repeatable.", default=(), metavar="MODEL")
    length: int = option("Tokens in a phrase.", default=5, within=_COUNT, metavar="N", panel=_SEARCH)
    width: int | None = option(
        "Use a beam of fixed width: keep N phrases at each step.",
        default=None,
        within=_COUNT,
        metavar="N",
        panel=_SEARCH,
    )
    groups: int = option(
        "Split the vocabulary into N groups and search each.", default=1, within=_COUNT, metavar="N", panel=_SEARCH
    )
    halving: bool = option(
        "Use the beam of the paper: as wide as the vocabulary, halved at each step.", default=False, panel=_SEARCH
    )
    search: Search | None = option(
        "How phrases are searched: 'guided' samples texts from AFTER, steered away from BEFORE, and reports their "
        "highest-scoring windows; 'bounded' searches from the start of a text and proves what it can; 'beam' is "
        "the search of the paper.",
        default=None,
        shown="guided above 10,000 tokens, else bounded",
        panel=_SEARCH,
    )
    texts: int = option(
        "Texts that a guided search samples.", default=96, within=_COUNT, metavar="N", panel=_SEARCH
    )
    prefix: tuple[str, ...] = option(
        "Search for continuations of this text, which the adversary knows or guesses. "
        "Repeatable for a guided search.",
        default=(),
        metavar="TEXT",
        panel=_SEARCH,
    )
    relative: bool = option(
        "Search by the relative score, which favours rare beginnings.", default=False, panel=_SEARCH
    )
    removed: bool = option(
        "Search for what the update removed or was made to forget: the snapshots swap roles.",
        default=False,
        panel=_SEARCH,
    )
    top: int = option(
        "Report the N best phrases of each group.", default=10, within=_COUNT, metavar="N", panel=_SEARCH
    )
    reveal: bool = option("Show and write the phrases themselves.", default=False)
    seed: int = option("Random seed of sampled texts.", default=0, within=SEED, metavar="N", last=True)

    def check(self) -> None:
        """Refuse a tracker that is unknown or not installed."""
        _ = self.log_place

    @property
    def snapshots(self) -> tuple[str, ...]:
        """The models in order of time."""
        return (self.before, self.after, *self.then)

    def phrase_search(self) -> "PhraseSearch":
        """How snapshots are compared."""
        from reticent.auditing.attacks.update.score import UpdateScore
        from reticent.runs.update.comparing import PhraseSearch

        return PhraseSearch(
            length=self.length,
            width=self.width,
            groups=self.groups,
            score=UpdateScore.RELATIVE if self.relative else UpdateScore.ABSOLUTE,
            prefixes=self.prefix,
            texts=self.texts,
            search=self.search,
            top=self.top,
            removed=self.removed,
            halving=self.halving,
            seed=self.seed,
        )

    def recorded(self) -> dict[str, Any]:
        """What the record of the run says of the settings. A prefix may be private: only that there was one."""
        said_elsewhere = {"before", "after", "then", "prefix", "out", "seed"}
        recorded = self.model_dump(mode="json", exclude=said_elsewhere)
        return {"snapshots": list(self.snapshots), **recorded, "prefixes_given": len(self.prefix)}

    def check_paths(self) -> None:
        """Files and models are there and the folder is free: said before torch is loaded."""
        from reticent.models.huggingface.location import locate
        from reticent.runs.audit.subject import find_model

        RunDirectory.for_new_run(self.out)
        for path in (self.data, self.untouched):
            if path is not None:
                self.corpus(path)
        for name in (*self.snapshots, *self.null):
            locate(find_model(name).source)
