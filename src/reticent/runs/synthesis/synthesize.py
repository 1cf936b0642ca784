"""A private corpus to keep, from a private model or an ensemble, with its datasheet: `reticent synthesize`.

Texts are drawn in batches and are on disk before the next (`draft`), so that a killed call goes on where it stood.
Empty texts are left out and drawn anew. An ensemble stops at its budget, and what was made is kept.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from itertools import cycle, islice
from pathlib import Path
from typing import Any, Final

from reticent.core.corpus import Corpus, Record
from reticent.core.document import object_to_json
from reticent.core.errors import BudgetExhausted, DataError, ModelError
from reticent.core.guarantee import Guarantee
from reticent.data.writing import write_corpus
from reticent.runs.policies.by_name import policy_named
from reticent.runs.progress import Track, untracked
from reticent.runs.synthesis.datasheet import Datasheet, datasheet_path
from reticent.runs.synthesis.draft import Draft, draft_path
from reticent.runs.synthesis.figures import Closeness, Figures, closeness, figures_of
from reticent.runs.synthesis.settings import SynthesizeSettings
from reticent.runs.synthesis.sources import Source, open_source, public_prompts

SCHEMA_VERSION: Final = 1
_TRIES: Final = 20  # draws for every text that is asked for, before the model is said to write nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntheticCorpus:
    """What was written. `closeness` is for the operator: the guarantee does not cover it."""

    path: Path
    datasheet: Path
    asked: int
    guarantee: Guarantee
    figures: Figures
    is_free: bool  # post-processing: nothing was charged
    closeness: Closeness | None = None

    @property
    def is_complete(self) -> bool:
        """Whether there are as many texts as were asked for; fewer where the budget was spent."""
        return self.figures.records == self.asked

    def to_json(self) -> dict[str, Any]:
        """A JSON document with a schema version."""
        written = {"corpus": self.path, "datasheet": self.datasheet, "complete": self.is_complete}
        found = {"guarantee": self.guarantee, "figures": self.figures, "closeness": self.closeness}
        return object_to_json({"schema_version": SCHEMA_VERSION} | written | found)


def synthesize(settings: SynthesizeSettings, *, track: Track = untracked) -> SyntheticCorpus:
    """Write a corpus of new texts and its datasheet; BudgetExhausted where not one text could be paid for.

    Guarantee: the texts and the datasheet depend on private text only through what the stated guarantee covers.
    """
    out, policy = settings.out, policy_named(settings.policy)
    if not draft_path(out).exists():
        for target in (out, datasheet_path(out), datasheet_path(out).with_suffix(".md")):
            if target.exists():
                raise DataError("already exists", path=target, hint="choose another name, or remove it first")
    prompts, assumed = public_prompts(settings)
    other = None if settings.holdout is None else settings.corpus(settings.holdout).load()
    shaping = asdict(settings.shaping) | {"max_tokens": settings.max_tokens}
    with open_source(settings, prompts) as source:
        asked = [source.identity, shaping, settings.count, prompts]
        with Draft.open(draft_path(out), asked) as draft:
            done = sum(not each.is_empty for each in draft.texts)
            for _ in track(_draw(source, draft, prompts, settings.count), "sampling", settings.count - done):
                pass
            kept = [each.text for each in draft.texts if not each.is_empty][: settings.count]
            if not kept:
                draft.remove()
                raise BudgetExhausted("not one text could be paid for: this ensemble's query budget is used up")
            corpus = Corpus(Record(f"synthetic-{number:06d}", text) for number, text in enumerate(kept, start=1))
            write_corpus(corpus, out, overwrite=True)  # while there is a draft, the name is ours
            given = None if settings.prompts is None else {"file": settings.prompts.name, "count": len(prompts)}
            proved = source.proof.guarantee
            proved = replace(proved, assumes=(*proved.assumes, *assumed))
            proof = replace(source.proof, guarantee=proved)
            figures = figures_of(corpus, draft.texts, policy)
            sheet = Datasheet(corpus=out, proof=proof, sampling=shaping | {"prompts": given}, figures=figures)
            written = sheet.write()
            draft.remove()
    return SyntheticCorpus(
        path=out,
        datasheet=written,
        asked=settings.count,
        guarantee=proof.guarantee,
        figures=figures,
        is_free=proof.bound_to["kind"] == "weights",
        closeness=None if other is None else closeness(corpus, other),
    )


def _draw(source: Source, draft: Draft, prompts: list[str], count: int) -> Iterator[str]:
    """Draw what is missing, prompts in turn; every text once it is in the draft. Ends early at the budget."""
    while (missing := count - sum(not each.is_empty for each in draft.texts)) > 0:
        if len(draft.texts) >= _TRIES * count:
            raise ModelError(
                "the model writes almost nothing but empty texts",
                found=f"{count - missing:,} texts in {len(draft.texts):,} draws",
                hint="prompt it (--prompts), or train it on whole texts",
            )
        first = len(draft.texts) % len(prompts)
        drawn = source.draw(list(islice(cycle(prompts), first, first + missing)))
        if not drawn:
            return
        draft.add(drawn)
        yield from (each.text for each in drawn if not each.is_empty)
