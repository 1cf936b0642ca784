"""A corpus with sensitive spans replaced by masks, types or consistent fakes."""

import json
import secrets
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from reticent.core.corpus import Record
from reticent.core.document import write_atomically
from reticent.core.errors import ConfigError, DataError
from reticent.data.redaction.scrubbing import Replace
from reticent.runs.corpus.scan import FindingSpans
from reticent.runs.policies import POLICY_HELP, policy_named
from reticent.runs.settings.declaration import option
from reticent.runs.settings.shared import CorpusOptions, EngineOptions, PatternOptions, Shown
from reticent.runs.tracking import Track, untracked

if TYPE_CHECKING:
    from reticent.data.redaction.fakes import Fakes
    from reticent.data.redaction.scrubbing import Scrubbed, ScrubTally

_KEY_BYTES: Final = 32


class ScrubSettings(FindingSpans, PatternOptions, CorpusOptions, EngineOptions, Shown):
    """Everything that `reticent scrub` can be asked for."""

    file: Path = option("Corpus to scrub. It is not changed.", positional=True, metavar="FILE")
    out: Path = option("Scrubbed corpus to write.", metavar="FILE")
    policy: str = option(f"Policy that finds sensitive spans: {POLICY_HELP}", default="union", metavar="NAME")
    replace: Replace = option("Replace a span by a mask, by its type, or by a made-up value.", default=Replace.MASK)
    key: Path | None = option(
        "Key file for made-up values: the same key gives the same values. Created if missing.",
        default=None,
        metavar="FILE",
    )
    offsets: Path | None = option(
        "JSONL file to write scrubbed and original offsets to.", default=None, metavar="FILE"
    )

    def check(self) -> None:
        """Refuse a key for what needs none."""
        if self.key is not None and self.replace is not Replace.FAKE:
            raise ConfigError("--key belongs to fakes", hint="add --replace fake, or leave out --key")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScrubResult:
    """What was replaced, counted by type; no value is kept."""

    tally: "ScrubTally"
    policy: str
    replace: Replace
    corpus: Path

    def to_json(self) -> dict[str, Any]:
        """A JSON document with a schema version."""
        about = {"policy": self.policy, "replace": str(self.replace), "corpus": str(self.corpus)}
        return self.tally.to_json() | about


def scrub(settings: ScrubSettings, *, track: Track = untracked) -> ScrubResult:
    """Write the corpus with its sensitive spans replaced."""
    from reticent.data.policies.span_cache import SpanCache
    from reticent.data.redaction.scrubbing import Scrubber
    from reticent.data.writing import replaced, write_corpus
    from reticent.engine.policy import policies_in

    out, offsets, cache = settings.out, settings.offsets, settings.cache
    corpus = settings.corpus(settings.file)
    chosen = policy_named(settings.policy_with_patterns(settings.policy))
    _refuse_taken(settings.file, [target for target in (out, offsets) if target is not None])
    # The whole corpus is read, and so checked, before anything is written.
    size = sum(1 for _ in track(corpus, "checking"))
    fakes = _fakes(settings.key) if settings.replace is Replace.FAKE else None
    with ExitStack() as stack:
        side = None if offsets is None else stack.enter_context(replaced(offsets, overwrite=False))
        asked = settings.engine_settings
        (finder,) = stack.enter_context(policies_in(asked, [chosen], processes=settings.processes))
        if cache is not None:
            finder = stack.enter_context(closing(SpanCache(finder, cache)))
        scrubber = Scrubber(finder, replace=settings.replace, fakes=fakes)
        stream = scrubber.scrub(track(corpus, "scrubbing", size))
        write_corpus(_texts(stream, side), out)
    return ScrubResult(tally=scrubber.tally, policy=chosen.name, replace=settings.replace, corpus=out)


def _texts(stream: "Iterator[Scrubbed]", side: BinaryIO | None) -> Iterator[Record]:
    """The scrubbed records; their offsets go to `side` on the way."""
    for scrubbed in stream:
        if side is not None:
            side.write(json.dumps(scrubbed.offsets_to_json(), ensure_ascii=False).encode() + b"\n")
        yield scrubbed.record


def _refuse_taken(file: Path, targets: list[Path]) -> None:
    if len({target.absolute() for target in targets}) < len(targets):
        raise DataError("named twice", path=targets[0], hint="--out and --offsets are two files")
    for target in targets:
        if target.exists():
            same = file.exists() and target.samefile(file)
            what = "is the corpus itself" if same else "already exists"
            raise DataError(what, path=target, hint="choose another name, or remove it first")


def _fakes(key: Path | None) -> "Fakes":
    """Fakes under the key in a file, or under one of this run alone."""
    from reticent.data.redaction.fakes import Fakes

    if key is None:
        return Fakes(secrets.token_bytes(_KEY_BYTES))
    if not key.exists():
        write_atomically(key, secrets.token_hex(_KEY_BYTES).encode() + b"\n", mode=0o600)
    try:
        return Fakes(bytes.fromhex(key.read_text(encoding="ascii").strip()))
    except (OSError, ValueError) as problem:
        raise DataError(
            "not a key", path=key, found=type(problem).__name__, expected="32 to 128 hexadecimal digits"
        ) from None
