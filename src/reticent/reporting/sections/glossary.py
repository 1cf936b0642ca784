"""The words of a report that a reader may not know, each in a sentence or two; the page travels alone."""

import re
from typing import Final

from reticent.reporting.content import Cell, Section, cell, table

TERMS: Final = {
    "interval": "The range that contains the true value with the stated confidence. All intervals of an audit hold "
    "jointly at that confidence: they are corrected for the number of questions asked.",
    "n": "How many texts, secrets or answers were counted. The fewer, the wider the interval.",
    "without leakage": "The value that the same attack reaches, or at most reaches, on a model that never saw the "
    "text. Only a value above it counts as a leak.",
    "proved at most": "The most that the proof allows, whatever the attack. A measurement "
    "above it refutes the guarantee; one below it does not confirm it.",
    "ε (epsilon)": "How much one protected unit can change what the model says. 0 means not at all; at 1 an "
    "attacker’s odds change by a factor of at most 2.7, at 8 by 2,981.",
    "δ (delta)": "The probability with which the promise of ε may fail. It should be far below 1 / number of "
    "records.",
    "bits": "A measure of secrecy: learning 1 bit halves the guesses that an attacker needs; a number of six "
    "digits has 20 bits.",
    "canary": "A made-up secret planted in the training text on purpose, so that its leakage can be measured.",
    "exposure": "How far a planted secret ranks ahead of the other values it could have had, in bits.",
    "AUC": "How often a training text is told apart from a held-out one. Guessing gets 50 %.",
    "member": "A text that the model was trained on.",
    "false-positive rate": "The share of non-members that an attacker wrongly calls members.",
    "perplexity": "How many tokens the model wavers between on new text, on average. Lower is better.",
}


def anchor_of(term: str) -> str:
    """The name by which a link finds the term."""
    ascii_words = re.findall(r"[a-z]+", term.lower())
    return "-".join(["term", *(ascii_words[-1:] if "(" in term else ascii_words)])


def glossary() -> Section:
    """Every term with its explanation."""
    rows = [(Cell(term, anchor=anchor_of(term)), cell(words)) for term, words in TERMS.items()]
    lead = "The terms on this page in plain English."
    return Section("glossary", "Glossary", lead, (table("Glossary", ("term", "what it means"), rows),))
