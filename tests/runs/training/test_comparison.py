"""Methods on public text: each with the noise that it would have on the corpus, and advice by what was measured."""

import json

import pytest

from reticent.cli import main as cli
from reticent.core.errors import DataError
from reticent.core.guarantee import Neighbours
from reticent.runs.progress import untracked
from reticent.runs.training.comparison import (
    MORE,
    SCRUBBED,
    UNTRAINED,
    Compared,
    PublicText,
    _Bench,
    advice_on,
    compare_on,
    expectation,
)
from reticent.runs.training.settings import Method, ModelSection
from reticent.training.plans.choice import Choice, choose
from reticent.training.plans.plan import DpSgd
from tests.models.tiny import tiny_gpt2, tiny_tokenizer

CHOICE = Choice(batch=40, epochs=2.0, learning_rate=2e-3)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model, and public text of which a third holds numbers and a third other digits."""
    made = tmp_path_factory.mktemp("public")
    tiny_gpt2().save_pretrained(made / "model")
    tiny_tokenizer().save_pretrained(made / "model")
    texts = [f"call 555-010-01{i} now" for i in range(10, 30)]
    texts += [f"the box 99{i} is late" for i in range(10, 30)]
    texts += [f"it rained {'very ' * (i % 5)}much in the north" for i in range(20)]
    rows = [json.dumps({"id": f"r{i}", "text": text}) for i, text in enumerate(texts)]
    (made / "public.jsonl").write_text("\n".join(rows) + "\n")
    return made


def plan_of(units: int, batch: int) -> DpSgd:
    return DpSgd.for_target(epsilon=8.0, delta=1e-4, units=units, batch=batch, epochs=1.0)


def public(folder) -> PublicText:
    return PublicText(file=str(folder / "public.jsonl"), policy="patterns", conservative_policy="conservative")


@pytest.mark.parametrize(("batch", "records"), [(40, 100), (40, 25)])
def test_a_run_on_public_text_has_the_steps_and_the_noise_on_a_gradient_of_the_plan(folder, batch, records):
    plan = plan_of(200, batch)
    bench = _Bench(folder, public(folder), plan, ModelSection(source="x"), CHOICE, records=records)
    _, section = bench.dp_sgd("all.jsonl")
    made = section.plan(records=records, owners=records, seed=0)
    assert made.gradient_noise == pytest.approx(plan.gradient_noise)
    assert made.steps == plan.steps
    # Redacted training: noise for replacing one of the private records, on the mean of all records of a step.
    _, redacted = bench.redacted(0.5)
    whole = choose(200, is_redacted=True).batch
    common = {"epsilon": plan.guarantee().epsilon, "delta": 1e-4, "units": 100, "batch": round(whole / 2)}
    private, twin = (
        DpSgd.for_target(**common, epochs=CHOICE.epochs, neighbours=neighbours)
        for neighbours in (Neighbours.REPLACE, Neighbours.ADD_REMOVE)
    )
    noise = redacted.noise_multiplier / redacted.batch
    assert noise == pytest.approx(private.noise_multiplier / whole)
    assert noise > 1.1 * twin.noise_multiplier / whole  # the twin would price adding a record
    assert redacted.epochs * records / redacted.batch == pytest.approx(private.steps)
    # Each at the rate that `train` would choose for it.
    assert section.learning_rate == CHOICE.learning_rate
    assert redacted.learning_rate == choose(200, is_redacted=True).learning_rate != CHOICE.learning_rate


def test_the_three_methods_are_compared_and_the_best_one_leads(folder):
    model = ModelSection(source=str(folder / "model"), device="cpu")
    larger = plan_of(2000, 400)
    found = compare_on(public(folder), plan_of(200, 40), model, choice=CHOICE, track=untracked, larger=larger)
    assert {each.method for each in found} == {"dp-sgd", SCRUBBED, "crt", MORE, UNTRAINED}
    assert found[0].perplexity == min(each.perplexity for each in found)
    assert all(each.interval[0] < each.perplexity < each.interval[1] for each in found)
    assert {each.texts for each in found} == {12}  # a fifth of the public text
    trained = [each for each in found if each.method != UNTRAINED]
    assert all(each.outside is not None and each.outside > 1.0 for each in trained)
    said = expectation(found)
    assert "12 held-out texts" in said
    assert "ten times as many records" in said
    assert "protect nothing" in advice_on(tuple(each for each in found if each.method != "crt"))


@pytest.mark.parametrize(
    ("perplexities", "said"),
    [
        ((10.0, 12.0, 9.0), "--method crt"),
        ((10.0, 9.0, 8.9), "scrubbing before"),
        ((10.0, 9.8, 9.7), "take dp-sgd"),
    ],
)
def test_a_weaker_promise_is_advised_only_where_it_is_worth_it(perplexities, said):
    names = (Method.DP_SGD.value, SCRUBBED, Method.CRT.value)
    found = [measured(name, value) for name, value in zip(names, perplexities, strict=True)]
    assert said in advice_on(tuple(found))


def measured(method: str, perplexity: float) -> Compared:
    """A result whose interval reaches a tenth to each side."""
    around = (0.9 * perplexity, 1.1 * perplexity)
    return Compared(method=method, perplexity=perplexity, interval=around, texts=30, outside=None)


@pytest.mark.parametrize(
    ("untrained", "verdict"),
    [
        (20.0, None),
        (10.5, "The untrained model lies within the interval: private training may not make it better."),
        (5.0, "Private training makes the model worse here."),
    ],
)
def test_what_to_expect_has_an_interval_and_says_where_nothing_is_gained(untrained, verdict):
    found = (measured("dp-sgd", 10.0), measured(UNTRAINED, untrained))
    said = expectation(found)
    assert said.startswith(f"Expected on text like this: perplexity 10 (9 to 11), and {untrained:g} (")
    assert "ten times" not in said  # no plan for as many was made
    assert "95 % intervals over 30 held-out texts" in said
    assert said.count("rivate training") == (verdict is not None)
    assert verdict is None or verdict in said


def test_too_little_text_and_owners_are_refused(folder, capsys):
    (folder / "few.jsonl").write_text('{"id": "a", "text": "x"}\n')
    few = PublicText(file=str(folder / "few.jsonl"), policy="patterns", conservative_policy="conservative")
    with pytest.raises(DataError, match="too few records"):
        compare_on(few, plan_of(200, 40), ModelSection(source="x"), choice=CHOICE, track=untracked)
    asked = ["--records", "60", "--owners", "20", "--unit", "owner", "--target-epsilon", "8", "--public-text", "x"]
    assert cli.run(["plan", *asked]) == 2
    assert "--public-text" in capsys.readouterr().err
