"""The words of a report that a reader may not know, each in a sentence or two; the page travels alone."""

import re
from typing import Final

from reticent.reporting.content import Cell, Section, cell, table

TERMS: Final = {
    "interval": "The range that holds the true value with the stated confidence. All intervals of an audit hold "
    "together with that confidence: they were corrected for the number of questions asked.",
    "n": "How many texts, secrets or answers were counted. Few of them make a wide interval.",
    "without leakage": "The value that the same attack reaches, or at most reaches, on a model that never saw the "
    "text. Only what lies above it counts as a leak.",
    "proved at most": "What the mathematics of the training allows at most, whatever the attack. A measurement "
    "above it refutes the guarantee; one below it does not confirm it.",
    "ε (epsilon)": "How much one protected unit may change what the model says. 0 is nothing; at 1 an attacker’s "
    "odds change by a factor of at most 2.7, at 8 by 2,981.",
    "δ (delta)": "The chance with which the promise of ε may fail. It should be far below one in the number of "
    "records.",
    "bits": "A measure of a secret: 1 bit halves the guesses that an attacker needs, 20 bits are a number of six "
    "digits.",
    "canary": "A made-up secret planted in the training text on purpose, so that its leak can be counted.",
    "exposure": "How far a planted secret stands before all it could have been, in bits.",
    "AUC": "How often a text of the training is told from another one. Guessing does it 50 % of the time.",
    "member": "A text that the model was trained on.",
    "false-positive rate": "The share of other texts that an attacker wrongly calls members.",
    "perplexity": "How many words the model hesitates between on new text, on average. Lower is more useful.",
}


def anchor_of(term: str) -> str:
    """The name by which a link finds the term."""
    ascii_words = re.findall(r"[a-z]+", term.lower())
    return "-".join(["term", *(ascii_words[-1:] if "(" in term else ascii_words)])


def glossary() -> Section:
    """Every term with its explanation."""
    rows = [(Cell(term, anchor=anchor_of(term)), cell(words)) for term, words in TERMS.items()]
    lead = "The words of this page in plain English."
    return Section("glossary", "Glossary", lead, (table("Glossary", ("word", "what it means"), rows),))
