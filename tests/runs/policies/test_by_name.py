"""Policies by name, and a token classifier behind the protocol."""

import importlib.util
import re
import sys
import types
from pathlib import Path

import pytest

from reticent.core.corpus import Record
from reticent.core.errors import ConfigError, ModelError, UsageError
from reticent.data.policies.possible import possible
from reticent.runs.corpus.scan import ScanSettings
from reticent.runs.policies.by_name import policy_named, union_policy
from reticent.runs.policies.token_classifier import TokenClassifierPolicy
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


@pytest.mark.parametrize(
    ("name", "near"), [("unoin", "union"), ("patterns+pattrens", "patterns"), ("dictionary", "dictionary:FILE")]
)
def test_a_policy_that_is_nearly_one_is_asked_for_by_its_name(name, near):
    with pytest.raises(ConfigError) as refused:
        policy_named(name)
    assert refused.value.hint == f"did you mean '{near}'?"


def test_plus_in_a_file_name_does_not_cut_it(tmp_path):
    path = tmp_path / "a+b.txt"
    path.write_text("PERSON\tAda\n")
    policy = policy_named(f"patterns+dictionary:{path}")
    assert [span.kind for span in policy.find(["Ada 415-555-2671"])[0]] == ["PERSON", "PHONE"]


@pytest.mark.parametrize("name", ["", "nonsense", "patterns+", "hf:", "gliner:", "union:x", "dictionary:"])
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
    policy = policy_named(f"hf:{classifier}")
    text = "Mr Klein lives in Rome."
    assert [(s.kind, text[s.start : s.end]) for s in policy.find([text])[0]] == [
        ("PERSON", "Klein"),
        ("LOC", "Rome"),
    ]
    assert policy.kinds == ("LOC", "PERSON")
    assert not policy.is_local
    assert policy.find([]) == []


def test_a_low_threshold_makes_a_tagger_conservative_and_is_part_of_its_fingerprint(classifier):
    """ "lives" has a chance of some percent to be a name: its likeliest tag says "O" at every threshold."""
    usual, careful = policy_named(f"hf:{classifier}"), policy_named(f"hf:{classifier}@0.02")
    text = "Mr Klein lives in Rome."
    found = [
        {place for span in policy.find([text])[0] for place in range(span.start, span.end)}
        for policy in (usual, careful)
    ]
    assert text.index("lives") not in found[0]
    assert text.index("lives") in found[1]
    assert found[0] < found[1]
    assert policy_named(f"hf:{classifier}@0.5").fingerprint == usual.fingerprint != careful.fingerprint
    for wrong in ("0", "1.5", "-0.1", "nan"):
        with pytest.raises(ConfigError, match="is a chance"):
            policy_named(f"hf:{classifier}@{wrong}")
    with pytest.raises(ModelError, match="no such file or directory"):
        policy_named(f"hf:{classifier}@home")


def test_classifier_reads_long_texts_in_windows(classifier):
    policy = policy_named(f"hf:{classifier}")
    text = "lives in . " * 40 + "Ada lives. " + "in . " * 40 + "Klein"
    assert [text[s.start : s.end] for s in policy.find(["in", text, "Ada"])[1]] == ["Ada", "Klein"]
    assert policy.find(["in", text, "Ada"])[2][0].end == 3


def test_classifier_fingerprint_follows_its_weights(classifier, tmp_path):
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(classifier, copy)
    first = policy_named(f"hf:{classifier}").fingerprint
    assert policy_named(f"hf:{copy}").fingerprint == first
    (copy / "config.json").write_text((copy / "config.json").read_text() + " ")
    assert policy_named(f"hf:{copy}").fingerprint != first


def test_folder_that_holds_no_classifier_is_refused(tmp_path, classifier):
    with pytest.raises(ModelError, match="no such file or directory"):
        policy_named(f"hf:{tmp_path}/nowhere")
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ModelError):
        policy_named(f"hf:{tmp_path}").find(["x"])
    with pytest.raises(ModelError, match="not a token classifier"):
        policy_named("hf:embedded").find(["x"])


def test_classifier_with_pickled_weights_is_refused(classifier, tmp_path):
    import shutil

    import torch

    copy = tmp_path / "pickled"
    shutil.copytree(classifier, copy)
    (copy / "model.safetensors").unlink()
    torch.save({}, copy / "pytorch_model.bin")
    with pytest.raises(ModelError, match="pickled weights are refused"):
        policy_named(f"hf:{copy}").find(["x"])


SCHEMES = {
    "IO": ["O", "PERSON", "LOC", "CARDINAL"],
    "IOB": ["O", "B-PER", "I-PER", "B-GPE", "I-GPE", "B-CARDINAL"],
    "BILOU": ["O", "B-PER", "I-PER", "L-PER", "U-PER", "B-LOCATION", "L-LOCATION", "U-LOCATION", "U-CARDINAL"],
}
KIND_OF = {"PERSON": "PERSON", "PER": "PERSON", "LOC": "LOC", "GPE": "LOC", "LOCATION": "LOC"}


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_random_classifier_finds_just_the_words_it_tags(scheme, tmp_path):
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import BertConfig, BertForTokenClassification, PreTrainedTokenizerFast

    words = [f"w{n}" for n in range(60)]
    core = Tokenizer(models.WordLevel({w: n for n, w in enumerate(["[PAD]", "[UNK]", *words])}, unk_token="[UNK]"))
    core.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, unk_token="[UNK]", pad_token="[PAD]")
    labels = dict(enumerate(SCHEMES[scheme]))
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=62, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16,
        max_position_embeddings=40, id2label=labels, label2id={v: k for k, v in labels.items()},
        initializer_range=1.0,
    )  # fmt: skip
    model = BertForTokenClassification(config).eval()
    with torch.no_grad():
        model.bert.embeddings.word_embeddings.weight.mul_(8.0)  # words decide, more than places and neighbours
        for layer in model.bert.encoder.layer:
            layer.attention.output.dense.weight.mul_(0.01)
            layer.output.dense.weight.mul_(0.01)
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    texts = [" ".join(words[n : n + 12]) for n in range(0, 48, 4)]
    found = TokenClassifierPolicy(tmp_path).find(texts)
    seen = set()
    for text, spans in zip(texts, found, strict=True):
        with torch.inference_mode():
            chances = model(**tokenizer(text, return_tensors="pt")).logits[0].softmax(-1).tolist()
        kinds = [kind_at(row, labels, threshold=0.5) for row in chances]
        tagged = [{s.kind for s in spans if s.start <= place < s.end} for place in word_starts(text)]
        assert tagged == [{kind} if kind else set() for kind in kinds]
        assert all(text[s.start : s.end] == text[s.start : s.end].strip() for s in spans)
        seen |= set(kinds)
    assert seen == {None, "PERSON", "LOC"}  # or the comparison proved nothing


def kind_at(chances, labels, *, threshold):
    """The likeliest kind of a token, by the sum over its tags, where all kinds together reach the threshold."""
    sums = dict.fromkeys(KIND_OF.values(), 0.0)
    for label, chance in enumerate(chances):
        if kind := KIND_OF.get(labels[label].split("-")[-1]):
            sums[kind] += chance
    return max(sums, key=sums.get) if sum(sums.values()) >= threshold else None


def word_starts(text):
    return [0, *(place + 1 for place, symbol in enumerate(text) if symbol == " ")]


def test_gliner_is_asked_in_windows_and_its_labels_get_our_names(monkeypatch, tmp_path):
    asked = []

    class GLiNER:
        @classmethod
        def from_pretrained(cls, folder, *, local_files_only):
            assert Path(folder) == tmp_path
            assert local_files_only
            return cls()

        def inference(self, texts, labels, *, flat_ner, threshold, batch_size):
            asked.extend(texts)
            assert "phone number" in labels
            assert flat_ner
            assert 0.0 < threshold < 1.0
            assert batch_size > 1
            return [
                [
                    {"start": m.start(), "end": m.end(), "label": "phone number" if m[0][0] == "5" else "person"}
                    for m in re.finditer(r"Ad|555", text)
                ]
                for text in texts
            ]

    (tmp_path / "model.safetensors").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "gliner", types.SimpleNamespace(GLiNER=GLiNER, __spec__=object()))
    policy = policy_named(f"gliner:{tmp_path}")
    text = "so it " * 150 + "Ada 555-0100" + " so" * 300
    (spans,), nothing = policy.find([text]), policy.find([])
    assert nothing == []
    assert [(s.kind, text[s.start : s.end]) for s in spans] == [("PERSON", "Ada"), ("PHONE", "555")]
    assert len(asked) > 2
    assert max(len(piece.split()) for piece in asked) <= 200
    assert policy.kinds == tuple(sorted(set(policy.kinds)))


def test_gliner_without_its_package_names_the_command(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UsageError) as caught:
        policy_named("gliner:some/model")
    assert caught.value.hint == "pip install gliner"


def test_gliner_with_pickled_weights_is_refused(monkeypatch, tmp_path):
    (tmp_path / "pytorch_model.bin").write_bytes(b"x")
    monkeypatch.setitem(sys.modules, "gliner", types.SimpleNamespace(GLiNER=None, __spec__=object()))
    with pytest.raises(ModelError, match="pickled weights are refused"):
        policy_named(f"gliner:{tmp_path}").find(["x"])


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
