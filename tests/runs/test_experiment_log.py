"""Experiment trackers: what is logged, what only on request, and what is said where one is not installed."""

import math
import struct
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from reticent.core.errors import ConfigError, MissingExtra, UsageError
from reticent.core.finding import Comparison
from reticent.runs.experiment_log import ExperimentLog, LogPlace, opened_log
from reticent.runs.training.result import TrainedRun
from reticent.training.evaluation import Evaluation
from reticent.training.loop import Progress
from tests.journeys.commands import reticent
from tests.reporting.sample_reports import finding, guarantee


class Listener:
    """A tracker that keeps what it hears."""

    def __init__(self) -> None:
        self.points: list[tuple[str, int, float]] = []
        self.closed: list[bool] = []

    def log(self, values, *, step):
        self.points += [(name, step, value) for name, value in values.items()]

    def close(self, *, failed):
        self.closed.append(failed)

    @property
    def names(self):
        return {name for name, _, _ in self.points}


def trained(log: ExperimentLog, *, steps: int) -> list[int]:
    """A run of so many steps; the steps that the operator's own observer heard of."""
    heard = []

    def observe(progress, _):
        heard.append(progress.step)
        return True

    watch = log.watching(observe)
    for step in range(1, steps + 1):
        assert watch(Progress(step, steps, 3.0, 100.0), 0.5 * step)
    return heard


def test_by_default_nothing_that_was_computed_from_a_batch_is_logged():
    listener = Listener()
    heard = trained(ExperimentLog(listener), steps=4)
    assert heard == [1, 2, 3, 4]
    assert listener.names == {"training/epsilon"}
    assert [(step, value) for name, step, value in listener.points if name == "training/epsilon"] == [
        (1, 0.5),
        (2, 1.0),
        (3, 1.5),
        (4, 2.0),
    ]


def test_the_loss_of_batches_is_logged_where_it_is_asked_for():
    listener = Listener()
    trained(ExperimentLog(listener, with_loss=True), steps=4)
    assert {"training/loss", "training/tokens_per_second"} < listener.names


def test_a_long_run_has_a_thousand_points_and_its_last_step():
    listener = Listener()
    trained(ExperimentLog(listener), steps=2501)
    steps = [step for name, step, _ in listener.points if name == "training/epsilon"]
    assert len(steps) <= 1000
    assert steps[-1] == 2501


def test_void_findings_and_infinite_numbers_are_left_out():
    listener = Listener()
    good = finding("auc", low=0.8, value=0.85, high=0.9)
    log = ExperimentLog(listener)
    log.found(
        [good, finding("exposure", void="words alone"), finding("epsilon", low=1.0, value=2.0, high=math.inf)],
        [Comparison(good, guarantee(), 0.75, 1.0)],
    )
    found = {name: value for name, _, value in listener.points}
    own = f"findings/{good.attack}/auc/{good.unit.value}"
    assert {found[f"{own}/{end}"] for end in ("value", "low", "high", "ceiling")} == {0.85, 0.8, 0.9, 0.75}
    assert not any("exposure" in name or name.endswith("epsilon/record/high") for name in found)


def test_names_hold_no_character_that_mlflow_refuses():
    listener = Listener()
    odd = finding("tpr@0.1 %", low=0.0, value=0.1, high=0.2, attack="membership (loss, ε)")
    ExperimentLog(listener).found([odd])
    assert f"findings/membership_loss/tpr_0.1/{odd.unit.value}/low" in listener.names


def test_a_run_tells_its_held_out_loss_and_what_was_proved():
    listener = Listener()
    done = TrainedRun(
        path=Path("run"),
        step=9,
        steps=9,
        is_finished=True,
        guarantee=guarantee(),
        evaluation=Evaluation(math.e, 0.5, 10, 2),
    )
    ExperimentLog(listener).trained(done)
    said = {name: value for name, step, value in listener.points if step == 9}
    assert said["held_out/loss"] == pytest.approx(1.0)
    assert said["proved/epsilon"] == guarantee().epsilon


def test_an_error_closes_the_log_as_failed(monkeypatch):
    listener = Listener()
    monkeypatch.setattr(LogPlace, "open", lambda self, name: listener)
    place = LogPlace.parse("tensorboard:anywhere")
    with opened_log(place, "run"):
        pass
    with pytest.raises(KeyboardInterrupt), opened_log(place, "run"):
        raise KeyboardInterrupt
    assert listener.closed == [False, True]


def test_a_tracker_that_fails_on_the_way_is_told_once_and_does_not_end_the_run():
    class Away(Listener):
        def log(self, values, *, step):
            super().log(values, step=step)
            raise OSError("no server")

    listener = Away()
    with pytest.warns(UserWarning, match="OSError.*the run continues") as warned:
        heard = trained(ExperimentLog(listener), steps=4)
    assert heard == [1, 2, 3, 4]
    assert len(warned) == 1
    assert {step for _, step, _ in listener.points} == {1}


def test_a_tracker_that_cannot_be_opened_is_one_line(tmp_path):
    (tmp_path / "file").write_text("", encoding="utf8")
    with pytest.raises(UsageError, match="--log-to tensorboard could not be opened"):
        LogPlace.parse(f"tensorboard:{tmp_path / 'file'}").open("run")


def scalars(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """The curves of the one event file below a folder, read by the format: length, checksum, event, checksum."""
    from tensorboardX.proto.event_pb2 import Event

    (path,) = folder.rglob("events.out.tfevents.*")
    data, curves, place = path.read_bytes(), {}, 0
    while place < len(data):
        (length,) = struct.unpack_from("<Q", data, place)
        event = Event.FromString(data[place + 12 : place + 12 + length])
        place += 16 + length
        for value in event.summary.value:
            curves.setdefault(value.tag, []).append((event.step, value.simple_value))
    return curves


def test_tensorboard_holds_every_point(tmp_path):
    with opened_log(LogPlace.parse(f"tensorboard:{tmp_path}"), "mine") as log:
        trained(log, steps=3)
        log.found([finding("auc", low=0.8, value=0.85, high=0.9)])
    curves = scalars(tmp_path / "mine")
    assert curves["training/epsilon"] == [(1, 0.5), (2, 1.0), (3, 1.5)]
    assert any(name.endswith("auc/record/low") for name in curves)


def modules(**held) -> dict[str, ModuleType]:
    """Modules by their dotted names, with these attributes."""
    made = {}
    for name, attributes in held.items():
        module = ModuleType(name.replace("__", "."))
        vars(module).update(attributes, __spec__=SimpleNamespace(name=module.__name__))
        made[module.__name__] = module
    return made


def test_weights_and_biases_gets_numbers_and_collects_nothing_else(monkeypatch):
    heard = {}
    run = SimpleNamespace(
        log=lambda values, step: heard.setdefault("points", []).append((values, step)),
        finish=lambda exit_code: heard.update(code=exit_code),
    )
    fake = {"Settings": lambda **asked: asked, "init": lambda **asked: heard.update(asked) or run}
    monkeypatch.setitem(sys.modules, "wandb", modules(wandb=fake)["wandb"])
    with opened_log(LogPlace.parse("wandb:team-project"), "mine") as log:
        trained(log, steps=1)
    assert (heard["project"], heard["name"], heard["code"]) == ("team-project", "mine", 0)
    assert heard["points"][0][1] == 1
    collected = heard["settings"]
    assert collected["console"] == "off"
    assert all(collected[name] for name in ("disable_code", "disable_git", "x_disable_meta", "x_disable_stats"))


def test_mlflow_gets_batches_of_a_thousand_and_its_own_client(monkeypatch):
    heard = {"batches": []}

    class Client:
        def __init__(self, tracking_uri):
            heard["uri"] = tracking_uri

        def get_experiment_by_name(self, name):
            return None

        def create_experiment(self, name):
            return f"number of {name}"

        def create_run(self, number, run_name):
            heard["run"] = (number, run_name)
            return SimpleNamespace(info=SimpleNamespace(run_id="r"))

        def log_batch(self, run, metrics):
            heard["batches"].append(len(metrics))

        def set_terminated(self, run, status):
            heard["status"] = status

    fakes = modules(
        mlflow={}, mlflow__entities={"Metric": lambda *told: told}, mlflow__tracking={"MlflowClient": Client}
    )
    for name, module in fakes.items():
        monkeypatch.setitem(sys.modules, name, module)
    with opened_log(LogPlace.parse("mlflow:http://host:5000"), "mine") as log:
        many = [finding(f"m{number}", low=0.0, value=0.1, high=0.2) for number in range(700)]
        log.found(many)
    assert heard["uri"] == "http://host:5000"
    assert heard["run"] == ("number of reticent", "mine")
    assert heard["batches"] == [1000, 1000, 100]
    assert heard["status"] == "FINISHED"


def test_train_and_audit_log_beside_each_other_and_losses_only_on_request(tmp_path):
    for name, start in (("train", 0), ("held-out", 1)):
        lines = "\n".join(f'{{"text": "record {number} of this corpus"}}' for number in range(start, 48, 2))
        (tmp_path / f"{name}.jsonl").write_text(lines, encoding="utf8")
    private = ["--method", "dp-sgd", "--noise-multiplier", 1, "--delta", 1e-3, "--batch", 8, "--epochs", 1]
    common = ["train", "--data", "train.jsonl", "--model", "embedded", *private, "--log-to", "tensorboard:curves"]
    for name, more in (("shy", ["--holdout", "held-out.jsonl"]), ("loud", ["--log-training-loss"])):
        done = reticent(*common, *more, "--out", f"runs/{name}", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    attacks = ["--train", "train.jsonl", "--holdout", "held-out.jsonl", "--attacks", "membership", "--no-cache"]
    to = ["--log-to", "tensorboard:curves", "--out", "runs/found"]
    done = reticent("audit", "runs/shy", *attacks, *to, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    curves = {name: scalars(tmp_path / "curves" / name) for name in ("shy", "loud", "found")}
    assert len(curves["shy"]["training/epsilon"]) == 3
    assert {"held_out/loss", "proved/epsilon"} < set(curves["shy"])
    assert "training/loss" not in curves["shy"]
    assert len(curves["loud"]["training/loss"]) == 3
    assert any(name.endswith("/auc/record/low") for name in curves["found"])


def test_a_loss_without_a_place_and_a_log_of_tuning_are_refused(tmp_path):
    (tmp_path / "c.jsonl").write_text('{"text": "hello"}\n' * 9, encoding="utf8")
    common = ["train", "--data", "c.jsonl", "--model", "embedded", "--method", "dp-sgd", "--delta", 1e-3]
    common += ["--target-epsilon", 8, "--out", "new"]
    done = reticent(*common, "--log-training-loss", cwd=tmp_path)
    assert (done.returncode, "--log-to TRACKER" in done.stderr) == (2, True)
    tuned = ["--tune", "2", "--tune-score", "c.jsonl", "--log-to", "tensorboard:curves"]
    done = reticent(*common, *tuned, cwd=tmp_path)
    assert (done.returncode, "is secret" in done.stderr) == (2, True)


@pytest.mark.parametrize("text", ["tensorboard", "tensorboard:", "comet:project", ""])
def test_a_tracker_that_nobody_knows_is_refused(text):
    with pytest.raises(ConfigError, match="--log-to"):
        LogPlace.parse(text)


@pytest.mark.parametrize(
    ("text", "module", "hint"),
    [
        ("tensorboard:runs", "tensorboardX", "pip install 'reticent[track]'"),
        ("mlflow:http://host", "mlflow", "pip install mlflow-skinny"),
        ("wandb:project", "wandb", "pip install wandb"),
    ],
)
def test_a_missing_tracker_is_named_with_the_command_that_installs_it(text, module, hint, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises((MissingExtra, UsageError)) as caught:
        LogPlace.parse(text)
    assert caught.value.hint == hint


def test_the_real_trackers_take_what_we_log(tmp_path, monkeypatch):
    """MLflow with a file store, Weights & Biases offline; where they are installed."""
    pytest.importorskip("mlflow.tracking")
    wandb = pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    store = f"file:{tmp_path / 'mlruns'}"
    for text in (f"mlflow:{store}", "wandb:project"):
        with opened_log(LogPlace.parse(text), "mine") as log:
            trained(log, steps=3)
            log.found([finding("auc", low=0.8, value=0.85, high=0.9)], step=3)
    from mlflow.tracking import MlflowClient

    client = MlflowClient(tracking_uri=store)
    (run,) = client.search_runs([client.get_experiment_by_name("reticent").experiment_id])
    curve = client.get_metric_history(run.info.run_id, "training/epsilon")
    assert [(point.step, point.value) for point in curve] == [(1, 0.5), (2, 1.0), (3, 1.5)]
    assert run.info.status == "FINISHED"
    assert wandb.run is None
    assert list((tmp_path / "wandb").glob("offline-run-*"))
