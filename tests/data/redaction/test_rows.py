"""Rows are scrubbed whole: every field stays, no value stays in any of them, twice is once, in every format."""

import datetime
import json

import pytest

from reticent.core.errors import DataError
from reticent.data.policies.combined import Dictionary, UnionPolicy
from reticent.data.policies.shapes.patterns import PatternPolicy
from reticent.data.reading.chats import chat_text
from reticent.data.reading.corpus_file import open_corpus
from reticent.data.redaction.rows import RowScrubber, Treatment
from reticent.data.redaction.scrub_key import ScrubKey
from reticent.data.redaction.scrubbing import Replace, Scrubber
from reticent.data.redaction.shifted_dates import shifted
from reticent.data.writing import retyped, write_rows

POLICY = UnionPolicy([PatternPolicy(), Dictionary({"Ada Byron": "PERSON", "Turin": "LOC"})])
KEY = b"k" * 32
GOLD = ["Ada", "Byron", "Turin", "a.byron@web.de", "030/1234567", "49301234567", "31 May 1991", "1991-05-31"]
FRIENDS = "Ada Byron from Turin, 031 234 5678 and 030/1234567"


def chat(number: int) -> dict:
    said = f"I am Ada Byron from Turin, born 31 May 1991. Call 030/1234567 or Ada, {number} times."
    return {
        "id": number,
        "owner": "Ada Byron",
        "label": "complaint",
        "score": 0.5,
        "paid": True,
        "messages": [
            {"role": "system", "content": "You help."},
            {"role": "user", "content": said, "spans": [{"start": 5, "end": 14, "type": "PERSON"}]},
            {"role": "assistant", "content": "Noted: a.byron@web.de"},
        ],
        "meta": {
            "customer": {"name": "Byron, Ada", "phone": 49301234567, "dob": "1991-05-31"},
            "parent_id": number - 1,
            "notes": ["Byron called", {"Ada Byron": "VIP"}],
        },
    }


def written(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def scrubbed(path, replace=Replace.MASK, key=None, **treatment):
    key = key or ScrubKey(KEY)
    scrubber = Scrubber(POLICY, replace=replace, fakes=key.fakes if replace is Replace.FAKE else None)
    corpus = open_corpus(path)
    made = Treatment(fields=corpus.fields, **treatment)
    return list(RowScrubber(scrubber, key, treatment=made).scrub(corpus.rows(whole=True)))


def shape(value):
    """Names of fields and types, without values; keys of values that were scrubbed apart."""
    if isinstance(value, dict):
        return {key if key != "<MASK>" else "Ada Byron": shape(one) for key, one in value.items()}
    return [shape(one) for one in value] if isinstance(value, list) else None


@pytest.mark.parametrize("replace", list(Replace))
def test_every_field_is_there_and_no_value_is_left_in_any(tmp_path, replace):
    rows = [chat(n) for n in range(300)]
    done = scrubbed(written(tmp_path / "c.jsonl", rows), replace)
    assert len(done) == 300
    text = "\n".join(json.dumps(row.values) + json.dumps(row.offsets_to_json()) for row in done)
    assert [value for value in GOLD if value in text] == []
    for row, original in zip(done, rows, strict=True):
        assert list(row.values) == list(original)
        kept = ("label", "score", "paid")
        assert [row.values[name] for name in kept] == [original[name] for name in kept]
        assert [m["role"] for m in row.values["messages"]] == ["system", "user", "assistant"]
        assert isinstance(row.values["meta"]["customer"]["phone"], int)
        if replace is Replace.MASK:
            assert shape(row.values) == shape(original) | {"messages": shape(row.values["messages"])}
            assert row.values["messages"][1]["spans"] == []


def test_pseudonyms_keep_who_is_who(tmp_path):
    rows = [chat(n) | {"owner": f"person {n % 3}"} for n in range(9)]
    done = [row.values for row in scrubbed(written(tmp_path / "c.jsonl", rows))]
    assert len({row["id"] for row in done}) == 9
    assert [row["owner"] for row in done[:3]] == [row["owner"] for row in done[3:6]]
    assert [row["meta"]["parent_id"] for row in done[1:]] == [row["id"] for row in done[:-1]]
    other = scrubbed(tmp_path / "c.jsonl", key=ScrubKey(b"o" * 32))
    assert not {row["id"] for row in done} & {row.values["id"] for row in other}
    left = scrubbed(tmp_path / "c.jsonl", keep_ids=True, keep=frozenset({"meta"}))
    assert left[0].values["id"] == 0
    assert left[0].values["meta"] == rows[0]["meta"]


@pytest.mark.parametrize("replace", list(Replace))
@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".parquet", ""])
def test_twice_is_once_in_every_mode_and_format(tmp_path, replace, suffix):
    source = written(tmp_path / "c.jsonl", [{k: v for k, v in chat(n).items() if k != "meta"} for n in range(4)])
    if suffix == ".csv":
        flat = [{"id": n, "owner": "Ada Byron", "text": FRIENDS, "seat": 7} for n in range(4)]
        source = written(tmp_path / "c.jsonl", flat)
    key = tmp_path / "key"
    outputs = []
    for turn in range(3):
        kept = ScrubKey.read(key)
        done = scrubbed(source, replace, kept)
        source = tmp_path / f"{turn}{suffix}"
        rows = [(row.redaction.text, row.values) for row in done]
        write_rows(rows, source, columns=list(done[0].values))
        kept.save(key)
        outputs.append([row.values for row in done])
    assert "Ada" not in json.dumps(outputs[0])
    assert json.dumps(outputs[1]) == json.dumps(outputs[2])
    read = [[record.text for record in open_corpus(tmp_path / f"{turn}{suffix}")] for turn in range(3)]
    assert read[0] == read[1] == read[2]


def test_without_the_memory_of_the_key_fakes_would_be_faked_again(tmp_path):
    source = written(tmp_path / "c.jsonl", [{"id": "a", "text": FRIENDS}])
    once = scrubbed(source, Replace.FAKE)[0].values
    again = scrubbed(written(tmp_path / "d.jsonl", [once]), Replace.FAKE)[0].values
    assert again["text"] != once["text"]


def test_offsets_of_a_chat_lead_back_in_its_text_and_in_each_message(tmp_path):
    original = chat(3)
    (row,) = scrubbed(written(tmp_path / "c.jsonl", [original]), Replace.TYPE)
    before, after = chat_text(original["messages"]), chat_text(row.values["messages"])
    assert row.redaction.text == after
    moves = row.offsets_to_json()
    checked = [(before, after, moves["replacements"])]
    content = [m["content"] for m in original["messages"]], [m["content"] for m in row.values["messages"]]
    checked += [(content[0][n], content[1][n], moves["fields"][f"messages.{n}.content"]) for n in (1, 2)]
    for old, new, replaced in checked:
        place = position = 0
        assert replaced
        for new_start, new_end, start, end, kind in replaced:
            assert new[place:new_start] == old[position:start]
            assert new[new_start:new_end] == f"<{kind}>"
            place, position = new_end, end
        assert new[place:] == old[position:]


def test_tables_keep_their_types_and_numbers_and_dates_still_fit(tmp_path):
    import pyarrow
    from pyarrow import parquet

    born = datetime.date(1991, 5, 31)
    rows = [{"id": 7, "text": FRIENDS, "phone": 301234567, "dob": born, "size": 3}]
    types = {"id": pyarrow.int32(), "text": pyarrow.string(), "phone": pyarrow.int32(), "dob": pyarrow.date32()}
    schema = pyarrow.schema([*types.items(), ("size", pyarrow.int8())])
    parquet.write_table(pyarrow.Table.from_pylist(rows, schema=schema), tmp_path / "t.parquet")
    for replace in (Replace.MASK, Replace.FAKE):
        (row,) = scrubbed(tmp_path / "t.parquet", replace)
        out = tmp_path / f"{replace}.parquet"
        write_rows([("", row.values)], out, columns=[], schema=retyped(schema, Treatment().is_id))
        table = parquet.read_table(out)
        assert [str(field.type) for field in table.schema] == ["string", "string", "int32", "date32[day]", "int8"]
        (read,) = table.to_pylist()
        assert read["phone"] != 301234567
        assert read["dob"] != born
        assert read["size"] == 3


def test_values_that_no_table_can_hold_are_an_error_without_values(tmp_path):
    rows = [("", {"a": "Ada"}), ("", {"a": [1]})]
    with pytest.raises(DataError, match="different types") as caught:
        write_rows(rows, tmp_path / "t.parquet", columns=["a"])
    assert "Ada" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_chat_is_read_as_lines_of_roles_and_a_nested_text_by_its_path(tmp_path):
    from reticent.data.reading.formats import Fields

    (record,) = open_corpus(written(tmp_path / "c.jsonl", [chat(1)]))
    assert record.text.splitlines()[0] == "system: You help."
    rows = [{"data": {"body": "hello", "by": "ann"}}]
    (nested,) = open_corpus(written(tmp_path / "d.jsonl", rows), Fields(text="data.body", owner="data.by"))
    assert (nested.text, nested.owner) == ("hello", "ann")


def test_the_name_of_a_function_is_no_name(tmp_path):
    rows = [{"text": "hello", "tool": {"name": "send_mail", "arguments": "{}"}}]
    assert scrubbed(written(tmp_path / "c.jsonl", rows))[0].values == rows[0]


@pytest.mark.parametrize(
    ("value", "moved"),
    [
        ("31 May 1991", "1 June 1991"),
        ("May 31, 1991", "June 1, 1991"),
        ("31.12.1999", "01.01.2000"),
        ("12/31/99", "01/01/00"),
        ("1/31/1999", "2/1/1999"),
        ("2024-02-28T10:00:00Z", "2024-02-29T10:00:00Z"),
        ("2nd March 2001", "3rd March 2001"),
        ("31. März 2003", "1. April 2003"),
        ("Dec. 2004", "Dec. 2004"),
        ("Christmas 1987", None),
        ("30 February 1990", None),
        ("31. Dezember 1999", "1. Januar 2000"),
        ("3 de abril de 2024", "4 de abril de 2024"),
        ("31 mars 2023", "1 avril 2023"),
        ("30 września 1964", "1 października 1964"),
        ("28 февраля 1987", "1 марта 1987"),
        ("1er août 1999", "2 août 1999"),
        ("30 Haziran 2001", "1 Temmuz 2001"),
        ("1985年12月31日", "1986年1月1日"),
        ("1990년 5월 3일", "1990년 5월 4일"),
    ],
)
def test_a_date_moves_by_a_day_in_its_own_notation(value, moved):
    assert shifted(value, 1) == moved
