"""The frame: pieces are cached by content, resumed after a kill, shared where named, and rendered on a page."""

import json

import pytest

from reticent.app.cli import run as command
from reticent.app.experiments import running
from reticent.app.experiments.catalogue import chosen, experiments
from reticent.app.experiments.experiment import (
    ClaimVerdict,
    Experiment,
    Grid,
    Judgement,
    Line,
    Panel,
    Paper,
    Picture,
    Piece,
    Rendering,
    Scale,
)
from reticent.app.experiments.page import write_pages
from reticent.app.experiments.running import is_finished, reproduce
from reticent.core.errors import ConfigError


class Counting:
    """An experiment of three pieces that counts what it computes; `fails_at` is the piece that is killed."""

    def __init__(self, *, name="rdp-count", shared="", fails_at=None, factor=2):
        self.calls = []
        self.fails_at = fails_at
        self.experiment = Experiment(
            name=name,
            paper=Paper.RDP,
            title="a test",
            pieces=lambda _: [Piece(f"p {n}", {"n": n, "factor": factor}, self.compute, shared) for n in range(3)],
            render=self.render,
            scales=(Scale.SMALL,),
        )

    def compute(self, parameters, randomness):
        if parameters["n"] == self.fails_at:
            raise KeyboardInterrupt
        self.calls.append(parameters["n"])
        return {"value": parameters["factor"] * parameters["n"], "drawn": float(randomness.uniform(1)[0])}

    @staticmethod
    def render(results):
        total = sum(one["value"] for one in results.values())
        line = Line(name="v", x=(0.0, 1.0, 2.0), y=tuple(float(one["value"]) for one in results.values()))
        return Rendering(
            judgements=(Judgement.of("The sum is 6.", total == 6, reason=f"It is {total}."),),
            tables=(Grid("Sum", ("a|b", "sum"), (("x", str(total)),)),),
            pictures=(Picture("rdp-count", (Panel(title="t", x="n", y="v", lines=(line,)),)),),
        )


def test_a_finished_experiment_is_read_and_not_computed_again(tmp_path):
    first = Counting()
    made = reproduce(first.experiment, tmp_path, scale=Scale.SMALL, seed=1)
    assert first.calls == [0, 1, 2]
    again = Counting()
    read = reproduce(again.experiment, tmp_path, scale=Scale.SMALL, seed=1)
    assert again.calls == []
    assert read.values == made.values
    assert (made.computed, read.computed) == (3, 0)
    assert read.seconds == made.seconds


def test_a_killed_run_goes_on_with_the_pieces_it_lacks(tmp_path):
    killed = Counting(fails_at=2)
    with pytest.raises(KeyboardInterrupt):
        reproduce(killed.experiment, tmp_path, scale=Scale.SMALL, seed=1)
    assert not is_finished(killed.experiment, tmp_path, scale=Scale.SMALL, seed=1)
    resumed = Counting()
    resumed_values = reproduce(resumed.experiment, tmp_path, scale=Scale.SMALL, seed=1).values
    assert resumed.calls == [2]
    assert is_finished(resumed.experiment, tmp_path, scale=Scale.SMALL, seed=1)
    assert resumed_values == reproduce(Counting().experiment, tmp_path / "b", scale=Scale.SMALL, seed=1).values


@pytest.mark.parametrize("change", ["seed", "parameters", "version", "name"])
def test_a_change_of_anything_that_a_piece_depends_on_computes_it_anew(tmp_path, change, monkeypatch):
    reproduce(Counting().experiment, tmp_path, scale=Scale.SMALL, seed=1)
    if change == "version":
        monkeypatch.setattr(running, "__version__", "another")
    other = Counting(factor=3 if change == "parameters" else 2, name="rdp-x" if change == "name" else "rdp-count")
    reproduce(other.experiment, tmp_path, scale=Scale.SMALL, seed=2 if change == "seed" else 1)
    assert other.calls == [0, 1, 2]


def test_experiments_that_share_pieces_compute_them_once(tmp_path):
    reproduce(Counting(name="rdp-a", shared="both").experiment, tmp_path, scale=Scale.SMALL, seed=1)
    other = Counting(name="rdp-b", shared="both")
    reproduce(other.experiment, tmp_path, scale=Scale.SMALL, seed=1)
    assert other.calls == []


def test_a_damaged_or_foreign_piece_is_refused_and_not_believed(tmp_path):
    reproduce(Counting().experiment, tmp_path, scale=Scale.SMALL, seed=1)
    path = next((tmp_path / "pieces").rglob("*.json"))
    document = json.loads(path.read_text())
    document["content"]["seed"] = 99
    path.write_text(json.dumps(document))
    with pytest.raises(ConfigError, match="not the one its name says"):
        reproduce(Counting().experiment, tmp_path, scale=Scale.SMALL, seed=1)


def test_a_scale_that_an_experiment_was_not_written_for_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="scale"):
        reproduce(Counting().experiment, tmp_path, scale=Scale.PAPER, seed=1)


def test_a_page_shows_verdicts_tables_figures_and_the_command_but_no_path(tmp_path):
    made = reproduce(Counting().experiment, tmp_path, scale=Scale.SMALL, seed=1)
    (page,) = write_pages([made], tmp_path / "pages")
    text = page.read_text()
    assert "**holds**: The sum is 6. It is 6." in text
    assert "a\\|b" in text
    assert "`reticent reproduce rdp-count --scale small --seed 1 --out RUN`" in text
    assert str(tmp_path) not in text
    assert (tmp_path / "pages" / "figures" / "rdp-count.svg").is_file()
    assert "(figures/rdp-count.svg)" in text
    assert f"| [{Paper.RDP.heading}](rdp.md) | 1 | 0 | 0 |" in (tmp_path / "pages" / "README.md").read_text()


def test_drawing_the_same_numbers_twice_gives_the_same_bytes(tmp_path):
    made = reproduce(Counting().experiment, tmp_path, scale=Scale.SMALL, seed=1)
    first, second = tmp_path / "1", tmp_path / "2"
    write_pages([made], first)
    write_pages([made], second)
    name = "figures/rdp-count.svg"
    assert (first / name).read_bytes() == (second / name).read_bytes()


def test_names_are_papers_experiments_or_all_and_a_wrong_one_is_answered_with_the_nearest():
    assert [one.name for one in chosen(["rdp-fig1"])] == ["rdp-fig1"]
    assert len(chosen(["all"])) == len(experiments())
    assert {one.paper for one in chosen(["rdp"])} == {Paper.RDP}
    with pytest.raises(ConfigError) as raised:
        chosen(["rdp-fig11"])
    assert "rdp-fig1" in (raised.value.hint or "")


def test_the_command_lists_runs_and_writes_a_page(tmp_path, capsys):
    assert command(["reproduce", "list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["experiments"]
    assert {one["name"] for one in listed} == set(experiments())
    assert command(["reproduce", "crt-fig6"]) == 2  # no folder
    assert "--out" in capsys.readouterr().err
    assert command(["reproduce", "crt-fig6", "--out", str(tmp_path), "--json"]) == 0
    (made,) = json.loads(capsys.readouterr().out)["experiments"]
    assert {one["verdict"] for one in made["judgements"]} == {ClaimVerdict.HOLDS.value}
    assert (tmp_path / "crt.md").is_file()
