"""Policies by name: what `--policy` accepts.

patterns            shapes with checksums: e-mails, phones, cards, order numbers, dates, ...
phonenumbers        numbers of real numbering plans (Google's libphonenumber)
circumstances       ages, durations, sums, years, origin, occupation, health
credentials         keys, tokens, passwords, private keys, URLs, handles, wallets
names               people, places and organisations in any language with capitals, by public word lists
capitals            every run of words with a capital or a digit
dictionary:FILE     phrases of a file, one a line, optionally `kind<TAB>phrase`
spacy[:PIPELINE]    named entities of an installed spaCy pipeline; with `auto` of that for each text's language
presidio[:national] Microsoft Presidio's analyser; with `national` also the identifiers of every country it knows
hf:MODEL            a Hugging Face token classifier: a directory or a hub id
gliner:MODEL        a GLiNER model, by the package gliner
hf:MODEL@P          what either of these taggers gives a chance of P or more, 0.5 if not said; a low one, such as
                    0.05, makes a conservative policy
union               patterns, credentials, names, values of labelled fields, and the circumstances that are worth
                    their price: the default; chosen on one half of labelled text of several sorts
regex:FILE          regular expressions of a file, a line `kind<TAB>expression` each, run by RE2 in linear time
conservative        whatever could be personal, by a low threshold: to route records, not to read them
A+B or A,B          what any of them finds

`--pattern KIND=REGEX` adds expressions to the policy, or is the whole policy where none is named. They follow the
name on lines of their own (`settings.shared.with_patterns`): one string says everything wherever a policy is named.
"""

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from reticent.core.choice import meant
from reticent.core.corpus import Policy
from reticent.core.errors import ConfigError, DataError
from reticent.data.policies.combined import Dictionary, UnionPolicy
from reticent.data.policies.normalised import Normalised
from reticent.data.policies.possible import possible
from reticent.data.policies.shapes.circumstances import Circumstances
from reticent.data.policies.shapes.credentials import Credentials
from reticent.data.policies.shapes.expressions import Expressions, read_expressions, read_lines
from reticent.data.policies.shapes.fields import Fields
from reticent.data.policies.shapes.patterns import PatternPolicy
from reticent.data.policies.words.capitals import CapitalRuns
from reticent.data.policies.words.names import Names

NAMES = (
    "patterns",
    "phonenumbers",
    "circumstances",
    "credentials",
    "names",
    "capitals",
    "dictionary:FILE",
    "regex:FILE",
    "spacy",
    "presidio",
    "hf:MODEL",
    "gliner:MODEL",
    "union",
    "conservative",
)
DEFAULT_POLICY = "union"
POLICY_HELP = f"{', '.join(NAMES)}; several joined by +, a tagger's threshold behind @."
_USUAL_CHANCE = 0.5
# A plus joins only where a name follows it: file names may hold one.
JOINT = re.compile(r",|\+(?=\s*(?:" + "|".join(name.split(":")[0] for name in NAMES) + r")\b)")


def policy_named(name: str) -> Policy:
    """The policy that a name such as "patterns" or "dictionary:FILE" describes."""
    named, *patterns = name.split("\n")
    parts = [part.strip() for part in JOINT.split(named) if part.strip()]
    if not parts and not patterns:
        raise ConfigError("--policy is empty", expected=POLICY_HELP)
    policies = [_single(part) for part in parts] + ([_expressions(patterns)] if patterns else [])
    return policies[0] if len(policies) == 1 else UnionPolicy(policies)


def _expressions(patterns: Sequence[str]) -> Expressions:
    """What --pattern asks for."""
    expressions: dict[str, list[str]] = {}
    for pattern in patterns:
        kind, equals, expression = pattern.partition("=")
        if not equals or not kind.strip() or not expression:
            raise ConfigError("--pattern needs a kind and an expression", expected="such as DIGITS=[0-9]+")
        expressions.setdefault(kind.strip(), []).append(expression)
    return Expressions(expressions, name="given patterns")


def _single(name: str) -> Policy:
    """One policy; what takes long to load is imported where it is asked for."""
    kind, _, argument = name.partition(":")
    if kind == "dictionary" and argument:
        return _dictionary(Path(argument))
    if kind == "regex" and argument:
        return read_expressions(Path(argument))
    if kind == "hf" and argument:
        from reticent.models.huggingface.location import find_local
        from reticent.runs.policies.token_classifier import TokenClassifierPolicy

        source, chance = _with_chance(argument)
        find_local(source)  # a path that leads nowhere is said at once
        return TokenClassifierPolicy(source, threshold=chance)
    if kind == "gliner" and argument:
        from reticent.runs.policies.gliner import GlinerPolicy

        source, chance = _with_chance(argument)
        return GlinerPolicy(source, threshold=chance)
    if kind == "spacy":
        from reticent.data.policies.taggers.named_entities import SpacyPolicy, spacy_by_language

        return spacy_by_language() if argument == "auto" else SpacyPolicy(argument or None)
    if name in ("presidio", "presidio:national"):
        from reticent.data.policies.taggers.presidio import PresidioPolicy

        return PresidioPolicy(national=bool(argument))
    if name == "phonenumbers":
        from reticent.data.policies.shapes.phones import PhoneNumbers

        return PhoneNumbers()
    light: dict[str, Callable[[], Policy]] = {
        "patterns": PatternPolicy,
        "circumstances": Circumstances,
        "credentials": Credentials,
        "names": Names,
        "capitals": CapitalRuns,
        "union": union_policy,
        "conservative": possible,
    }
    if name not in light:
        raise ConfigError("unknown policy", found=repr(name), expected=POLICY_HELP, hint=meant(kind, NAMES))
    return light[name]()


def _with_chance(argument: str) -> tuple[str, float]:
    """A tagger's model and the chance from which what it finds counts; an existing path may hold an @ itself."""
    source, at, said = argument.rpartition("@")
    if not at or Path(argument).exists():
        return argument, _USUAL_CHANCE
    try:
        chance = float(said)
    except ValueError:
        return argument, _USUAL_CHANCE
    if not source or not 0.0 < chance <= 1.0:
        raise ConfigError("a tagger's threshold is a chance", found=said, expected="above 0 and at most 1")
    return source, chance


def union_policy() -> Policy:
    """The default: shapes, names in any language, and of circumstances those that measured as worth their price."""
    worth = ("YEAR", "DURATION", "AMOUNT", "ORIGIN", "NUMBERED")
    parts: list[Policy] = [
        PatternPolicy(),
        Credentials(pages=False),
        Fields(),
        Names(),
        Circumstances(kinds=worth, english_alone=True),
    ]
    return Normalised(UnionPolicy(parts, name="union"))


def _dictionary(path: Path) -> Dictionary:
    entries = {}
    for number, line in enumerate(read_lines(path), start=1):
        kind, tab, phrase = line.partition("\t")
        kind, phrase = (kind, phrase) if tab else ("LISTED", line)
        if not line.strip():
            continue
        if not any(character.isalnum() for character in phrase) or not kind.strip():
            raise DataError("an entry needs a kind and a phrase with a letter or digit", path=path, line=number)
        entries[phrase] = kind.strip()
    if not entries:
        raise DataError("no entries", path=path, expected="one phrase a line")
    return Dictionary(entries, name=path.stem)
