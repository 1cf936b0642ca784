"""Microsoft Presidio's analyser behind our protocol: its recognisers of numbers and addresses, and named entities
by the installed spaCy pipeline.

Presidio returns overlapping findings with scores; all above `threshold` are merged to whole words. Its check of
e-mail domains would fetch a list from the network with the first address; here it uses the list that its package
carries, so that scanning a private corpus never opens a connection. Not local: context words raise scores.

Context words are compared as lemmas, and only findings below the threshold can need them. So a text is tagged and
lemmatised only where there is such a finding and a word in any of whose lemmas a context word is; what is found is
the same.

Of the identifiers that states issue, Presidio looks for a few of the USA and the United Kingdom unless told
otherwise. With `national` it looks for those of every country it knows, in text of any language.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

from reticent.core.corpus import Span
from reticent.core.extras import optional_imports
from reticent.data.kinds import NOT_PERSONAL, canonical
from reticent.data.policies.taggers.named_entities import english_pipeline, is_read_by
from reticent.data.policies.taggers.word_edges import whole_words

_BATCH = 100_000  # characters that are read at once: many short texts, as memory grows with all of them
# Components that give a text its lemmas, and those that neither entities nor lemmas need.
_LEMMATISING = frozenset({"tagger", "morphologizer", "attribute_ruler", "lemmatizer"})
_SENTENCES = frozenset({"parser", "senter"})
_KEPT = 20_000  # words whose lemmas are kept


class PresidioPolicy:
    """Finds what Presidio's analyser reports with at least `threshold`. Builds it with the first text."""

    is_local = False

    def __init__(self, *, threshold: float = 0.35, pipeline: str | None = None, national: bool = False) -> None:
        if not 0.0 <= threshold <= 1.0:
            raise ValueError(f"a threshold is in [0, 1], found {threshold}")
        self._threshold = threshold
        self._national = national
        self._pipeline = pipeline or english_pipeline()
        self.name = "presidio national" if national else "presidio"
        self._loaded: Any = None

    def __repr__(self) -> str:
        return f"PresidioPolicy({self._pipeline}, {self._threshold:g})"

    def __getstate__(self) -> dict[str, Any]:
        """Without the analyser: another process builds its own."""
        return self.__dict__ | {"_loaded": None}

    @property
    def fingerprint(self) -> str:
        """Names what decides the findings."""
        from importlib.metadata import version

        return f"{self.name} {version('presidio-analyzer')} {self._pipeline} {self._threshold!r}"

    @property
    def kinds(self) -> tuple[str, ...]:
        """Entity types that may be found."""
        found = {canonical(name) for name in self._analyser().get_supported_entities(language="en")}
        return tuple(sorted(found - NOT_PERSONAL))

    def find(self, texts: Sequence[str]) -> list[tuple[Span, ...]]:
        """Sorted, non-overlapping spans of each text."""
        analyser = self._analyser()
        found = []
        for batch in _batches(texts):
            for text, read in analyser.nlp_engine.process_batch(batch, language="en", batch_size=len(batch)):
                results = analyser.analyze(text, language="en", score_threshold=self._threshold, nlp_artifacts=read)
                found.append(whole_words(text, _personal(results)))
        return found

    def _analyser(self) -> Any:
        if self._loaded is None:
            self._loaded = offline_analyser(self._pipeline, threshold=self._threshold)
            if self._national:
                _add_national(self._loaded.registry)
        return self._loaded


def _batches(texts: Sequence[str]) -> Iterator[list[str]]:
    """The texts in order, as many at once as hold `_BATCH` characters, and at least one."""
    batch: list[str] = []
    length = 0
    for text in texts:
        if batch and length + len(text) > _BATCH:
            yield batch
            batch, length = [], 0
        batch.append(text)
        length += len(text)
    if batch:
        yield batch


def _personal(results: Sequence[Any]) -> Iterator[Span]:
    for result in results:
        if (kind := canonical(result.entity_type)) not in NOT_PERSONAL:
            yield Span(result.start, result.end, kind)


def _add_national(registry: Any) -> None:
    """Add the recognisers of every country that are not there yet, for the language that texts are read in."""
    from presidio_analyzer import PatternRecognizer, predefined_recognizers

    present = {recogniser.name for recogniser in registry.recognizers}
    for name, known in sorted(vars(predefined_recognizers).items()):
        is_pattern = isinstance(known, type) and issubclass(known, PatternRecognizer)
        if is_pattern and known.COUNTRY_CODE is not None and name not in present:
            registry.add_recognizer(known(supported_language="en"))


def offline_analyser(pipeline: str, *, threshold: float) -> Any:
    """Presidio's `AnalyzerEngine` with a spaCy pipeline, which never asks the network.

    What scores `threshold` or more does so in Presidio too, and the other way round; how much more may differ.
    """
    with optional_imports("the policy 'presidio'"):
        from presidio_analyzer import AnalyzerEngine
        from presidio_analyzer.nlp_engine import NlpEngineProvider
        from presidio_analyzer.predefined_recognizers import EmailRecognizer
        from tldextract import TLDExtract
    carried = TLDExtract(suffix_list_urls=(), cache_dir=None)

    class OfflineEmailRecognizer(EmailRecognizer):  # type: ignore[misc, unused-ignore]
        def validate_result(self, pattern_text: str) -> bool:
            return bool(carried(pattern_text).fqdn)

    models = [{"lang_code": "en", "model_name": pipeline}]
    provider = NlpEngineProvider(nlp_configuration={"nlp_engine_name": "spacy", "models": models})
    engine = provider.create_engine()
    language = engine.nlp["en"]
    later = _put_off(language)
    for part in {*later, *(_SENTENCES & set(language.pipe_names))}:
        language.disable_pipe(part)
    enhancer = _context_enhancer(language, later, threshold=threshold)
    analyser = AnalyzerEngine(nlp_engine=engine, context_aware_enhancer=enhancer, supported_languages=["en"])
    analyser.registry.remove_recognizer("EmailRecognizer")
    analyser.registry.add_recognizer(OfflineEmailRecognizer())
    return analyser


def _put_off(language: Any) -> list[str]:
    """Components of a pipeline that only lemmas need, in order; none where anything but a trained recogniser of
    entities may read what they say."""
    names = language.pipe_names
    rest = [name for name in names if name not in _LEMMATISING | _SENTENCES]
    shared = [name for name in rest if not is_read_by(language, name, "ner")]
    if any(
        language.get_pipe_meta(name).factory != "ner" for name in rest if name not in shared and name != "tok2vec"
    ):
        return []
    return [name for name in names if name in _LEMMATISING or name in shared]


def _context_enhancer(language: Any, later: Sequence[str], *, threshold: float) -> Any:
    """Presidio's comparison of context words for findings below `threshold`, after the components put off."""
    from presidio_analyzer.context_aware_enhancers import LemmaContextAwareEnhancer
    from presidio_analyzer.nlp_engine import NlpArtifacts

    possible = _possible_lemmas(language, later)

    class UnsureEnhancer(LemmaContextAwareEnhancer):  # type: ignore[misc, unused-ignore]
        def enhance_using_context(
            self, text: str, raw_results: list[Any], nlp_artifacts: Any, recognizers: list[Any], context: Any = None
        ) -> list[Any]:
            words = {recogniser.id: recogniser.context for recogniser in recognizers if recogniser.context}
            document = nlp_artifacts.tokens
            lemmas: str | None = None  # all that the words of the text may get; looked up when first needed
            sure: list[Any] = []
            unsure: list[Any] = []
            for result in raw_results:
                is_open = result.score < threshold or result.score <= 0.0
                listed = words.get((result.recognition_metadata or {}).get(result.RECOGNIZER_IDENTIFIER_KEY), ())
                may_rise = is_open and bool(listed)
                if may_rise and possible is not None:
                    lemmas = lemmas or possible(document)
                    may_rise = any(word.lower() in lemmas for word in listed)
                (unsure if may_rise else sure).append(result)
            if not unsure:
                return sure
            for name in later:
                document = language.get_pipe(name)(document)
            read = NlpArtifacts(
                entities=nlp_artifacts.entities,
                tokens=document,
                tokens_indices=nlp_artifacts.tokens_indices,
                lemmas=[token.lemma_ for token in document],
                nlp_engine=nlp_artifacts.nlp_engine,
                language="en",
                scores=nlp_artifacts.scores,
            )
            return [*sure, *super().enhance_using_context(text, unsure, read, recognizers, context)]

    return UnsureEnhancer()


def _possible_lemmas(language: Any, later: Sequence[str]) -> Callable[[Any], str] | None:
    """Every lemma that a word of a document may get, whatever part of speech it is tagged as, in small letters and
    each on a line; None for pipelines of which that is not known."""
    from spacy.lang.en.lemmatizer import EnglishLemmatizer
    from spacy.parts_of_speech import IDS
    from spacy.pipeline import Lemmatizer
    from spacy.tokens import Doc

    parts = {name: language.get_pipe(name) for name in later}
    lemmatiser = parts.pop("lemmatizer", None)
    if type(lemmatiser) not in (Lemmatizer, EnglishLemmatizer) or lemmatiser.mode not in ("rule", "lookup"):
        return None
    rules = getattr(parts.get("attribute_ruler"), "patterns", ())
    exceptions = {str(rule["attrs"]["LEMMA"]) for rule in rules if "LEMMA" in rule["attrs"]}
    tags = [tag for tag in IDS if tag]  # without a tag, the lemma is the word

    @lru_cache(maxsize=_KEPT)
    def of_word(word: str) -> str:
        tagged = Doc(language.vocab, words=[word] * len(tags), pos=tags)
        return "\n".join({word, *(lemma for token in tagged for lemma in lemmatiser.lemmatize(token))})

    return lambda document: "\n".join({*exceptions, *(of_word(token.text) for token in document)}).lower()
