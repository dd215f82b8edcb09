"""Files of judged questions: what they may say, and what is refused at which line."""

from __future__ import annotations

from pathlib import Path

import pytest

from lookfar.errors import InvalidArgument, IOFailed, NotFound
from lookfar.evaluate.judged import Judged, Relevant, format_questions, read_judged
from lookfar.model import Filters

GOOD = '{"query": "good", "relevant": ["a.md"]}'


def file(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "questions.jsonl"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_a_file_in_full(tmp_path: Path) -> None:
    path = file(
        tmp_path,
        '{"query": "undo a release", "relevant": ["r.md#Roll back", {"uri": "x.md", "grade": 2}]}',
        "",
        '{"id": 7, "query": "Schlüssel\u2028", "relevant": ["k.md", {"uri": "no.md", "grade": 0}],'
        ' "category": "keys", "filters": {"prefix": "security/", "kinds": ["docs"]}}',
    )
    assert read_judged(path) == [
        Judged(
            "undo a release",
            "undo a release",
            (Relevant("r.md#Roll back"), Relevant("x.md", 2.0)),
            place="questions.jsonl, line 1",
        ),
        Judged(
            "7",
            "Schlüssel\u2028",
            (Relevant("k.md"),),
            "keys",
            Filters(prefix="security/", lanes=("docs",)),
            "questions.jsonl, line 3",
        ),
    ]


def test_every_filter_is_known(tmp_path: Path) -> None:
    filters = (
        '{"prefix": "p", "glob": "g", "heading": "h", "touches": "t", "branch": "b",'
        ' "uris": ["u"], "tags": ["t"], "kinds": ["commits"], "languages": ["python"],'
        ' "authors": ["a"]}'
    )
    line = f'{{"query": "q", "relevant": ["a"], "filters": {filters}}}'
    (questions,) = read_judged(file(tmp_path, line))
    assert questions.filters == Filters(
        prefix="p", glob="g", heading="h", touches="t", branch="b", uris=("u",), tags=("t",),
        lanes=("commits",), languages=("python",), authors=("a",),
    )  # fmt: skip


def test_written_questions_read_back_equal(tmp_path: Path) -> None:
    judged = [
        Judged("1", "one", (Relevant("a.md"), Relevant("b.md#B", 2.5)), "kind"),
        Judged("2", "zwei\n„x“", (Relevant("c.md"),), filters=Filters(tags=("t",), glob="*.md")),
    ]
    path = tmp_path / "made.jsonl"
    path.write_text(format_questions(judged), encoding="utf-8")
    assert [(j.id, j.query, j.relevant, j.category, j.filters) for j in read_judged(path)] == [
        (j.id, j.query, j.relevant, j.category, j.filters) for j in judged
    ]


def test_windows_line_ends_and_a_byte_order_mark_are_accepted(tmp_path: Path) -> None:
    path = tmp_path / "questions.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + GOOD.encode() + b"\r\n\r\n")
    assert [question.query for question in read_judged(path)] == ["good"]


BAD = [
    ("[1]", "not a JSON object"),
    ("{", "not JSON"),
    ("[" * 100_000, "not JSON"),
    ('{"relevant": ["a"]}', "the query must be a non-empty string"),
    ('{"query": "", "relevant": ["a"]}', "the query must be a non-empty string"),
    ('{"query": 5, "relevant": ["a"]}', "non-empty string"),
    ('{"query": "\\ud800", "relevant": ["a"]}', "lone surrogate"),
    ('{"query": "q", "relevant": "a"}', '"relevant" must be a list'),
    ('{"query": "q", "relevant": []}', "no entry with a grade above 0"),
    ('{"query": "q", "relevant": [{"uri": "a", "grade": 0}]}', "no entry with a grade above 0"),
    ('{"query": "q", "relevant": [""]}', 'every entry of "relevant"'),
    ('{"query": "q", "relevant": [3]}', 'every entry of "relevant"'),
    ('{"query": "q", "relevant": ["a", "a"]}', "'a' is twice in"),
    ('{"query": "q", "relevant": [{"path": "a"}]}', 'only "uri" and "grade"'),
    ('{"query": "q", "relevant": [{"uri": "a", "grade": "2"}]}', "grade must be a number"),
    ('{"query": "q", "relevant": [{"uri": "a", "grade": true}]}', "grade must be a number"),
    ('{"query": "q", "relevant": [{"uri": "a", "grade": -1}]}', "between 0 and 1000"),
    ('{"query": "q", "relevant": [{"uri": "a", "grade": NaN}]}', "between 0 and 1000"),
    ('{"query": "q", "relevant": ["a"], "relevent": []}', "unknown key 'relevent'"),
    ('{"query": "q", "relevant": ["a"], "category": 1}', "category must be a string"),
    ('{"query": "q", "relevant": ["a"], "id": []}', "the id must be a non-empty string"),
    ('{"query": "q", "relevant": ["a"], "filters": []}', '"filters" must be an object'),
    ('{"query": "q", "relevant": ["a"], "filters": {"lang": "x"}}', "unknown filter 'lang'"),
    ('{"query": "q", "relevant": ["a"], "filters": {"tags": "x"}}', "tags must be a list"),
    ('{"query": "q", "relevant": ["a"], "filters": {"glob": 1}}', "filter glob"),
    ('{"query": "q", "relevant": ["a"], "filters": {"kinds": ["x"]}}', "unknown kind 'x'"),
    ('{"query": "q"}', "no qrels.tsv next to"),
    (GOOD, "duplicate id 'good' (first: questions.jsonl, line 1)"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "message"), BAD)
def test_a_bad_line_is_named(tmp_path: Path, line: str, message: str) -> None:
    path = file(tmp_path, GOOD, "", line)
    with pytest.raises(InvalidArgument) as caught:
        read_judged(path)
    assert caught.value.message.startswith("questions.jsonl, line 3: ")
    assert message in caught.value.message
    assert caught.value.hint
    assert caught.value.details["line"] == 3


def test_unreadable_files_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="There is no file"):
        read_judged(tmp_path / "absent.jsonl")
    with pytest.raises(IOFailed):
        read_judged(tmp_path)
    with pytest.raises(InvalidArgument, match="contains no questions"):
        read_judged(file(tmp_path, "", "  "))
    (tmp_path / "latin.jsonl").write_bytes(GOOD.encode() + b'\n{"query": "\xfc"}\n')
    with pytest.raises(InvalidArgument, match="line 2: this is not UTF-8"):
        read_judged(tmp_path / "latin.jsonl")


# --- question sets ----------------------------------------------------------------------------


def question_set(tmp_path: Path, qrels: str) -> Path:
    (tmp_path / "qrels.tsv").write_text(qrels, encoding="utf-8")
    path = tmp_path / "queries.jsonl"
    path.write_text('{"_id": "q1", "text": "one"}\n{"_id": "q2", "text": "two", "more": 1}\n')
    return path


def test_a_question_set(tmp_path: Path) -> None:
    path = question_set(tmp_path, "q1\ta\t1\nq2\tb/c\t2\nq1\td\t0\nq1\te\t1\nother\tx\t1\n")
    assert [(question.id, question.query, question.relevant) for question in read_judged(path)] == [
        ("q1", "one", (Relevant("a"), Relevant("e"))),
        ("q2", "two", (Relevant("b/c", 2.0),)),
    ]


@pytest.mark.parametrize(
    ("qrels", "message"),
    [
        ("q1\ta\t1\n", 'queries.jsonl, line 2: no "relevant", and qrels.tsv has no'),
        ("q1\ta\t1\nq2 b 1\n", "qrels.tsv, line 2: expected three columns"),
        ("q1\ta\tyes\n", "qrels.tsv, line 1: the gain 'yes' is not a number"),
        ("q1\ta\t-1\n", "qrels.tsv, line 1: a grade must be between"),
        ("q1\ta\tnan\n", "qrels.tsv, line 1: a grade must be between"),
    ],
)
def test_a_bad_question_set_is_refused(tmp_path: Path, qrels: str, message: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        read_judged(question_set(tmp_path, qrels))
    assert caught.value.message.startswith(message)
