"""Configuration: strict, merged with flags, and wrong keys come back as advice."""

import pytest

from reticent.core.errors import ConfigError
from reticent.runs.settings.declaration import Settings
from reticent.runs.settings.file import override, read_toml, validate


class Training(Settings):
    method: str
    clip_norm: float = 1.0


class Audit(Settings):
    attack: str


class Run(Settings):
    training: Training
    audit: tuple[Audit, ...] = ()


def check(tables):
    return validate(Run, tables, where="run.toml")


def test_valid_tables_become_a_frozen_object():
    run = check({"training": {"method": "sgd"}, "audit": ({"attack": "loss"},)})
    assert run.training.clip_norm == 1.0
    with pytest.raises(Exception, match="frozen"):
        run.training.method = "dp-sgd"


@pytest.mark.parametrize(
    ("tables", "advice"),
    [
        (
            {"training": {"method": "sgd", "clip_nrom": 2.0}},
            "unknown key 'training.clip_nrom', did you mean 'clip_norm'?",
        ),
        ({"trainig": {}}, "did you mean 'training'?"),
        ({"training": {}}, "'training.method' is missing"),
        (
            {"training": {"method": "sgd", "clip_norm": "1e-5"}},
            "'training.clip_norm': input should be a valid number",
        ),
        ({"training": {"method": "sgd"}, "audit": ({"atack": "x"},)}, "did you mean 'attack'?"),
        ({"training": {"method": "sgd", "zzz": 1}}, "known: clip_norm, method"),
    ],
)
def test_wrong_configuration_says_what_to_do(tables, advice):
    with pytest.raises(ConfigError) as caught:
        check(tables)
    assert advice in str(caught.value)
    assert str(caught.value).startswith("run.toml: ")


def test_flags_override_the_file_and_absent_flags_do_not():
    tables = {"training": {"method": "sgd", "clip_norm": 2.0}}
    merged = override(tables, {"training": {"method": "dp-sgd", "clip_norm": None}, "seed": 3})
    assert merged == {"training": {"method": "dp-sgd", "clip_norm": 2.0}, "seed": 3}
    assert tables == {"training": {"method": "sgd", "clip_norm": 2.0}}


def test_a_file_that_is_nested_too_deeply_is_refused(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text("seed = " + "[" * 5000, encoding="utf8")
    with pytest.raises(ConfigError, match="nested too deeply"):
        read_toml(path)


def test_toml_errors_name_the_file_and_the_line(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text("[training\n")
    with pytest.raises(ConfigError, match=r"run\.toml: not TOML.*line 1"):
        read_toml(path)
    path.write_bytes(b"a = '\xff'")
    with pytest.raises(ConfigError, match="UTF-8"):
        read_toml(path)
    with pytest.raises(ConfigError, match="no such file"):
        read_toml(tmp_path / "absent.toml")
    path.write_text("delta = 1e-5")
    assert read_toml(path) == {"delta": 1e-5}
