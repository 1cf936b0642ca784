"""People, places and organisations by the learnt tagger: languages, chats, and what it leaves alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.name_weights import OF_USAGE
from reticent.data.kinds import canonical
from reticent.data.policies.words import names, vocabulary
from reticent.data.policies.words.names import KINDS, Names, _weights
from reticent.data.policies.words.vocabulary import COUNTED, commonness, companies, language_of, usages

NAMES = Names()


def found(text: str) -> set[tuple[str, str]]:
    return {(text[span.start : span.end], span.kind) for span in NAMES.find([text])[0]}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Yesterday I met Emma Johnson in Berlin.", {("Emma Johnson", "PERSON"), ("Berlin", "LOC")}),
        (
            "Gestern traf Angela Merkel ihren Nachbarn in Warschau.",
            {("Angela Merkel", "PERSON"), ("Warschau", "LOC")},
        ),
        ("Die Regierung hat eine neue Verordnung über die Zulassung beschlossen.", set()),
        ("The Weather was fine and the Meeting went well.", set()),
        (
            "Hier, Pierre Dubois a quitté Lyon pour Genève.",
            {("Pierre Dubois", "PERSON")},
        ),
        (
            "Ik heb met Pieter van den Heuvel en Joost de Graaf gesproken over de zaak.",
            {("Pieter van den Heuvel", "PERSON"), ("Joost de Graaf", "PERSON")},
        ),
        ("Вчера Иван Петров уехал из Москвы.", {("Иван Петров", "PERSON")}),
    ],
)
def test_names_are_found_with_their_kind_and_nouns_are_not(text, expected):
    assert expected <= found(text)
    if not expected:
        assert found(text) == set()


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("Elle part vivre à Toulouse, puis au bord de l'Alaska avec ses amis.", {"Toulouse", "Alaska"}),
        ("Ayer me fui a Nueva York y después a El Salvador con mi hermana.", {"Nueva York", "El Salvador"}),
        ("O meu pai mora em Curitiba e vai para Florianópolis no verão.", {"Curitiba", "Florianópolis"}),
        ("Sąd w Katowicach uznał, że on nie mieszka w Warszawie od roku.", {"Katowicach", "Warszawie"}),
        ("Я живу в Екатеринбурге, а мои родители живут в Москве.", {"Екатеринбурге", "Москве"}),
        ("Dün Bursa'ya gitti ve sonra İzmir'de bir arkadaşı ile buluştu.", {"Bursa", "İzmir"}),
    ],
)
def test_large_places_are_found_in_other_languages_and_in_their_cases(text, places):
    assert {name for name, kind in found(text) if kind == "LOC"} == places


@pytest.mark.parametrize(
    "text",
    [
        "Le lion est là. De plus, il a faim. Pouvez-vous nous aider ? L'image est belle et c'est bien.",
        "Le escribo en relación con la factura. De momento no hay respuesta. Mi casa es grande.",
        "L'ultimo episodio è stato bello. Un'altra cosa: non è vero che ci sono problemi.",
        "De man liep naar huis. Van de week was het koud en het regende de hele dag.",
    ],
)
def test_common_words_with_a_capital_are_no_names_in_other_languages(text):
    assert found(text) == set()


def test_heads_of_mails_write_the_last_name_first():
    text = "From: Kitchen, Louise\nTo: Presto, Kevin M.; Lavorato, John\nSubject: Seats, Desks\n\nTo Paris, Then"
    names = {name for name, kind in found(text) if kind == "PERSON"}
    assert {"Kitchen, Louise", "Presto, Kevin M.", "Lavorato, John"} <= names
    assert "Seats, Desks" not in names


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("我住在杭州，昨天去了上海市。", "上海市"),
        ("来週大阪に伺います。", "大阪"),
        ("来年ロンドンへ行きます。", "ロンドン"),
        ("저는 부산에서 살고 있어요.", "부산"),
        ("أسكن في الرياض منذ سنة.", "الرياض"),
        ("أنا من القاهرة.", "القاهرة"),
        ("אני גר בחיפה.", "חיפה"),
        ("मैं दिल्ली में रहता हूँ।", "दिल्ली"),
        ("ผมอยู่ที่เชียงใหม่ครับ", "เชียงใหม่"),
    ],
)
def test_large_places_are_found_in_scripts_without_capitals(text, place):
    assert (place, "LOC") in found(text)


@pytest.mark.parametrize(
    "text", ["今天天气很好，世界是自由的，我们奋斗。", "그것을 위해 미리 준비하는구나.", "العالم كله في صور جديدة."]
)
def test_common_words_that_small_towns_are_called_by_too_are_no_places(text):
    assert found(text) == set()


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("我叫王小明，住在北京。", "王小明"),
        ("昨日、田中太郎さんに会いました。", "田中太郎"),
        ("제 이름은 김민수입니다.", "김민수"),
        ("اسمي محمد علي وأسكن هنا.", "محمد علي"),
        ("मेरा नाम राहुल शर्मा है।", "राहुल शर्मा"),
        ("שמי דוד כהן ואני גר כאן.", "דוד כהן"),
        ("ผมชื่อสมชาย ใจดี", "สมชาย ใจดี"),
        ("昨日ユミちゃんが来ました。", "ユミ"),
        ('הרופא המטפל: ד"ר יוסי מזרחי.', "יוסי מזרחי"),
        ("แพทย์ผู้ดูแลคือ นพ.วิชัย", "นพ.วิชัย"),
    ],
)
def test_names_are_found_in_scripts_without_capitals(text, name):
    assert (name, "PERSON") in found(text)


@pytest.mark.parametrize(
    "town", ["Berlin", "Paris", "London", "Madrid", "Rome", "Sydney", "Houston", "Köln", "Lyon", "Dallas", "Boston"]
)
@pytest.mark.parametrize(
    "text", ["We flew to {} last week.", "{} is beautiful in spring.", "I love {}!", "It is at 12 Main Street, {}."]
)
def test_a_town_that_lists_of_names_hold_too_is_a_place(town, text):
    assert (town, "LOC") in found(text.format(town))


@pytest.mark.parametrize(
    ("text", "person"),
    [
        ("Dr. Paris saw me in Vienna.", "Paris"),
        ("Jack London wrote it. London was tired.", "London"),
        ("My friend Charlotte is late.", "Charlotte"),
        ("Then Jackson called me.", "Jackson"),
    ],
)
def test_a_person_with_the_name_of_a_town_stays_a_person(text, person):
    assert (person, "PERSON") in found(text)


@pytest.mark.parametrize("language", ["en", "de", "fr"])
def test_kept_scores_are_the_sums_of_the_weights_of_the_features(language):
    text = "SYS: DON'T Panic! I met Dr. Emma Smith-Jones, of ACME Ltd, in Köln\nJ. Müller don't care. I. Newton's"
    text += " New York"
    weights = _weights(language in COUNTED)
    slow = {}
    for start, end, features in names.candidates(text, language):
        rows = [weights[feature] for feature in features if feature in weights]
        slow[start, end] = [sum(row[n] for row in rows) for n in range(len(KINDS))]
    fast = {(start, end): scores for start, end, _, scores in names._scored(text, names._table(language), -1e9)}
    assert fast.keys() == slow.keys()
    assert all(fast[place] == pytest.approx(slow[place]) for place in slow)
    assert all(text[start:end].replace("-", "").isalpha() for start, end in slow if text[start:end] != "DON'T")


@pytest.mark.parametrize(
    ("text", "as_all"),
    [
        ("WHERE IS PETER NOW AND WHY", "capitals|shouted"),
        ("Where Is Peter Now And Why", "capital|titled"),
        ("where is peter now and why", "small|flat"),
        ("where is Peter now and why", None),
    ],
)
def test_a_word_that_is_written_as_all_around_it_is_marked(text, as_all):
    marks = {f"{group}|{mark}" for group, mark in names._AS_ALL.items()}
    ((_, _, features),) = [one for one in names.candidates(text, "en") if text[slice(*one[:2])].lower() == "peter"]
    assert marks & set(features) == ({as_all} if as_all else set())


def test_places_of_two_words_are_marked_and_words_beside_them_are_not():
    text = "We left New York for Paris and the United Kingdom."
    marked = {text[start:end] for start, end, features in names.candidates(text, "en") if "any|pair" in features}
    assert marked == {"New", "York", "United", "Kingdom"}


def test_how_words_are_used_is_a_feature_where_it_is_known_and_nowhere_else():
    def used(language):
        listed = names.candidates("Hello Emma Smith", language)
        return [feature for _, _, features in listed for feature in features if OF_USAGE.search(feature)]

    assert used("en")
    assert used("de")
    assert not used("fr")
    assert not any(map(OF_USAGE.search, _weights(False)))


def test_names_have_a_capital_more_often_than_words_do():
    assert min(usages("en")[name].capital for name in ("emma", "london", "messi")) > 0
    assert max(usages("en")[word].capital for word in ("house", "said", "beautiful")) < -1


def test_clusters_of_names_are_told_by_lists():
    first, _, place = companies("en")[usages("en")["emma"].cluster].split()
    assert first > place
    first, _, place = companies("en")[usages("en")["london"].cluster].split()
    assert place > first


@given(st.text("aBs'-1 .ts:\n_", max_size=30))
def test_words_of_ascii_are_told_as_all_words_are(text):
    assert names._PLAIN_WORD.split(text) == names._WORD.split(text)


def test_speakers_of_a_chat_are_never_names():
    text = "SYS: Hello.\nUSR: hi\nUser: thanks\nAssistant: bye\n[USER]: x\n"
    assert found(text) == set()


def test_a_lower_threshold_finds_no_less():
    text = "Dr Okonkwo of Brightwater Ltd saw Mary May in Reading while the Old Mill burnt."
    strict, loose = Names(threshold=0.6).find([text])[0], Names(threshold=0.05).find([text])[0]
    covered = {n for span in loose for n in range(span.start, span.end)}
    assert strict
    assert all(set(range(span.start, span.end)) <= covered for span in strict)
    assert len(covered) > sum(span.end - span.start for span in strict)


def test_only_asked_kinds_are_returned_and_unknown_ones_are_refused():
    text = "Emma Johnson went to Warsaw in the spring."
    assert {span.kind for span in Names(kinds=["LOC"]).find([text])[0]} == {"LOC"}
    with pytest.raises(ValueError, match="unknown kinds"):
        Names(kinds=["SHOE"])
    with pytest.raises(ValueError, match="threshold"):
        Names(threshold=0.0)


def test_weights_hold_no_word_of_the_training_text():
    for weights in (_weights(True), _weights(False)):
        endings = {feature.partition("|end ")[2] for feature in weights if "|end " in feature}
        assert max(map(len, endings)) <= 3
        assert all(len(row) == len(KINDS) for row in weights.values())


def test_names_are_as_common_everywhere_and_words_in_their_own_language():
    own, elsewhere = commonness("emma", "en")
    assert own - elsewhere < 0.5
    own, elsewhere = commonness("bild", "de")
    assert own - elsewhere > 2.0


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("the cat sat on the mat", "en"),
        ("der Hund und die Katze", "de"),
        ("le chat est sur la table", "fr"),
        ("", "en"),
    ],
)
def test_language_is_told_by_function_words(text, language):
    assert language_of(text) == language


@pytest.mark.parametrize(
    ("one", "other"),
    [("GPE", "LOC"), ("DATE_TIME", "DATE"), ("per", "PERSON"), ("Credit-Card", "CARD"), ("X", "X")],
)
def test_taggers_kinds_have_one_name(one, other):
    assert canonical(one) == canonical(other)


TELLING = "the of der und le et el y la de in to is no was i a en que il che der het een van of at 7 x"
sentences = st.lists(st.sampled_from(TELLING.split()), max_size=30)


def agrees(clear, words):
    """Whether what `clear` says of the language of these words, if anything, is what fractions tell."""
    said = clear(words)
    return said is None or said == vocabulary._likely_language(words)


@given(sentences)
def test_a_language_that_is_clear_is_the_one_that_fractions_tell(words):
    assert agrees(vocabulary._clear_language, words)


def test_the_first_language_of_a_word_is_not_always_clear():
    def by_first_word(words):
        return vocabulary._telling_words()[words[0]][0]

    words = ["la", "casa", "der", "und", "die", "das", "ist", "nicht", "mit", "von"]
    assert vocabulary._clear_language(words) == "de"
    assert not agrees(by_first_word, words)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("my name is oluwaseyi and i forgot my pin", "oluwaseyi"),
        ("hallo, mein name ist annika voss und ich warte noch", "annika voss"),
        ("mi chiamo renzo de luca e ho un problema", "renzo de luca"),
        ("mijn naam is joost en ik wil opzeggen", "joost"),
        ("меня зовут глафира, помогите пожалуйста", "глафира"),
    ],
)
def test_who_introduces_themself_in_small_letters_is_found(text, name):
    assert (name, "PERSON") in found(text)


@pytest.mark.parametrize(
    "text",
    ["my name is on the list", "my name is not important, just fix it", "mein name ist falsch geschrieben"],
)
def test_an_introduction_without_a_name_is_left(text):
    assert not found(text)


def test_the_pronoun_behind_a_name_is_no_numeral_of_a_king():
    assert found("Emily I think you are right.") == {("Emily", "PERSON")}
    assert ("Elizabeth I", "PERSON") in found("We read about Elizabeth I of England.")


@pytest.mark.parametrize(
    "text",
    [
        "Konu: 4711\nDurum: -\nÖncelik: 2",
        "tel: +57 (1) 234 5678",
        "Tel. 030 1234567 oder BSN 123456782",
        "Name:\nCity:\nSubject:\nDiagnosis:",
        "Ville : -\nObjet : -",
    ],
)
def test_labels_of_fields_are_no_names(text):
    assert not found(text)


def test_a_speaker_with_a_name_is_no_label():
    assert {("Hanna", "PERSON"), ("Rose", "PERSON")} <= found("Hanna: see you there\nRose: fine, Hanna")
