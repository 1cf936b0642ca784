"""Named entities by a spaCy pipeline: people, places, organisations, dates, sums, as a statistical tagger sees
them.

Any installed English pipeline with an entity recogniser will do. Texts go through `nlp.pipe` in batches with only
the components that entities need; texts longer than the pipeline accepts are cut at blanks. Not local: a tagger
reads the sentence around a span, so masking one name may change what it says of the next. What a given pipeline
misses is to be measured (`measurement`): the small English one finds 94 % of a court case's names if titles are
left aside, and masks a third of a German text.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from reticent.core.corpus import Span
from reticent.core.errors import UsageError
from reticent.core.extras import optional_imports
from reticent.data.kinds import NOT_PERSONAL, canonical
from reticent.data.policies.taggers.by_language import ByLanguage
from reticent.data.policies.taggers.word_edges import whole_words

INSTALL = "python -m spacy download en_core_web_sm"  # by the makers of spaCy
_LONGEST = 100_000  # characters; a pipeline's memory grows with its longest text
_BATCH = 32
_SIZES = ("_trf", "_lg", "_md", "_sm")  # of pipelines, the largest first
_MULTILINGUAL = "xx"
# What an entity recogniser never reads.
_UNUSED = ("parser", "lemmatizer", "tagger", "attribute_ruler", "senter", "morphologizer", "textcat")


class SpacyPolicy:
    """Finds the entities of a spaCy pipeline, by the names of `data.kinds`. Loads it with the first text.

    Without `kinds` everything is found but what is no personal data (`NOT_PERSONAL`).
    """

    is_local = False

    def __init__(self, pipeline: str | None = None, *, kinds: Sequence[str] | None = None) -> None:
        self.pipeline = pipeline or english_pipeline()
        self._kinds = None if kinds is None else frozenset(map(canonical, kinds))
        self._loaded: Any = None
        self.name = "spacy" if kinds is None else "spacy " + ", ".join(sorted(kinds))

    def __repr__(self) -> str:
        return f"SpacyPolicy({self.pipeline})"

    def __getstate__(self) -> dict[str, Any]:
        """Without the pipeline: another process loads its own."""
        return self.__dict__ | {"_loaded": None}

    @property
    def fingerprint(self) -> str:
        """Names what decides the findings."""
        meta = self._language().meta
        kinds = "all" if self._kinds is None else ",".join(sorted(self._kinds))
        return f"spacy {self.pipeline} {meta.get('version')} {meta.get('spacy_git_version')} {kinds}"

    @property
    def kinds(self) -> tuple[str, ...]:
        """Labels that may be found."""
        labels = {canonical(label) for label in self._language().get_pipe("ner").labels}
        return tuple(sorted(self._kinds or labels - NOT_PERSONAL))

    def find(self, texts: Sequence[str]) -> list[tuple[Span, ...]]:
        """Sorted, non-overlapping spans of each text."""
        language = self._language()
        pieces = [(index, start, piece) for index, text in enumerate(texts) for start, piece in _pieces(text)]
        found: list[list[Span]] = [[] for _ in texts]
        documents = language.pipe((piece for _, _, piece in pieces), batch_size=_BATCH)
        for (index, start, _), document in zip(pieces, documents, strict=True):
            found[index] += [
                Span(start + entity.start_char, start + entity.end_char, kind)
                for entity in document.ents
                if self._is_asked(kind := canonical(entity.label_))
            ]
        return [whole_words(text, spans) for text, spans in zip(texts, found, strict=True)]

    def _is_asked(self, kind: str) -> bool:
        return kind not in NOT_PERSONAL if self._kinds is None else kind in self._kinds

    def _language(self) -> Any:
        if self._loaded is None:
            import spacy

            try:
                self._loaded = spacy.load(self.pipeline, exclude=list(_UNUSED))
            except OSError:
                raise UsageError(
                    "no such spaCy pipeline", found=repr(self.pipeline), expected=_installed(), hint=INSTALL
                ) from None
            if "ner" not in self._loaded.pipe_names:
                raise UsageError(
                    "this spaCy pipeline has no entity recogniser", found=repr(self.pipeline), hint=INSTALL
                )
            for part in [name for name in self._loaded.pipe_names if not is_read_by(self._loaded, name, "ner")]:
                self._loaded.disable_pipe(part)
        return self._loaded


def is_read_by(language: Any, name: str, reader: str) -> bool:
    """Whether a component of a pipeline may be read by another: not vectors that it does not listen to."""
    listening = getattr(language.get_pipe(name), "listening_components", None)
    return name == reader or listening is None or reader in listening


def english_pipeline() -> str:
    """The installed English pipeline, the largest where there are several."""
    with optional_imports("tagging named entities"):
        from spacy.util import get_installed_models
    english = _largest_by_language(get_installed_models()).get("en")
    if english is None:
        raise UsageError("no English spaCy pipeline is installed", hint=INSTALL)
    return english


def spacy_by_language() -> ByLanguage:
    """Each text by the installed pipeline of its language, the largest where there are several.

    Text in other languages is read by the multilingual pipeline (`xx_…`) where there is one, else by the English.
    """
    with optional_imports("tagging named entities"):
        from spacy.util import get_installed_models
    pipelines = _largest_by_language(get_installed_models())
    others = pipelines.get(_MULTILINGUAL) or english_pipeline()
    policies = {language: SpacyPolicy(name) for language, name in pipelines.items() if language != _MULTILINGUAL}
    return ByLanguage(policies, SpacyPolicy(others), name="spacy by language")


def _largest_by_language(pipelines: Iterable[str]) -> dict[str, str]:
    """The largest pipeline of each language, whose code its name starts with."""

    def size(name: str) -> tuple[int, str]:
        return next((n for n, size in enumerate(_SIZES) if size in name), len(_SIZES)), name

    return {name.partition("_")[0]: name for name in sorted(pipelines, key=size, reverse=True)}


def _installed() -> str:
    from spacy.util import get_installed_models

    return "one of " + (", ".join(sorted(get_installed_models())) or "none installed")


def _pieces(text: str) -> Iterator[tuple[int, str]]:
    """The text in pieces that a pipeline accepts, cut at blanks, each with its place."""
    start = 0
    while len(text) - start > _LONGEST:
        cut = max(text.rfind("\n", start + 1, start + _LONGEST), text.rfind(" ", start + 1, start + _LONGEST))
        cut = cut if cut > start else start + _LONGEST
        yield start, text[start:cut]
        start = cut
    yield start, text[start:]
