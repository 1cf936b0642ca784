"""Checks that tell a real number from one that only looks like it. Each returns how many characters to keep.

Card numbers: Luhn (ISO/IEC 7812-1, annex B). IBAN: length by country and remainder 1 modulo 97 (ISO 13616, ISO
7064 MOD 97-10). SSN: areas, groups and serials that are never issued. IP: the standard library's parser.
"""

import ipaddress
import re

_DIGITS = re.compile(r"\d")
_GROUP = re.compile(r"\d+")
_PORT = re.compile(r"[/:]\d{1,5}$")  # of a network or a service

# Length of an IBAN by country (SWIFT's registry).
IBAN_LENGTHS = {
    country: length
    for length, countries in {
        15: "NO",
        16: "BE",
        18: "DK FI FO GL NL SD FK",
        19: "MK SI",
        20: "AT BA EE KZ LT LU MN XK",
        21: "CH HR LI LV",
        22: "BG BH CR DE GB GE IE ME RS VA",
        23: "AE GI IL IQ OM SO TL",
        24: "AD CZ ES MD PK RO SA SE SK TN VG",
        25: "LY PT ST",
        26: "IS TR",
        27: "BI DJ FR GR IT MC MR SM",
        28: "AL AZ BY CY DO GT HU LB NI PL SV",
        29: "BR EG PS QA UA",
        30: "JO KW MU YE",
        31: "MT SC",
        32: "LC",
        33: "RU",
    }.items()
    for country in countries.split()
}


def luhn(digits: str) -> bool:
    """Whether the last digit is the Luhn check digit of those before it."""
    total = 0
    for place, digit in enumerate(reversed(digits)):
        value = int(digit) * (2 if place % 2 else 1)
        total += value - 9 if value > 9 else value
    return total % 10 == 0


def iban(text: str) -> bool:
    """Whether `text`, without white space and in any case, is an IBAN of its country's length."""
    compact = "".join(text.split()).upper()
    if IBAN_LENGTHS.get(compact[:2]) != len(compact) or not compact.isascii() or not compact.isalnum():
        return False
    rearranged = compact[4:] + compact[:4]
    return int("".join(str(int(symbol, 36)) for symbol in rearranged)) % 97 == 1


def keep_card(text: str) -> int:
    """All of a number with a card's first digits and a right check digit."""
    digits = "".join(_DIGITS.findall(text))
    issuer = digits[0] in "3456" or digits.startswith(("22", "23", "24", "25", "26", "27", "2131", "1800"))
    return len(text) if issuer and luhn(digits) else 0


def keep_iban(text: str) -> int:
    """The IBAN that `text` starts with: what follows it in groups of four may be other words."""
    length = IBAN_LENGTHS.get(text[:2].upper(), 0)
    seen = 0
    for place, symbol in enumerate(text):
        seen += not symbol.isspace()
        if seen == length:
            whole = place + 1 == len(text) or text[place + 1].isspace()
            return place + 1 if whole and iban(text[: place + 1]) else 0
    return 0


def keep_ip(text: str) -> int:
    """All of an IPv4 address, with a port or the width of a network; all of an IPv6 address with a digit and three
    groups (`a::b` is a name in C++)."""
    try:
        address = ipaddress.ip_address(_PORT.sub("", text) if text.count(".") == 3 else text)
    except ValueError:
        return 0
    if address.version == 6 and (not _DIGITS.search(text) or len([g for g in text.split(":") if g]) < 3):
        return 0
    return len(text)


def keep_ssn(text: str) -> int:
    """All of a US social security number that could have been issued."""
    area, group, serial = _GROUP.findall(text)
    return 0 if area in ("000", "666") or group == "00" or serial == "0000" else len(text)


def keep_french_number(text: str) -> int:
    """All of a French social security number: a month of birth, and the control key of what stands before it."""
    number = "".join(text.split())
    month = int(number[3:5])
    born = 1 <= month <= 12 or 20 <= month <= 42 or month >= 50
    counted = int(number[:13].replace("A", "0").replace("B", "0")) - 1000000 * (
        ("A" in number) + 2 * ("B" in number)
    )
    grouped = len(text.split()) == 7  # as it is written in no other number
    return len(text) if born and (grouped or 97 - counted % 97 == int(number[13:])) else 0


def keep_mixed_code(text: str) -> int:
    """All of a code that has both letters and digits."""
    return len(text) if not text.isdigit() and not text.isalpha() else 0


def keep_long_code(text: str) -> int:
    """All of a code of at least four characters."""
    return len(text) if len(text) >= 4 else 0


def keep_application(text: str) -> int:
    """All of a number and a year, but for a winter: 1969/70."""
    number, year = text.split("/")
    winter = len(number) == 4 and number[:2] in ("18", "19", "20") and int(year) % 100 == (int(number) + 1) % 100
    return 0 if winter else len(text)


def keep_paper(text: str) -> int:
    """All of a number of a paper: six characters, or five of letters and digits. Years have fewer."""
    compact = [symbol for symbol in text if symbol.isalnum()]
    mixed = any(map(str.isalpha, compact))
    return len(text) if len(compact) >= (5 if mixed else 6) else 0


def keep_slashed_phone(text: str) -> int:
    """All of a number of at least 8 digits, however many: what follows must not decide whether it is found."""
    return len(text) if len(_DIGITS.findall(text)) >= 8 else 0


def keep_area_phone(text: str) -> int:
    """All of a number of 8 to 13 digits."""
    return len(text) if 8 <= len(_DIGITS.findall(text)) <= 13 else 0


def keep_phone(text: str) -> int:
    """All of a number without spaces: 7 to 15 digits in groups; without groups at least 10, or a leading plus."""
    number = re.split(r"[xXeE]", text)[0]
    groups = _GROUP.findall(number)
    digits = sum(map(len, groups))
    if not 7 <= digits <= 15 or digits < 2 * len(groups):
        return 0
    if len(groups) == 1:
        return len(text) if digits >= 10 or number.startswith("+") else 0
    decimal = len(groups) == 2 and "." in number
    years = len(groups) == 2 and all(len(g) == 4 and (g[0] == "1" or g.startswith("20")) for g in groups)
    return 0 if decimal or years or is_isbn(groups) else len(text)


def is_isbn(groups: list[str]) -> bool:
    """Whether groups of digits are those of a book's number, with the right check digit (ISO 2108)."""
    digits = "".join(groups)
    if len(digits) == 13:
        weighted = sum(int(digit) * (3 if place % 2 else 1) for place, digit in enumerate(digits))
        return len(groups) in (1, 5) and digits[:3] in ("978", "979") and weighted % 10 == 0
    weighted = sum((10 - place) * int(digit) for place, digit in enumerate(digits))
    return len(digits) == 10 and len(groups) == 4 and len(groups[-1]) == 1 and weighted % 11 == 0


def keep_international(text: str) -> int:
    """All of a number with a country code and 7 to 15 digits (ITU-T E.164); of more, what so many begin with.

    What stands behind it may be found by itself: were all refused for that, masking it would bring all back.
    """
    kept = digits = 0
    for piece in re.finditer(r"[^ \u00a0]*\d(?![^ \u00a0]*\d)", re.split(r"[xXeE]", text)[0]):  # to its last digit
        digits += len(_DIGITS.findall(piece.group()))
        if digits > 15:
            return kept
        if digits >= 7 and text[piece.end() : piece.end() + 1] != ")":
            kept = piece.end()
    return len(text) if kept else 0


def keep_spaced_phone(text: str) -> int:
    """All of a number in groups with spaces: 7 to 15 digits, no row of years, no amount in thousands."""
    groups = _GROUP.findall(text)
    digits = sum(map(len, groups))
    years = all(len(group) == 4 and group[:2] in ("18", "19", "20") for group in groups)
    fits = 7 <= digits <= 15 and len(groups) <= 6 and digits >= 2 * len(groups) - 1
    return len(text) if fits and not years and groups[-1] != "000" else 0
