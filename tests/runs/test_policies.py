"""Policies by name, and a token classifier behind the protocol."""

from pathlib import Path

import pytest

from reticent.core.corpus import Record
from reticent.core.errors import ConfigError, ModelError
from reticent.data.policies.possible import possible
from reticent.runs.corpus.scan import ScanSettings
from reticent.runs.policies import policy_named, union_policy
from reticent.runs.settings.shared import with_patterns
from reticent.training.methods.redaction import redact_and_route


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("patterns", "patterns"),
        ("patterns+circumstances", "patterns + circumstances"),
        ("patterns, capitals", "patterns + capitals"),
        ("union", "union"),
        ("conservative + phonenumbers", "conservative + phonenumbers"),
    ],
)
def test_names_and_unions_of_them(name, shown):
    assert policy_named(name).name == shown


def test_plus_in_a_file_name_does_not_cut_it(tmp_path):
    path = tmp_path / "a+b.txt"
    path.write_text("PERSON\tAda\n")
    policy = policy_named(f"patterns+dictionary:{path}")
    assert [span.kind for span in policy.find(["Ada 415-555-2671"])[0]] == ["PERSON", "PHONE"]


@pytest.mark.parametrize("name", ["", "nonsense", "patterns+", "classifier:/nowhere", "union:x", "dictionary:"])
def test_unknown_names_are_advice(name):
    if name == "patterns+":
        name = "patterns+nonsense"
    with pytest.raises(ConfigError) as caught:
        policy_named(name)
    assert caught.value.expected


def test_the_unions_do_not_claim_to_be_local_and_the_conservative_one_finds_more():
    assert not union_policy().is_local
    assert not possible().is_local
    text = "pin 4821 and room 90210"
    assert len(possible().find([text])[0]) > len(union_policy().find([text])[0])


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    """A tiny BERT whose output says PERSON for the pieces of two names, by hand-set weights."""
    import torch
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
    from transformers import BertConfig, BertForTokenClassification, PreTrainedTokenizerFast

    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "mr", "kl", "##ein", "lives", "ada", "in", "rome", "."]
    core = Tokenizer(models.WordPiece({word: n for n, word in enumerate(vocabulary)}, unk_token="[UNK]"))
    core.normalizer = normalizers.Lowercase()
    core.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core, unk_token="[UNK]", pad_token="[PAD]", model_max_length=24
    )
    labels = {0: "O", 1: "B-PERSON", 2: "I-PERSON", 3: "B-LOC"}
    config = BertConfig(
        vocab_size=12, hidden_size=12, num_hidden_layers=1, num_attention_heads=1, intermediate_size=12,
        max_position_embeddings=24, id2label=labels, label2id={v: k for k, v in labels.items()},
    )  # fmt: skip
    model = BertForTokenClassification(config)
    with torch.no_grad():
        for values in model.parameters():
            values.zero_()
        for name, values in model.named_parameters():
            if "LayerNorm.weight" in name:
                values.fill_(1.0)
        model.bert.embeddings.word_embeddings.weight.copy_(torch.eye(12))
        weights = torch.zeros(4, 12)
        weights[0] = 4.0
        for label, words in ((1, ["kl", "ada"]), (3, ["rome"])):  # "##ein" is left out, as sub-word taggers do
            for word in words:
                weights[0, vocabulary.index(word)] = 0.0
                weights[label, vocabulary.index(word)] = 8.0
        model.classifier.weight.copy_(weights)
    folder = tmp_path_factory.mktemp("classifier")
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def test_classifier_finds_whole_words_of_their_kinds(classifier):
    policy = policy_named(f"classifier:{classifier}")
    text = "Mr Klein lives in Rome."
    assert [(s.kind, text[s.start : s.end]) for s in policy.find([text])[0]] == [
        ("PERSON", "Klein"),
        ("LOC", "Rome"),
    ]
    assert policy.kinds == ("LOC", "PERSON")
    assert not policy.is_local
    assert policy.find([]) == []


def test_classifier_reads_long_texts_in_windows(classifier):
    policy = policy_named(f"classifier:{classifier}")
    text = "lives in . " * 40 + "Ada lives. " + "in . " * 40 + "Klein"
    assert [text[s.start : s.end] for s in policy.find(["in", text, "Ada"])[1]] == ["Ada", "Klein"]
    assert policy.find(["in", text, "Ada"])[2][0].end == 3


def test_classifier_fingerprint_follows_its_weights(classifier, tmp_path):
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(classifier, copy)
    first = policy_named(f"classifier:{classifier}").fingerprint
    assert policy_named(f"classifier:{copy}").fingerprint == first
    (copy / "config.json").write_text((copy / "config.json").read_text() + " ")
    assert policy_named(f"classifier:{copy}").fingerprint != first


def test_folder_that_holds_no_classifier_is_refused(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ModelError, match="not a token classifier"):
        policy_named(f"classifier:{tmp_path}").find(["x"])


def test_patterns_are_found_beside_a_named_policy_or_alone():
    text = "Mail ada@mail.org about room 12,5 and a+names"
    alone = policy_named(with_patterns(None, ["ROOM=room (?P<secret>[0-9,]+)", "ROOM=a\\+names"]))
    assert [text[s.start : s.end] for s in alone.find([text])[0]] == ["12,5", "a+names"]
    both = policy_named(with_patterns("patterns", ["ROOM=room [0-9,]+"]))
    assert [(s.kind, text[s.start : s.end]) for s in both.find([text])[0]] == [
        ("EMAIL", "ada@mail.org"),
        ("ROOM", "room 12,5"),
    ]
    for broken in ("ROOM", "=x", "ROOM=", "ROOM=(", "ROOM=(?=x)"):
        with pytest.raises(ConfigError):
            policy_named(with_patterns(None, [broken]))
    with pytest.raises(ConfigError, match="one line"):
        with_patterns(None, ["ROOM=a\nb"])


@pytest.mark.parametrize(("given", "found"), [({}, ["ada@mail.org"]), ({"pattern": ("D=[0-9]",)}, ["1", "2"])])
def test_a_pattern_replaces_the_default_policy_and_joins_one_that_is_named(given, found):
    text = "ada@mail.org 12"
    settings = ScanSettings(file=Path("x.jsonl"), **given)
    policy = policy_named(settings.policy_with_patterns(settings.policy))
    assert [text[s.start : s.end] for s in policy.find([text])[0]] == found
    named = ScanSettings(file=Path("x.jsonl"), policy="patterns", pattern=("D=[0-9]",))
    policy = policy_named(named.policy_with_patterns(named.policy))
    assert [text[s.start : s.end] for s in policy.find([text])[0]] == ["ada@mail.org", "1", "2"]


def test_a_pattern_redacts_every_digit_of_wikitext_as_in_the_paper(shared):
    lines = (shared / "data" / "wikitext-2.valid.txt").read_text(encoding="utf8").splitlines()[:400]
    records = [Record(str(place), line) for place, line in enumerate(lines) if line.strip()]
    with_digits = sum(any(c.isdigit() for c in record.text) for record in records)
    routed = redact_and_route(records, policy_named(with_patterns(None, ["DIGITS=[0-9]+"])))
    assert with_digits > 50
    assert routed.counts.masked == with_digits
    assert not any("0" <= c <= "9" for record in routed.private for c in record.text)
    print(f"{with_digits} of {len(records)} lines hold digits, {routed.counts.found['DIGITS']} numbers masked")
