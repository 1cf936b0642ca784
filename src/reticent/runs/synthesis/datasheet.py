"""The datasheet of a synthetic corpus: what was proved of it, how it was sampled, and figures of its texts.

    corpus.jsonl               the texts
    corpus.datasheet.json      bound to the file above by its digest, and to what it was sampled from
    corpus.datasheet.md        the same, to read

Everything in it follows from the texts, from public settings and from what was proved, so it may travel with the
corpus. Nothing in it is computed from private text. Readers derive ε again and refuse a corpus of another digest
(`reticent bound corpus.datasheet.json`); that the texts were *made* as it says, no file can prove.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from reticent import __version__
from reticent.core.document import (
    MALFORMED,
    check_schema,
    object_to_json,
    read_document,
    write_atomically,
    write_document,
)
from reticent.core.errors import GuaranteeError
from reticent.core.guarantee import Guarantee
from reticent.core.printing.numbers import at_most, counted
from reticent.core.printing.safe_text import for_markdown
from reticent.data.reading.compression import is_compressed

if TYPE_CHECKING:  # `reticent bound` reads datasheets and needs neither
    from reticent.runs.synthesis.figures import Figures
    from reticent.runs.synthesis.sources import Proof

SCHEMA_VERSION: Final = 1
SUFFIX: Final = ".datasheet.json"
_WHY: Final = {
    "weights": "Every text was sampled from weights that this guarantee covers, and from nothing else that is "
    "private. So the corpus and whatever is computed from it have the same guarantee, at no further cost.",
    "ensemble": "Every token was charged to the ledger of the ensemble before it was drawn. So the corpus, "
    "together with all other answers of that ensemble, has this guarantee.",
}


def datasheet_path(corpus: Path) -> Path:
    """Where the datasheet of a corpus lies."""
    plain = corpus.with_suffix("") if is_compressed(corpus) else corpus
    return plain.with_name(plain.stem + SUFFIX)


def file_digest(path: Path) -> str:
    """Hash of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Datasheet:
    """What goes with a corpus."""

    corpus: Path
    proof: "Proof"
    sampling: dict[str, Any]
    figures: "Figures"

    def to_json(self) -> dict[str, Any]:
        """A JSON document with a schema version."""
        document = {
            "schema_version": SCHEMA_VERSION,
            "corpus": {"file": self.corpus.name, "digest": file_digest(self.corpus)},
            "guarantee": self.proof.guarantee,
            "other_guarantees": self.proof.other_guarantees,
            "source": self.proof.bound_to,
            "sampling": self.sampling,
            "figures": self.figures,
            "version": __version__,
        }
        return object_to_json(document)

    def write(self) -> Path:
        """Write both files; the path of the JSON document."""
        path = datasheet_path(self.corpus)
        write_document(path, self.to_json(), mode=0o644)
        write_atomically(path.with_suffix(".md"), self.to_markdown().encode("utf8"))
        return path

    def to_markdown(self) -> str:
        """For people."""
        figures, how = self.figures, self.sampling
        prompts = (
            "each text from its beginning"
            if how["prompts"] is None
            else f"after {how['prompts']['count']:,} prompts"
        )
        distinct = ", ".join(f"{share:.1%} (n = {length})" for length, share in figures.distinct.items())
        spans = ", ".join(f"{count:,} {kind}" for kind, count in figures.spans.items()) or "none"
        lines = [
            f"# {for_markdown(self.corpus.name)}",
            "",
            f"Synthetic text: {counted(figures.records, 'record')}, {counted(figures.tokens, 'token')}. "
            "Each record is an owner of its own.",
            "",
            "## What is proved",
            "",
            f"- {for_markdown(promise(self.proof.guarantee))}",
            *(
                f"- {for_markdown(f'{name}: {promise(each)}')}"
                for name, each in self.proof.other_guarantees.items()
            ),
            "",
            _WHY[self.proof.bound_to["kind"]],
            "",
            f"It covers {for_markdown(self.proof.guarantee.covers)}. It holds if",
            "",
            *(f"- {for_markdown(each)}" for each in self.proof.guarantee.assumes),
            "",
            "## How it was sampled",
            "",
            f"By the system's random generator, {prompts}, at temperature {how['temperature']:g}, top-k "
            f"{how['top_k'] or 'off'}, top-p {how['top_p'] or 'off'}, at most {how['max_tokens']:,} tokens a text.",
            "",
            "## The texts",
            "",
            f"- Length: {figures.shortest:,} to {figures.longest:,} tokens, median {figures.median:g}; "
            f"{counted(figures.cut, 'text')} cut short.",
            f"- {counted(figures.empty, 'empty text')} left out; {counted(figures.duplicates, 'duplicate')}.",
            f"- Distinct word n-grams: {distinct}.",
            f"- The policy {for_markdown(figures.policy)} finds something in {figures.sensitive_records:,} of the "
            f"records: {for_markdown(spans)}. A synthetic name or number may be somebody's by chance, or one that "
            "the model learnt: the guarantee bounds the second and says nothing of the first.",
            "",
            f"Written by reticent {__version__}. `reticent bound {datasheet_path(self.corpus).name}` derives ε "
            "again and checks the file.",
        ]
        return "\n".join(lines) + "\n"


def promise(guarantee: Guarantee) -> str:
    """A guarantee in a sentence, rounded to the side that keeps it true."""
    at = f"δ = {at_most(guarantee.delta)}" if guarantee.order is None else f"order {guarantee.order:g}"
    about = f"for one {guarantee.unit.value} ({guarantee.neighbours.value})"
    return f"{guarantee.notion.value}: ε ≤ {at_most(guarantee.epsilon)} at {at} {about}, by {guarantee.mechanism}."


def read_datasheet(path: Path) -> tuple[Guarantee, dict[str, Guarantee], Path, str]:
    """The guarantees as stated, the corpus that they are about and its digest; nothing is checked but the form."""
    document = read_document(path)
    check_schema(document, SCHEMA_VERSION, kind="datasheet")
    try:
        stated = Guarantee.from_json(document["guarantee"])
        others = {name: Guarantee.from_json(each) for name, each in document["other_guarantees"].items()}
        name, digest = document["corpus"]["file"], document["corpus"]["digest"]
        if not isinstance(name, str) or not isinstance(digest, str) or Path(name).name != name:
            raise TypeError("a corpus is named by a file beside the datasheet, and a digest")
    except MALFORMED as error:
        raise GuaranteeError(
            f"{path}: not a datasheet that this version can read", found=type(error).__name__
        ) from None
    return stated, others, path.parent / name, digest
