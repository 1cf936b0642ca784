"""What a label announces in forms and chats, and addresses in scripts other than the Latin one.

    announced   user names, postcodes, the check numbers of cards, the words that restore a wallet
    spelt       e-mail addresses with "at" and "dot" in letters
    addresses   streets with a house number in Chinese, Japanese, Korean, Cyrillic, Greek and Turkish text

Each expression runs around words that all its matches hold. Not local: the label may be masked by another policy.
"""

import re
from collections.abc import Callable, Iterator, Sequence

from reticent.core.corpus import Span
from reticent.data.policies.shapes.stretches import around, places
from reticent.data.policies.words.vocabulary import commonness, function_words, language_of
from reticent.data.redaction.masking import merge_spans

KINDS = ("HANDLE", "ADDRESS", "CODE", "KEY", "EMAIL")

_SIGN = r"[\"'`]?[ \t]{0,8}(?:[:=：]|(?:is|ist|es|est|è|é)\b)[ \t]{0,8}[\"'`]?"
_USER = re.compile(
    r"(?i)(?<!\w)(?:(?:user|login|screen)[ _-]?name|benutzername|nutzername|nom d['’]utilisateur|nombre de usuario"
    r"|nome de usuário|nome utente|gebruikersnaam|användarnamn|brugernavn|brukernavn|käyttäjätunnus|kullanıcı adı"
    rf"|nazwa użytkownika|имя пользователя|логин|用户名|ユーザー名|사용자 ?이름){_SIGN}"
    r"(?P<value>[\w.-]{2,39}\w)(?![\w(@\[])"
)
# "cap" and "cep" are words of other languages, and need their colon.
_POSTCODE = re.compile(
    r"(?i)(?<!\w)(?:(?:zip(?:[ -]?code)?|post(?:al)?[ -]?code|plz|postleitzahl|code postal|c[óo]digo postal"
    r"|codice postale|postnummer|postinumero|kod pocztowy|psč|irányítószám|posta kodu|индекс|邮编|邮政编码|郵便番号"
    r"|우편번호)[ \t]{0,8}(?:[:：#=]|(?:is|ist)\b)?|(?:cap|cep)[ \t]{0,3}:)[ \t]{0,8}〒?"
    r"(?P<value>\d\d-\d{3}|\d{5}-\d{3,4}|\d{3}[ -]\d{2,4}|\d{4} ?(?-i:[A-Z]{2})|\d{4,7}"
    r"|(?-i:[A-Z]{1,2}\d[A-Z\d]? ?\d[A-Z]{2}))(?!\w)"
)
_CHECK_NUMBER = re.compile(
    r"(?i)(?<!\w)(?:cvv2?|cvc2?)(?:[ -](?:code|number))?\W{1,3}(?:is )?(?P<value>\d{3,4})(?!\w)"
)
_WALLET_WORDS = re.compile(
    r"(?i)(?<!\w)(?:seed|recovery|mnemonic|backup|secret)[ -]phrase(?:[ -]words)?(?: is| are)?\W{1,4}"
    r"(?P<value>(?:[a-z]{3,8}[ ,]{1,2}){11,23}[a-z]{3,8})(?!\w)"
)
_DOT = r"(?: ?[(\[{]dot[)\]}] ?| dot |\.)"
_ENDING = "com|org|net|edu|gov|info|io|me|co|example|de|uk|fr|nl|eu|ch|at|es|it|ca|au|in|br|pl|ru|se|jp"
# Where "at" is a word of its own, the domain must end as domains do: "look at this dot and" is no address.
_SPELT = re.compile(
    rf"(?i)(?<![\w.])(?P<value>\w[\w+-]{{0,40}}(?:{_DOT}[\w+-]{{1,30}}){{0,3}}"
    rf"(?: ?[(\[{{]at[)\]}}] ?[\w-]{{1,40}}(?:{_DOT}[a-z][\w-]{{1,20}}){{1,3}}"
    rf"| at [\w-]{{1,40}}(?: dot [\w-]{{1,20}}){{0,2}} dot (?:{_ENDING})))(?!\w| (?:at|dot) )"
)
_FEW = 2  # of the most common words among those that restore a wallet

# Words in small letters that matches of an expression hold: those looked for in any text, then those for which only
# text beyond ASCII is searched, as a search costs time; how far a match goes before and behind them; and its kind.
_ANNOUNCED: tuple[tuple[re.Pattern[str], tuple[str, ...], tuple[str, ...], tuple[int, int], str], ...] = (
    (
        _USER,
        ("ername", "user name"),
        (
            *("name", "nom d", "usuario", "usuário", "utente", "navn", "tunnus", "adı", "nazwa", "имя", "логин"),
            *("用户名", "ユーザー名", "이름"),
        ),
        (16, 90),
        "HANDLE",
    ),
    (
        _POSTCODE,
        ("zip", "postcode", "plz", "cap:", "cep:"),
        (
            "post",
            "plz",
            "zip",
            "cap",
            "cep",
            "pocztowy",
            "psč",
            "irányító",
            "posta",
            "индекс",
            "邮",
            "郵便",
            "우편",
        ),
        (20, 60),
        "ADDRESS",
    ),
    (_CHECK_NUMBER, ("cvv",), ("cvv", "cvc"), (1, 24), "CODE"),
    (_WALLET_WORDS, (" phrase",), (" phrase",), (12, 260), "KEY"),
    (_SPELT, ("(at)", " dot "), ("(at)", "[at]", " dot "), (150, 150), "EMAIL"),
)

_HAN = "[\u4e00-\u9fff]"
_OTHER_HAN = "(?:[\u4e00-\u9fff](?<![在住到是于於址我你他她的了和去从往]))"
_UNITS = (
    f"(?:{_OTHER_HAN}{{2,4}}?(?:省|自治区))?(?:{_OTHER_HAN}{{2,5}}?市)?(?:{_OTHER_HAN}{{1,5}}?[区區县縣镇鎮鄉乡])?"
)
_CAPITAL = "[А-ЯЁІЇЄҐ][\\w’'-]{1,30}"
_CYRILLIC_WORD = (
    "(?:ул|вул|пр|просп|пр-т|пер|бул|наб|пл)\\.|улиц[аеуы]|вулиц[яіюі]|проспекте?|переул(?:ок|ке)|бульваре?"
    "|набережн(?:ая|ой)|шоссе|площад[ьи]|проезде?"
)
_HOUSE = r"(?:(?:д|дом|буд)\.? ?)?\d{1,4}[а-яА-Я]?(?:/\d{1,4})?(?:,? (?:корп|к|стр|кв|оф)\. ?\d{1,4}){0,3}"
_TURKISH = "[A-ZÇĞİÖŞÜ][\\w’'-]{1,30}"
_ADDRESSES: tuple[tuple[re.Pattern[str], tuple[str, ...]], ...] = (
    (
        re.compile(
            rf"{_UNITS}{_OTHER_HAN}{{1,6}}?(?:路|街|大道|巷|胡同)(?:[东西南北]?[一二三四五六七八九]?段)?"
            rf"(?:\d{{1,4}}[弄巷])?\d{{1,5}}[号號](?:院|楼)?(?:\d{{1,3}}(?:号楼|栋|幢|单元|楼|樓|室)){{0,3}}(?:\d{{2,4}}室)?"
        ),
        ("号", "號"),
    ),
    (
        re.compile(
            rf"(?:{_HAN}{{2,3}}[都道府県])?(?:{_HAN}{{1,4}}[市区郡町村]){{1,2}}[\u4e00-\u9fffヶノ]{{1,8}}"
            r"(?:\d{1,3}丁目\d{1,3}(?:番地?|-)\d{0,3}号?|\d{1,3}-\d{1,3}(?:-\d{1,4})?)(?![\d-])"
        ),
        ("市", "区", "郡", "町", "村"),
    ),
    (
        re.compile(
            r"(?<![가-힣])(?:[가-힣]{1,8}(?:시|도) )?(?:[가-힣]{1,6}[시구군] ){1,2}(?:[가-힣]{1,6}[읍면동] )?"
            r"[가-힣\d]{1,10}(?:로|길)(?:\d{1,3}번?길)? ?\d{1,4}(?:-\d{1,4})?(?!\d)"
        ),
        ("로", "길"),
    ),
    (
        re.compile(
            rf"(?<!\w)(?:(?:{_CYRILLIC_WORD}) ?{_CAPITAL}(?: {_CAPITAL})?|{_CAPITAL} (?:{_CYRILLIC_WORD}))"
            rf",? ?{_HOUSE}(?!\d)"
        ),
        ("ул", "пр", "пер", "бул", "наб", "пл", "шоссе"),
    ),
    (
        re.compile(
            r"(?<!\w)(?:[Οο]δός|[Λλ]εωφόρος|Λεωφ\.|[Ππ]λατεία)(?: [Α-ΩΆ-Ώ][\w’'-]{1,30}){1,2},? \d{1,4}(?!\d)"
        ),
        ("δός", "εωφ", "λατεία"),
    ),
    (
        re.compile(
            rf"(?<!\w){_TURKISH} (?:Caddesi|Cad\.|Sokak|Sokağı|Sok\.|Bulvarı|Mahallesi|Mah\.),? ?"
            r"(?:[Nn]o ?[:.]? ?)?\d{1,4}(?:/\d{1,4})?(?!\d)"
        ),
        ("Cad", "Sok", "Bulvar", "Mah"),
    ),
)
_DIGIT = re.compile(r"\d")


class Fields:
    """Finds what a label announces: user names, postcodes and the like, and addresses in other scripts."""

    is_local = False
    reads_context = True
    name = "fields"
    kinds = KINDS
    fingerprint = "fields"

    def __repr__(self) -> str:
        return "Fields()"

    def find(self, texts: Sequence[str]) -> list[tuple[Span, ...]]:
        """Sorted, non-overlapping spans of each text."""
        return [merge_spans(_found(text)) for text in texts]


def _found(text: str) -> Iterator[Span]:
    lower = text.lower()
    if len(lower) != len(text):
        lower = text
    is_ascii = text.isascii()
    for expression, plain, others, (before, behind), kind in _ANNOUNCED:
        held = places(lower, plain if is_ascii else (*plain, *others))
        for start, end in around(held, len(text), before=before, after=behind):
            for match in expression.finditer(text, start, end):
                keep = _KEPT.get(expression)
                if keep is None or keep(match):
                    yield Span(*match.span("value"), kind)
    if is_ascii or not _DIGIT.search(text):
        return
    for expression, words in _ADDRESSES:
        for start, end in around(places(text, words), len(text), before=40, after=60):
            yield from (Span(*match.span(), "ADDRESS") for match in expression.finditer(text, start, end))


def _is_user(match: re.Match[str]) -> bool:
    """Whether a value is no common word, nor an expression of a program: "username = request.user"."""
    value = match["value"]
    if "=" in match.group()[: -len(value)]:
        return any(symbol.isdigit() for symbol in value)
    parts = re.split(r"[._-]", value)
    return len(parts) > 1 or not value.isalpha() or commonness(value.lower(), language_of(value))[0] < 3.0


def _are_drawn(match: re.Match[str]) -> bool:
    """Whether words are no sentence: few of them are among the most common."""
    common = function_words("en")
    return sum(word.lower() in common for word in re.split("[ ,]+", match["value"])) <= _FEW


_KEPT: dict[re.Pattern[str], Callable[[re.Match[str]], bool]] = {_USER: _is_user, _WALLET_WORDS: _are_drawn}
