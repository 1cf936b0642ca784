"""Secrets of machines that people paste into text: keys, tokens, passwords, private keys, addresses of wallets.

    formats      what an issuer marks: AKIA…, ghp_…, sk-…, JSON web tokens, PEM blocks, URLs with a password
    announced    what stands after a word for it: "password: …", "api_key = …", "Passwort ist …", "<password>…<"
    signs on     user and password after "curl -u"
    entropy      a long word of mixed letters and digits whose characters are as varied as chance makes them
    addresses    of sites, of accounts ("…/user/name", "?email=…") and, with `pages`, of any page
    handles      @name, and wallets of Bitcoin (by its checksum where it has one), Ethereum and Monero

What stands after "password is" counts only if it is no common word: "the password is wrong" holds no password.
Expressions are compiled by `re` and bounded in every repetition, so time grows with the length of the text.
Not local: the word that announces a password may be masked by another policy.
"""

import hashlib
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise

from reticent.core.corpus import Span
from reticent.data.policies.shapes.stretches import around, long_words, places, unspaced, words_apart
from reticent.data.policies.words.vocabulary import commonness, language_of
from reticent.data.redaction.masking import MASK, mask_for, merge_spans

KINDS = ("PRIVATE_KEY", "KEY", "PASSWORD", "URL", "HANDLE", "WALLET", "MAC")

_ISSUED = (
    r"(?:AKIA|ASIA|AGPA|AIDA|AROA)[0-9A-Z]{16}",  # Amazon
    r"gh[pousr]_[A-Za-z0-9]{30,255}|github_pat_\w{22,255}|glpat-[\w-]{20,64}",  # GitHub, GitLab
    r"xox[abeoprs]-[\w-]{10,250}|xapp-[\w-]{10,250}",  # Slack
    r"sk-(?:proj-|ant-|or-)?[\w-]{20,200}",  # OpenAI, Anthropic, OpenRouter
    r"(?:sk|pk|rk|whsec)_(?:live|test)?_?[A-Za-z0-9]{16,250}",  # Stripe
    r"AIza[\w-]{35}|ya29\.[\w-]{20,500}|GOCSPX-[\w-]{20,64}",  # Google
    r"SG\.[\w-]{16,64}\.[\w-]{16,64}|key-[0-9a-f]{32}|(?:AC|SK)[0-9a-f]{32}",  # SendGrid, Mailgun, Twilio
    r"npm_[A-Za-z0-9]{30,64}|pypi-[\w-]{50,500}|hf_[A-Za-z0-9]{20,64}|dop_v1_[0-9a-f]{64}|shp(?:at|ss|ca)_[0-9a-fA-F]{32}",
    r"eyJ[\w-]{8,2000}\.eyJ[\w-]{8,4000}\.[\w-]{8,2000}",  # JSON web token
    r"\d{8,10}:[A-Za-z0-9_-]{35}",  # Telegram
    r"[MNO][A-Za-z\d]{23,25}\.[\w-]{6}\.[\w-]{27,38}",  # Discord
    r"AGE-SECRET-KEY-1[0-9A-Z]{58}",
    r"https://hooks\.slack\.com/services/[\w/]{20,100}",
)
_SSH = re.compile(r"ssh-(?<![\w-]ssh-)(?:rsa|ed25519)[ ]AAAA[A-Za-z0-9+/=]{20,1000}(?!\w)")
_PRIVATE = r"[ A-Z0-9]{0,30}PRIVATE KEY(?: BLOCK)?-----"
_PEM = rf"-----BEGIN{_PRIVATE}[^-<]{{1,20000}}-----END{_PRIVATE}"
_BETWEEN = r"[\"'`]?[ \t]{0,3}"
_WORDS_FOR_PASSWORDS = (
    r"pass[ _-]?(?:word|wort|phrase|code)|passwd|pwd|kennwort|contraseña|mot de passe|senha|wachtwoord|hasło|пароль"
    r"|lösenord|adgangskode|salasana|şifre|parola|heslo|jelszó"
)
_WORDS_FOR_SECRETS = (
    r"(?:pass|pw)(?=[\"'`]?[ \t]{0,3}[:=])"
    r"|(?:api|access|secret|private|auth|client|account|shared|signing|encryption)[ _-]?"
    r"(?:access[ _-]?)?(?:key|secret|token)"
    r"|secret|token|credential|AccountKey|SharedAccessKey"
)
_WORDS_TOGETHER = "密码|密碼|口令|パスワード|暗証番号|비밀번호|암호"
_WHICH = r"(?:[ \t][^\W\d_]{1,12}){0,3}"  # "password of the router: …"
_ANNOUNCED = re.compile(
    rf"(?:(?i:(?<![^\W_])(?:(?:{_WORDS_FOR_PASSWORDS})s?{_WHICH}|(?:{_WORDS_FOR_SECRETS})s?))|{_WORDS_TOGETHER}){_BETWEEN}"
    r"(?P<sign>:=|=>|=|:|：|>(?=[^<]{4,200}</)|[ \t](?=[\"'`])|是|为|為|は|は、|은|는"
    r"|(?i:\b(?:is|was|ist|lautet|war|est|es|é|è|to|er|är|jest|это)\b[ \t]{0,2}:?))"
    r"[ \t]{0,3}[\"'`]?"
    r"(?P<value>[^\s\"'`<>,;，。；、！\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]{4,200})"
)
_SIGNED_ON = re.compile(
    r"(?<=[ \t]-u[ =])[^\s:\"'<>]{1,60}:[^\s\"'<>]{4,100}|(?<=--user[ =])[^\s:\"'<>]{1,60}:[^\s\"'<>]{4,100}"
)
# What stands where a secret would: a mask, a variable, a call or another expression of a program.
_PLACEHOLDER = re.compile(
    r"(?P<one>\W)(?P=one)*|(?i:none|null|true|false|undefined)|[%$]?[\[({]{1,2}[A-Za-z_][\w. -]*[\])}]{0,2}s?"
    r"|[A-Za-z_][\w.]*[\[(].*|[A-Za-z_]+(?:\.[A-Za-z_]+)+"
)
_BEARER = re.compile(r"(?i:\b(?:bearer|basic))[ \t]{1,3}(?P<value>[\w+/=.~-]{12,2000})")
_LOGIN = re.compile(
    r"(?i)(?<!\w)[a-z][a-z0-9+.-]{1,20}://[^\s/:@<>\"']{0,100}:[^\s/@<>\"']{1,200}@[^\s<>\"']{1,300}"
)
_ADDRESS = re.compile(r"(?i)(?<![\w@])(?:https?://|ftp://|www\.)[^\s<>\"']{3,500}")
_ENDING = r"(?:com|org|net|edu|gov|info|io|de|uk|fr|nl|eu|ch|at|es|it)(?![\w@-]|\.\w)"
_DOMAIN = re.compile(
    rf"(?<![\w@./-])(?:[A-Za-z0-9][A-Za-z0-9-]{{0,62}}\.){{1,4}}{_ENDING}(?:/[^\s<>\"']{{0,300}})?"
)
_DOTTED = re.compile(rf"\.{_ENDING}")
# A dot within is that of a handle, unless a line begins so or a bracket follows, as in code.
_HANDLE = re.compile(
    r"@(?<![\w@./+%-]@)(?:[A-Za-z_]\w{1,29}(?![\w@]|\.\w)|(?<=[^\n]@)[A-Za-z_]\w{1,29}(?:\.\w{1,29}){1,3}(?![\w@(.]))"
)
# Of an address: a part of the path behind which a name stands, a network whose pages are those of accounts, and
# what a query calls a value that is somebody's.
_ACCOUNT = re.compile(
    r"(?i)/(?:in|u|users?|profiles?|people|members?|author|channel)/[^/\s]|/[@~][^/\s]"
    r"|(?:facebook|fb|instagram|twitter|x|linkedin|github|gitlab|tiktok|vk|xing|pinterest|snapchat|twitch|strava)\.com/\w"
    r"|\b(?:t|wa|paypal|telegram)\.me/\w|venmo\.com/\w|vk\.ru/\w"
    r"|[?&][\w-]*(?:mail|user|uid|token|sess|key|auth|pwd|pass|code|phone|name|sig)[\w-]*="
)
_MAC = re.compile(
    r"(?<![\w:-])[0-9A-Fa-f]{2}(?:(?P<gap>[:-]))[0-9A-Fa-f]{2}(?:(?P=gap)[0-9A-Fa-f]{2}){4}(?![\w:-])"
)
_WALLET = re.compile(
    r"(?<!\w)(?:0x[0-9a-fA-F]{40}|bc1[02-9ac-hj-np-z]{11,71}|[13][1-9A-HJ-NP-Za-km-z]{25,34}|4[0-9AB][1-9A-HJ-NP-Za-km-z]{93})(?!\w)"
)
_MIXED = re.compile(r"(?<![\w+/=])[A-Za-z0-9][A-Za-z0-9+/_=-]{15,300}(?![\w+/])")
_UUID = re.compile(r"(?<!\w)[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}(?!\w)")
_ANNOUNCING: tuple[str, ...] = (
    *("pass", "pw", "kennwort", "senha", "wachtwoord", "adgangskode", "salasana", "parola", "heslo"),
    *("key", "secret", "token", "credential"),
)
_ANNOUNCING_ELSEWHERE = (
    "contraseña",
    "hasło",
    "пароль",
    "lösenord",
    "şifre",
    "jelszó",
    *_WORDS_TOGETHER.split("|"),
)
_SHORTEST = 15  # characters of a key, MAC, wallet or random word
_HEX = re.compile(r"[0-9a-fA-F]{16,300}")
_ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_TRAILING = ".,;:!?)]}'\"”»"
_BITS = 3.0  # of entropy a character: words of a language stay below, random ones of twenty characters above


class Credentials:
    """Finds secrets of machines and accounts: see the module's list.

    Without `pages`, links to pages that name no account and hold no secret are left.
    """

    is_local = False

    def __init__(self, *, kinds: Sequence[str] = KINDS, pages: bool = True) -> None:
        unknown = sorted(set(kinds) - set(KINDS))
        if unknown or not kinds:
            raise ValueError(f"unknown kinds {unknown}: choose from {', '.join(KINDS)}")
        self.kinds = tuple(kind for kind in KINDS if kind in kinds)
        self.name = "credentials" if self.kinds == KINDS else "credentials " + ", ".join(self.kinds)
        self._pages = pages
        self.reads_context = True

    def __repr__(self) -> str:
        return f"Credentials({self.name})"

    @property
    def fingerprint(self) -> str:
        """Names what decides the findings, together with the version of the code."""
        return self.name if self._pages else f"{self.name} without pages"

    def find(self, texts: Sequence[str]) -> list[tuple[Span, ...]]:
        """Sorted, non-overlapping spans of each text."""
        return [
            merge_spans(
                span
                for span in _found(text)
                if span.kind in self.kinds and (self._pages or span.kind != "URL" or _says_who(text, span))
            )
            for text in texts
        ]


def _says_who(text: str, span: Span) -> bool:
    """Whether an address is that of a whole site, which may be somebody's own, of an account, or holds a secret."""
    address = text[span.start : span.end]
    _, _, path = address.partition("://")[2].partition("/") if "://" in address else address.partition("/")
    if not path.strip("/"):
        return True
    parts = re.split(r"[/?&=#]", path)
    return bool(_ACCOUNT.search(address)) or any(len(part) >= _SHORTEST and is_random(part) for part in parts)


def _found(text: str) -> Iterator[Span]:
    if "<" in text:  # masks are no secrets
        text = _masks().sub(lambda mask: "<" * len(mask.group()), text)
    if "-----BEGIN" in text:
        yield from (Span(*match.span(), "PRIVATE_KEY") for match in _pem().finditer(text))
    lower = text.lower()
    if len(lower) != len(text):
        lower = text
    for start, end in unspaced(text, places(lower, ("://", "www."))):
        yield from (_trimmed(text, match, "PASSWORD") for match in _LOGIN.finditer(text, start, end))
        yield from (_trimmed(text, match, "URL") for match in _ADDRESS.finditer(text, start, end))
    for start, end in unspaced(text, (match.start() for match in _DOTTED.finditer(text))):
        yield from (_trimmed(text, match, "URL") for match in _DOMAIN.finditer(text, start, end))
    announcing = _ANNOUNCING if text.isascii() else _ANNOUNCING + _ANNOUNCING_ELSEWHERE
    for start, end in around(places(lower, announcing), len(text), before=30, after=300):
        yield from _announced(text, start, end)
    if "-u" in text:
        yield from (Span(*match.span(), "PASSWORD") for match in _SIGNED_ON.finditer(text))
    text = words_apart(text)
    for start, end in around(places(lower, ("bearer", "basic")), len(text), before=1, after=2100):
        yield from _borne(text, start, end)
    if "@" in text:
        yield from (Span(*match.span(), "HANDLE") for match in _HANDLE.finditer(text))
    for start, end in long_words(text, _SHORTEST):
        yield from (Span(*match.span(), "MAC") for match in _MAC.finditer(text, start, end))
        wallets = (match for match in _WALLET.finditer(text, start, end) if is_wallet(match.group()))
        yield from (Span(*match.span(), "WALLET") for match in wallets)
        for expression in (_issued(), _UUID):
            yield from (Span(*match.span(), "KEY") for match in expression.finditer(text, start, end))
        mixed = (match for match in _MIXED.finditer(text, start, end) if is_random(match.group()))
        yield from (Span(*match.span(), "KEY") for match in mixed)
    if "ssh-" in text:
        yield from (Span(*match.span(), "KEY") for match in _SSH.finditer(text))


def _announced(text: str, begin: int, stop: int) -> Iterator[Span]:
    for match in _ANNOUNCED.finditer(text, begin, stop):
        start, end = match.span("value")
        while end - 1 > start and text[end - 1] in ".:)]}":
            end -= 1
        if end - start < 4 or _PLACEHOLDER.fullmatch(text, start, end):
            continue
        if match["sign"] in ("=", ":=", "=>") or not _is_ordinary(text[start:end]):
            yield Span(start, end, "PASSWORD")


def _borne(text: str, begin: int, stop: int) -> Iterator[Span]:
    for match in _BEARER.finditer(text, begin, stop):
        if any(symbol.isdigit() for symbol in match["value"]):
            yield Span(*match.span("value"), "KEY")


def _is_ordinary(word: str) -> bool:
    """Whether a word that follows "password is" or "token:" is one of the language."""
    return word.isalpha() and commonness(word.lower(), language_of(word))[0] >= 3.0


def is_random(word: str) -> bool:
    """Whether a long word looks drawn at random: letters and digits mixed, its characters varied."""
    if not (any(symbol.isdigit() for symbol in word) and any(symbol.isalpha() for symbol in word)):
        return False
    if _HEX.fullmatch(word):
        return entropy(word.lower()) >= 2.5
    changes = sum(a.isdigit() != b.isdigit() for a, b in pairwise(word) if (a + b).isalnum())
    parts = re.split(r"[-_/+=]+", word)
    worded = sum(
        len(part) for part in parts if part.isalpha() and (part.islower() or part.istitle() or part.isupper())
    )
    return entropy(word) >= _BITS and changes >= 3 and worded < 0.6 * len(word)


def entropy(word: str) -> float:
    """Bits a character of the empirical distribution of its characters (Shannon 1948)."""
    counts = Counter(word).values()
    return -sum(count / len(word) * math.log2(count / len(word)) for count in counts)


def is_wallet(address: str) -> bool:
    """Whether an address has the right checksum; of formats whose checksum is not told here, whether it mixes."""
    if address[0] not in "13":
        return any(symbol.isdigit() for symbol in address[4:])
    number = 0
    for symbol in address:
        number = number * 58 + _ALPHABET.index(symbol)
    if number >= 256**25:
        return False
    raw = number.to_bytes(25, "big")
    return hashlib.sha256(hashlib.sha256(raw[:-4]).digest()).digest()[:4] == raw[-4:]


def _trimmed(text: str, match: re.Match[str], kind: str) -> Span:
    """A URL without the punctuation of the sentence around it."""
    start, end = match.span()
    while end - 1 > start and text[end - 1] in _TRAILING:
        end -= 1
    return Span(start, end, kind)


@cache
def _issued() -> re.Pattern[str]:
    return re.compile(rf"(?<![\w-])(?:{'|'.join(_ISSUED)})(?![\w])")


@cache
def _pem() -> re.Pattern[str]:
    return re.compile(_PEM)


@cache
def _masks() -> re.Pattern[str]:
    return re.compile("|".join(map(re.escape, (MASK, *(mask_for(kind) for kind in KINDS)))))
