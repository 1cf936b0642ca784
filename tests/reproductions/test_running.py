"""The frame: pieces are cached by content, resumed after a kill, shared where named, and rendered on a page."""

import json
import os
import signal
import subprocess
import sys
import textwrap
from dataclasses import replace

import pytest

from reproductions import running
from reproductions.__main__ import app as program
from reproductions.catalogue import chosen, experiments
from reproductions.experiment import (
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
from reproductions.page import write_pages
from reproductions.running import Course, is_finished, lacks_files, reproduce
from reticent.cli import main as cli
from reticent.core.errors import ConfigError
from reticent.engine.work import EngineSettings


def command(arguments):
    """The exit code of `python -m reproductions ARGUMENTS`."""
    return cli.run(arguments, program)


def course(folder, *, scale=Scale.SMALL, seed=1, **others):
    return Course(folder=folder, scale=scale, seed=seed, **others)


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
    made = reproduce(first.experiment, course(tmp_path))
    assert first.calls == [0, 1, 2]
    again = Counting()
    read = reproduce(again.experiment, course(tmp_path))
    assert again.calls == []
    assert read.values == made.values
    assert (made.computed, read.computed) == (3, 0)
    assert read.seconds == made.seconds


def test_a_killed_run_goes_on_with_the_pieces_it_lacks(tmp_path):
    killed = Counting(fails_at=2)
    with pytest.raises(KeyboardInterrupt):
        reproduce(killed.experiment, course(tmp_path))
    assert not is_finished(killed.experiment, course(tmp_path))
    resumed = Counting()
    resumed_values = reproduce(resumed.experiment, course(tmp_path)).values
    assert resumed.calls == [2]
    assert is_finished(resumed.experiment, course(tmp_path))
    assert resumed_values == reproduce(Counting().experiment, course(tmp_path / "b")).values


@pytest.mark.parametrize("change", ["seed", "parameters", "versions", "source", "name"])
def test_a_change_of_anything_that_a_piece_depends_on_computes_it_anew(tmp_path, change, monkeypatch):
    reproduce(Counting().experiment, course(tmp_path))
    if change == "versions":
        monkeypatch.setattr(running, "package_versions", lambda: {"torch": "another"})
    if change == "source":
        monkeypatch.setattr(running, "source_fingerprint", lambda _: "another")
    other = Counting(factor=3 if change == "parameters" else 2, name="rdp-x" if change == "name" else "rdp-count")
    reproduce(other.experiment, course(tmp_path, seed=2 if change == "seed" else 1))
    assert other.calls == [0, 1, 2]


SLOW = """
    import sys, time
    from pathlib import Path
    from reproductions.experiment import Experiment, Paper, Piece, Rendering, Scale
    from reproductions.running import Course, reproduce

    def compute(parameters, _):
        if parameters["n"] == 1 and not Path(sys.argv[2]).exists():
            print("working", flush=True)
            time.sleep(60)
        return {"n": parameters["n"]}

    shown = []
    reproduce(
        Experiment(
            name="rdp-slow",
            paper=Paper.RDP,
            title="",
            pieces=lambda _: [Piece(f"p {n}", {"n": n}, compute) for n in range(3)],
            render=lambda _: Rendering(judgements=()),
        ),
        Course(folder=Path(sys.argv[1])),
        observe=lambda name, was_cached: shown.append(was_cached),
    )
    print(shown)
"""


def test_a_process_that_was_killed_resumes_and_a_finished_one_is_read(tmp_path):
    """SIGKILL in the second of three pieces: the first is read, the others are computed, then all are read."""
    script, go_on = tmp_path / "slow.py", tmp_path / "go on"
    script.write_text(textwrap.dedent(SLOW))
    arguments = [sys.executable, str(script), str(tmp_path / "run"), str(go_on)]
    # The reproductions are no part of the installed package.
    here = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, env=here) as process:
        assert process.stdout.readline() == "working\n"
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    go_on.touch()
    runs = [
        subprocess.run(arguments, capture_output=True, text=True, check=True, env=here).stdout for _ in range(2)
    ]
    assert runs == ["[True, False, False]\n", "[True, True, True]\n"]


def test_a_finished_experiment_computes_nothing_again(tmp_path):
    experiment = experiments()["crt-fig6"]
    reproduce(experiment, course(tmp_path))
    assert reproduce(experiment, course(tmp_path)).computed == 0


def test_an_engine_gives_the_same_values_as_this_process(tmp_path):
    experiment = experiments()["crt-fig6"]
    here = reproduce(experiment, course(tmp_path / "here"))
    engine = EngineSettings(workers=2)
    there = reproduce(experiment, course(tmp_path / "there", engine=engine))
    assert there.values == here.values
    assert there.computed == here.computed == 4
    assert reproduce(experiment, course(tmp_path / "there")).computed == 0


class Reading(Counting):
    """As counting; its last piece reads a file."""

    def __init__(self):
        super().__init__()
        pieces = self.experiment.pieces(Scale.SMALL)
        last = replace(pieces[-1], files=("text.txt",))
        self.experiment = replace(self.experiment, pieces=lambda _: [*pieces[:-1], last])

    def compute(self, parameters, randomness):
        assert ("data" in parameters) == (parameters["n"] == 2)
        return super().compute(parameters, randomness)


def test_a_piece_whose_file_is_not_there_is_left_out_and_another_file_is_another_piece(tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    without = Reading()
    assert set(reproduce(without.experiment, course(tmp_path, data=data)).values) == {"p 0", "p 1"}
    for text in ("one", "another"):
        (data / "text.txt").write_text(text)
        given = Reading()
        assert len(reproduce(given.experiment, course(tmp_path, data=data)).values) == 3
        assert given.calls == [2]


def test_an_experiment_that_can_compute_nothing_says_which_files_it_reads(tmp_path):
    whole = Reading()
    last = whole.experiment.pieces(Scale.SMALL)[-1]
    alone = replace(whole.experiment, pieces=lambda _: [last])
    assert lacks_files(alone, course(tmp_path)) == ("text.txt",)
    assert not is_finished(alone, course(tmp_path))
    with pytest.raises(ConfigError) as raised:
        reproduce(alone, course(tmp_path))
    assert "text.txt" in raised.value.line()
    assert "--data" in (raised.value.hint or "")


def test_experiments_that_share_pieces_compute_them_once(tmp_path):
    reproduce(Counting(name="rdp-a", shared="both").experiment, course(tmp_path))
    other = Counting(name="rdp-b", shared="both")
    reproduce(other.experiment, course(tmp_path))
    assert other.calls == []


def test_a_damaged_or_foreign_piece_is_refused_and_not_believed(tmp_path):
    reproduce(Counting().experiment, course(tmp_path))
    path = next((tmp_path / "pieces").rglob("*.json"))
    document = json.loads(path.read_text())
    document["content"]["seed"] = 99
    path.write_text(json.dumps(document))
    with pytest.raises(ConfigError, match="not the one its name says"):
        reproduce(Counting().experiment, course(tmp_path))


def test_a_scale_that_an_experiment_was_not_written_for_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="scale"):
        reproduce(Counting().experiment, course(tmp_path, scale=Scale.PAPER))


def test_a_page_shows_verdicts_tables_figures_and_the_command_but_no_path(tmp_path):
    made = reproduce(Counting().experiment, course(tmp_path))
    (page,) = write_pages([made], tmp_path / "pages")
    text = page.read_text()
    assert "**holds**: The sum is 6. It is 6." in text
    assert "a\\|b" in text
    assert "`python -m reproductions rdp-count --scale small --seed 1 --out RUN`" in text
    assert str(tmp_path) not in text
    assert (tmp_path / "pages" / "figures" / "rdp-count.svg").is_file()
    assert "(figures/rdp-count.svg)" in text
    assert f"| [{Paper.RDP.heading}](rdp.md) | 1 | 0 | 0 |" in (tmp_path / "pages" / "README.md").read_text()


def test_drawing_the_same_numbers_twice_gives_the_same_bytes(tmp_path):
    made = reproduce(Counting().experiment, course(tmp_path))
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
    assert command(["list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["experiments"]
    assert {one["name"] for one in listed} == set(experiments())
    assert command(["crt-fig6"]) == 2  # no folder
    assert "--out" in capsys.readouterr().err
    assert command(["crt-fig6", "--out", str(tmp_path), "--json"]) == 0
    (made,) = json.loads(capsys.readouterr().out)["experiments"]
    assert {one["verdict"] for one in made["judgements"]} == {ClaimVerdict.HOLDS.value}
    assert (tmp_path / "crt.md").is_file()


def test_the_command_names_the_files_that_an_experiment_reads(tmp_path, capsys):
    assert command(["updates-table3", "--out", str(tmp_path)]) == 2
    assert "newsgroups.jsonl" in capsys.readouterr().err
    assert command(["updates-table3", "--out", str(tmp_path), "--data", str(tmp_path / "none")]) == 2
    assert "not a directory" in capsys.readouterr().err
    assert command(["list", "--json"]) == 0
    listed = {one["name"]: one["files"] for one in json.loads(capsys.readouterr().out)["experiments"]}
    assert listed["pii-table4"] == ["tab.jsonl"]
    assert listed["crt-fig6"] == []
