"""Taggers of other people behind our protocol: spaCy, libphonenumber, Presidio."""

import pickle

import pytest

from reticent.core.corpus import Span
from reticent.core.errors import UsageError
from reticent.data.policies.shapes.phones import PhoneNumbers
from reticent.data.policies.taggers import named_entities
from reticent.data.policies.taggers.by_language import written_language
from reticent.data.policies.taggers.named_entities import INSTALL, SpacyPolicy, english_pipeline
from reticent.runs.policies.by_name import policy_named

TEXT = "On Monday John Smith of Microsoft flew to Berlin."


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory) -> str:
    """A pipeline of our own making: patterns in the place of a trained recogniser."""
    spacy = pytest.importorskip("spacy")
    language = spacy.blank("en")
    patterns = {"PERSON": "John Smith", "GPE": "Berlin", "ORG": "Microsoft", "DATE": "Monday"}
    language.add_pipe("entity_ruler", name="ner").add_patterns(
        [{"label": label, "pattern": words} for label, words in patterns.items()]
    )
    folder = tmp_path_factory.mktemp("pipeline")
    language.to_disk(folder)
    return str(folder)


@pytest.fixture
def spacy_policy(pipeline) -> SpacyPolicy:
    return SpacyPolicy(pipeline)


def words(policy, text):
    return {(s.kind, text[s.start : s.end]) for s in policy.find([text])[0]}


def test_spacy_finds_typed_entities(spacy_policy, pipeline):
    assert {("PERSON", "John Smith"), ("LOC", "Berlin")} <= words(spacy_policy, TEXT)
    assert not spacy_policy.is_local
    assert "PERSON" in spacy_policy.kinds
    assert words(SpacyPolicy(pipeline, kinds=["GPE"]), TEXT) == {("LOC", "Berlin")}


def test_long_text_is_read_in_pieces_and_offsets_stay_right(spacy_policy, monkeypatch):
    monkeypatch.setattr(named_entities, "_LONGEST", 60)
    text = f"{TEXT} " * 6
    found = [text[s.start : s.end] for s in spacy_policy.find([text])[0]]
    assert found.count("John Smith") >= 5
    pieces = list(named_entities._pieces("a" * 200))
    assert "".join(piece for _, piece in pieces) == "a" * 200
    assert all(("a" * 200)[start:].startswith(piece) for start, piece in pieces)


def test_pipeline_is_loaded_by_each_process_itself(spacy_policy):
    spacy_policy.find([TEXT])
    assert len(pickle.dumps(spacy_policy)) < 1000
    assert spacy_policy.fingerprint == pickle.loads(pickle.dumps(spacy_policy)).fingerprint


def test_without_a_pipeline_the_error_has_the_install_line(monkeypatch):
    util = pytest.importorskip("spacy.util")
    monkeypatch.setattr(util, "get_installed_models", lambda: ["de_core_news_sm"])
    with pytest.raises(UsageError) as caught:
        english_pipeline()
    assert caught.value.hint == INSTALL
    assert INSTALL.startswith("python -m spacy download ")  # from spaCy's makers, not from whoever took the name


def test_each_text_is_read_by_the_pipeline_of_its_language(monkeypatch):
    util = pytest.importorskip("spacy.util")
    asked = []

    class Recording:
        is_local = False
        fingerprint = "recording"

        def __init__(self, pipeline):
            self.name, self.kinds = pipeline, (pipeline.upper(),)

        def find(self, texts):
            asked.append((self.name, list(texts)))
            return [(Span(0, 1, self.kinds[0]),) for _ in texts]

    installed = ["en_core_web_sm", "de_core_news_sm", "de_core_news_lg", "zh_core_web_sm", "xx_ent_wiki_sm"]
    monkeypatch.setattr(util, "get_installed_models", lambda: installed)
    monkeypatch.setattr(named_entities, "SpacyPolicy", Recording)
    texts = [
        "the cat sat on the mat",
        "der Hund und die Katze",
        "我叫王小明，住在北京。",
        "昨日、田中さんに会いました。",
    ]
    policy = policy_named("spacy:auto")
    kinds = [spans[0].kind for spans in policy.find(texts * 2)]
    assert kinds == ["EN_CORE_WEB_SM", "DE_CORE_NEWS_LG", "ZH_CORE_WEB_SM", "XX_ENT_WIKI_SM"] * 2
    assert len(asked) == 4  # in batches
    assert set(policy.kinds) == set(kinds)
    assert "de" in policy.fingerprint
    installed.remove("xx_ent_wiki_sm")
    assert policy_named("spacy:auto").find(texts[3:])[0][0].kind == "EN_CORE_WEB_SM"


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("제 이름은 김민수입니다.", "ko"),
        ("اسمي محمد علي", "ar"),
        ("שמי דוד כהן", "he"),
        ("मेरा नाम राहुल है", "hi"),
        ("ผมชื่อสมชาย", "th"),
        ("He wrote 北京 on the wall of the house", "en"),
        ("", "en"),
    ],
)
def test_language_is_told_by_script_first(text, language):
    assert written_language(text) == language


def test_unknown_pipeline_is_refused():
    pytest.importorskip("spacy")
    with pytest.raises(UsageError, match="no such spaCy pipeline"):
        SpacyPolicy("en_absent").find(["x"])


def test_phone_numbers_of_real_plans_are_found_and_others_are_not():
    pytest.importorskip("phonenumbers")
    text = "call (415) 555-2671, +44 20 7946 0958 or 000-000-0000"
    assert words(PhoneNumbers(), text) == {("PHONE", "(415) 555-2671"), ("PHONE", "+44 20 7946 0958")}
    with pytest.raises(ValueError, match="country"):
        PhoneNumbers(["XX"])


@pytest.mark.slow
def test_presidio_finds_and_never_opens_a_connection(pipeline, monkeypatch):
    import socket

    pytest.importorskip("presidio_analyzer")
    from reticent.data.policies.taggers.presidio import PresidioPolicy

    def refuse(*arguments, **options):
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    text = "John Smith has ada@byron.org and 4111 1111 1111 1111."
    found = words(PresidioPolicy(pipeline=pipeline), text)
    assert {"John Smith", "ada@byron.org", "4111 1111 1111 1111"} <= {value for _, value in found}
    assert len(pickle.dumps(PresidioPolicy(pipeline=pipeline))) < 1000


@pytest.mark.slow
def test_presidio_finds_national_identifiers_where_they_are_asked_for(pipeline):
    pytest.importorskip("presidio_analyzer")
    from reticent.data.policies.taggers.presidio import PresidioPolicy

    text = "My NIF is 55555555K, and my PESEL is 44051401458."
    values = {"55555555K", "44051401458"}
    national = PresidioPolicy(pipeline=pipeline, national=True)
    assert values <= {value for _, value in words(national, text)}
    assert "ES_NIF" in national.kinds
    plain = PresidioPolicy(pipeline=pipeline)
    assert "55555555K" not in {value for _, value in words(plain, text)}
    assert plain.fingerprint != national.fingerprint


@pytest.fixture(scope="module")
def english() -> str:
    try:
        return english_pipeline()
    except UsageError:
        pytest.skip("no English pipeline is installed")


DOUBTFUL = (
    "Her social security number is 123456789, and he has 987654321 apples.",
    "The bank account of John Smith is 12345678901, said Mary on Monday.",
    "The bank counted 12345678901 coins. His driver's licence is H1234567.",
    "Licences were issued: A1234567.",
    "He paid 40 marks in Berlin.",
    "",
)


@pytest.mark.slow
def test_presidio_finds_the_same_when_only_doubtful_texts_are_lemmatised(english):
    """The oracle runs Presidio's own analyser, text by text, with every component but those for sentences."""
    pytest.importorskip("presidio_analyzer")
    from presidio_analyzer import AnalyzerEngine
    from presidio_analyzer.nlp_engine import NlpEngineProvider

    from reticent.data.kinds import NOT_PERSONAL, canonical
    from reticent.data.policies.taggers.presidio import PresidioPolicy
    from reticent.data.policies.taggers.word_edges import whole_words

    models = [{"lang_code": "en", "model_name": english}]
    engine = NlpEngineProvider(nlp_configuration={"nlp_engine_name": "spacy", "models": models}).create_engine()
    for part in {"parser", "senter"} & set(engine.nlp["en"].pipe_names):
        engine.nlp["en"].disable_pipe(part)
    oracle = AnalyzerEngine(nlp_engine=engine, supported_languages=["en"])

    def slowly(text: str) -> tuple[Span, ...]:
        results = oracle.analyze(text, language="en", score_threshold=0.35)
        named = [(one.start, one.end, canonical(one.entity_type)) for one in results]
        return whole_words(text, [Span(*one) for one in named if one[2] not in NOT_PERSONAL])

    found = PresidioPolicy(pipeline=english).find(DOUBTFUL)
    assert found == [slowly(text) for text in DOUBTFUL]
    kinds = [{span.kind for span in spans} for spans in found]
    assert "SSN" in {kind.removeprefix("US_") for kind in kinds[0]}  # a context word told it


@pytest.mark.slow
def test_every_lemma_is_among_those_that_a_word_may_get(english):
    import spacy

    from reticent.data.policies.taggers.presidio import _possible_lemmas, _put_off

    language = spacy.load(english)
    possible = _possible_lemmas(language, _put_off(language))
    if possible is None:
        pytest.skip("this pipeline's lemmatiser is none that is known")
    for text in (*DOUBTFUL, "She's leaving the worst oxen's leaves; they'd better have been wolves."):
        document = language(text)
        assert {token.lemma_.lower() for token in document} <= {*possible(document).split("\n"), ""}


@pytest.mark.slow
def test_scrubbing_by_presidio_twice_is_scrubbing_once(english):
    pytest.importorskip("presidio_analyzer")
    from reticent.core.corpus import Record
    from reticent.data.policies.taggers.presidio import PresidioPolicy
    from reticent.data.redaction.scrubbing import Scrubber

    policy = PresidioPolicy(pipeline=english)
    texts = [text for text in DOUBTFUL if text]

    def scrubbed(texts: list[str]) -> list[str]:
        records = [Record(str(n), text) for n, text in enumerate(texts)]
        return [one.record.text for one in Scrubber(policy).scrub(records)]

    once = scrubbed(texts)
    assert once != texts
    assert scrubbed(once) == once


def test_texts_are_batched_by_their_characters(monkeypatch):
    from reticent.data.policies.taggers import presidio

    monkeypatch.setattr(presidio, "_BATCH", 5)
    assert list(presidio._batches(["ab", "cd", "efgh", "longer than that", "i", ""])) == [
        ["ab", "cd"],
        ["efgh"],
        ["longer than that"],
        ["i", ""],
    ]
    assert list(presidio._batches([])) == []


def test_vectors_that_no_recogniser_listens_to_are_left_out():
    spacy = pytest.importorskip("spacy")
    language = spacy.blank("en")
    language.add_pipe("tok2vec")
    language.add_pipe("ner")
    assert not named_entities.is_read_by(language, "tok2vec", "ner")
    assert named_entities.is_read_by(language, "ner", "ner")
    listener = {"@architectures": "spacy.Tok2VecListener.v1", "width": 96}
    shared = spacy.blank("en")
    shared.add_pipe("tok2vec")
    shared.add_pipe("ner", config={"model": {"tok2vec": listener}})
    shared.initialize()
    assert named_entities.is_read_by(shared, "tok2vec", "ner")
