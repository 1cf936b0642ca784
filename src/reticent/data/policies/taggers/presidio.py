"""Microsoft Presidio's analyser behind our protocol: its recognisers of numbers and addresses, and named entities
by the installed spaCy pipeline.

Presidio returns overlapping findings with scores; all above `threshold` are merged to whole words. Its check of
e-mail domains would fetch a list from the network with the first address; here it uses the list that its package
carries, so that scanning a private corpus never opens a connection. Not local: context words raise scores.

Of the identifiers that states issue, Presidio looks for a few of the USA and the United Kingdom unless told
otherwise. With `national` it looks for those of every country it knows, in text of any language.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from reticent.core.corpus import Span
from reticent.core.extras import optional_imports
from reticent.data.kinds import NOT_PERSONAL, canonical
from reticent.data.policies.taggers.named_entities import english_pipeline
from reticent.data.policies.taggers.word_edges import whole_words

_BATCH = 32


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
        for text, read in analyser.nlp_engine.process_batch(texts, language="en", batch_size=_BATCH):
            results = analyser.analyze(text, language="en", score_threshold=self._threshold, nlp_artifacts=read)
            found.append(whole_words(text, _personal(results)))
        return found

    def _analyser(self) -> Any:
        if self._loaded is None:
            self._loaded = offline_analyser(self._pipeline)
            if self._national:
                _add_national(self._loaded.registry)
        return self._loaded


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


def offline_analyser(pipeline: str) -> Any:
    """Presidio's `AnalyzerEngine` with a spaCy pipeline, which never asks the network."""
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
    for part in set(engine.nlp["en"].pipe_names) & {"parser", "senter"}:
        engine.nlp["en"].disable_pipe(part)  # Presidio reads entities and lemmas, which need no sentences
    analyser = AnalyzerEngine(nlp_engine=engine, supported_languages=["en"])
    analyser.registry.remove_recognizer("EmailRecognizer")
    analyser.registry.add_recognizer(OfflineEmailRecognizer())
    return analyser
