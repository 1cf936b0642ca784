"""What labels announce, and addresses in other scripts: written for this test, beside texts that hold none."""

import pytest

from reticent.data.policies.shapes.fields import Fields

FIELDS = Fields()


def found(text: str) -> set[tuple[str, str]]:
    return {(text[span.start : span.end], span.kind) for span in FIELDS.find([text])[0]}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Username: ada_l77", ("ada_l77", "HANDLE")),
        ("Benutzername: fritz.k", ("fritz.k", "HANDLE")),
        ("用户名:xiaolong88", ("xiaolong88", "HANDLE")),
        ("ZIP: 60614", ("60614", "ADDRESS")),
        ("Code postal : 29200, à côté", ("29200", "ADDRESS")),
        ("CEP: 65020-590", ("65020-590", "ADDRESS")),
        ("Postcode: 6711 MT", ("6711 MT", "ADDRESS")),
        ("郵便番号 〒105-0011", ("105-0011", "ADDRESS")),
        ("CVV: 731, expiry 04/28", ("731", "CODE")),
        ("write to lea dot moor at post dot example please", ("lea dot moor at post dot example", "EMAIL")),
        ("Email me: jens(at)holm.example", ("jens(at)holm.example", "EMAIL")),
    ],
)
def test_what_a_label_announces_is_found(text, expected):
    assert found(text) == {expected}


def test_the_words_that_restore_a_wallet_are_found_and_sentences_about_them_are_not():
    words = "witch collapse practice feed shame open despair creek road again ice least"
    assert found(f"my seed phrase: {words}") == {(words, "KEY")}
    assert not found(
        "The seed phrase: you should never give this list away when some other person asks for them all"
    )


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("我住在朝阳区建国路88号。", "朝阳区建国路88号"),
        ("住所は東京都港区芝公園4-2-8です。", "東京都港区芝公園4-2-8"),
        ("주소: 서울특별시 강남구 테헤란로 152입니다", "서울특별시 강남구 테헤란로 152"),
        ("Я живу по адресу ул. Мира, д. 15, кв. 42.", "ул. Мира, д. 15, кв. 42"),
        ("Офис: Невский проспект, 28.", "Невский проспект, 28"),
        ("Μένω στην οδός Ερμού 15.", "οδός Ερμού 15"),
        ("Adresim Atatürk Caddesi No: 45, İzmir", "Atatürk Caddesi No: 45"),
    ],
)
def test_streets_with_a_house_number_are_found_in_other_scripts(text, address):
    assert (address, "ADDRESS") in found(text)


@pytest.mark.parametrize(
    "text",
    [
        "username = request.user",
        "Username: admin",
        "Enter your user name and the ZIP file of 2020",
        "The cap 2000 people wore, and the post of 1998",
        "Look at this dot and meet me at noon",
        "버스로 30분 걸립니다",
        "这条路很长，3号线在这里。",
        "Он приехал в 15 часов, проспект длинный, 28 домов.",
        "",
    ],
)
def test_labels_without_a_value_and_numbers_without_a_street_are_left(text):
    assert not found(text)


@pytest.mark.parametrize(
    "piece", ["a dot ", "a at ", "zip ", "seed phrase witch ", "городул. Мира ", "路号1", "市区町", "가구 나로1 "]
)
def test_bad_text_does_not_take_for_ever(piece):
    FIELDS.find([piece * 3000])
