"""The demo's story, small: the undefended model learns the text and the secrets, and no bound is passed."""

import json
import math

import pytest

from reticent.app import demo
from reticent.app.demo import Row, Scale, Story
from reticent.core.guarantee import Unit
from reticent.data.canaries import read_key
from tests.journeys.commands import reticent

TINY = Scale(dialogues=40, held_out=12, canaries=2, copies=12, epochs=4.0, batch=8)


@pytest.fixture(scope="module")
def story(tmp_path_factory) -> Story:
    return demo.tell(
        tmp_path_factory.mktemp("demo") / "story", seed=3, scale=TINY, observer=lambda _: lambda *_: True
    )


def test_training_helps_and_undefended_training_gives_secrets_away(story):
    public, undefended, private = story.rows
    assert undefended.perplexity < 0.7 * public.perplexity
    assert undefended.bits_left < public.bits_left - 2.0
    assert undefended.bits_left < private.bits_left - 2.0
    assert story.bits == pytest.approx(math.log2(10**6))


def test_the_private_model_stays_within_what_was_proved_for_its_owners(story):
    private = story.rows[2]
    assert private.guarantee.unit is Unit.OWNER
    assert private.guarantee.epsilon <= demo.EPSILON
    assert 0.0 < private.proved_bits_left < private.bits_left
    assert not private.is_refuted


def test_a_model_that_leaks_more_than_was_proved_is_called_refuted(story):
    private = story.rows[2]
    leaking = Row(
        "twin", private.perplexity, private.proved_bits_left - 0.1, 0.0, private.guarantee, private.proved_bits_left
    )
    assert leaking.is_refuted


def test_no_secret_stands_in_the_document_or_beside_the_weights(story):
    secrets = [canary.secret.reveal() for canary in read_key(story.folder / "canaries.json")]
    written = json.dumps(story.to_json())
    for path in story.folder.glob("*/**/*.json"):
        written += path.read_text(encoding="utf8") if path.name != "tokenizer.json" else ""
    assert not [secret for secret in secrets if secret in written]


def test_the_command_refuses_a_folder_that_holds_something(tmp_path):
    (tmp_path / "mine").write_text("keep")
    done = reticent("demo", "--out", tmp_path)
    assert done.returncode == 2
    assert "not an empty directory" in done.stderr
