"""Memories on disk: writes persist, replaced versions can be restored, nothing is lost."""

from __future__ import annotations

import json
import subprocess
import sys
import unicodedata
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from lookfar.edit.memories import MemoryFolder
from lookfar.edit.memory_file import MAX_BYTES, TYPES, slug
from lookfar.errors import InvalidArgument, LookfarError, NotFound, OutsideRoot


@pytest.fixture
def notes(tmp_path: Path) -> MemoryFolder:
    return MemoryFolder(tmp_path / "memory")


def raw(notes: MemoryFolder, name: str) -> bytes:
    return (notes.folder / name).read_bytes()


def journal(notes: MemoryFolder) -> list[dict[str, Any]]:
    lines = (notes.folder / ".trash" / "journal.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


# --- against a model ------------------------------------------------------------------------------

TEXTS = st.text(
    alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\0\r"), max_size=60
).filter(lambda text: bool(text.strip()) and bool(text.strip("\n").strip()))
TAGS = st.lists(st.sampled_from(["a", "b", "net", "größe"]), max_size=3, unique=True)


class AgainstAModel(RuleBasedStateMachine):
    """Every operation, in any order, gives what a dictionary of lists would."""

    names = Bundle("names")

    def __init__(self) -> None:
        super().__init__()
        self.notes = MemoryFolder(Path(mkdtemp()) / "memory")
        self.alive: dict[str, tuple[str, tuple[str, ...]]] = {}
        self.trash: dict[str, list[tuple[str, tuple[str, ...]]]] = {}

    def _retire(self, name: str) -> None:
        self.trash.setdefault(name, []).append(self.alive[name])

    @rule(target=names, text=TEXTS, title=st.text(max_size=20), tags=TAGS)
    def create(self, text: str, title: str, tags: list[str]) -> str:
        made = self.notes.create(text, title=title, tags=tags, author="tester")
        assert made.name not in self.alive
        assert made.name not in self.trash
        self.alive[made.name] = (text.strip("\n"), tuple(tags))
        return made.name

    @rule(name=names, text=TEXTS)
    def update(self, name: str, text: str) -> None:
        if name not in self.alive:
            with pytest.raises(NotFound):
                self.notes.update(name, text)
            return
        self.notes.update(name, text, author="tester")
        self._retire(name)
        self.alive[name] = (text.strip("\n"), self.alive[name][1])

    @rule(name=names, tags=TAGS)
    def tag(self, name: str, tags: list[str]) -> None:
        if name in self.alive:
            self.notes.update(name, tags=tags)
            self._retire(name)
            self.alive[name] = (self.alive[name][0], tuple(tags))

    @rule(name=names, text=TEXTS)
    def append(self, name: str, text: str) -> None:
        if name in self.alive:
            self.notes.append(name, text)
            self._retire(name)
            before, tags = self.alive[name]
            self.alive[name] = (f"{before}\n\n{text.strip(chr(10))}", tags)

    @rule(name=names)
    def delete(self, name: str) -> None:
        if name not in self.alive:
            with pytest.raises(NotFound):
                self.notes.delete(name)
            return
        self.notes.delete(name)
        self._retire(name)
        del self.alive[name]

    @rule(name=names)
    def restore(self, name: str) -> None:
        if not self.trash.get(name):
            with pytest.raises(NotFound):
                self.notes.restore(name)
            return
        self.notes.restore(name)
        back = self.trash[name].pop()
        if name in self.alive:
            self._retire(name)
        self.alive[name] = back

    @rule(target=names, one=consumes(names), other=names, text=TEXTS)
    def merge(self, one: str, other: str, text: str) -> str:
        sources = [item for item in dict.fromkeys((one, other)) if item in self.alive]
        if not sources:
            return other
        made = self.notes.merge(sources, sources[0], text)
        tags = tuple(dict.fromkeys(tag for item in sources for tag in self.alive[item][1]))
        for item in sources:
            self._retire(item)
            del self.alive[item]
        self.alive[made.name] = (text.strip("\n"), tags)
        return made.name

    @invariant()
    def the_folder_is_the_model(self) -> None:
        result = {memory.name: (memory.text, memory.tags) for memory in self.notes.memories()}
        assert result == self.alive
        kept = {name: len(versions) for name, versions in self.trash.items() if versions}
        numbers: dict[str, int] = {}
        for entry in self.notes.trash():
            numbers[entry.name] = numbers.get(entry.name, 0) + 1
            assert entry.deleted == (entry.name not in self.alive)
        assert numbers == kept
        assert self.notes.stats().total == len(self.alive)


AgainstAModel.TestCase.settings = settings(
    max_examples=40, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck)
)
test_operations_agree_with_a_model = AgainstAModel.TestCase


# --- names ----------------------------------------------------------------------------------------


@given(st.text(max_size=300))
@settings(max_examples=300, deadline=None)
def test_any_title_makes_a_safe_name(title: str) -> None:
    """Protects against a title that leads out of the folder or names a device."""
    stem = slug(title)
    assert stem == unicodedata.normalize("NFC", stem)
    assert stem.strip("-. ") == stem != ""
    assert not set(stem) & set('/\\:*?"<>|\0\n.')
    assert len(stem.encode()) <= 110
    assert stem not in ("con", "nul", "com1", "lpt9", "aux", "prn")


@pytest.mark.parametrize(
    "name",
    ["../x", "a/b.md", "..", ".", "a\\b", "/etc/passwd", "x/../../y", ".trash/x.000001.md"],
)
def test_a_path_is_not_a_name(notes: MemoryFolder, name: str) -> None:
    notes.create("kept", name="kept")
    for call in (
        lambda: notes.create("text", name=name),
        lambda: notes.read(name),
        lambda: notes.append(name, "text"),
        lambda: notes.delete(name),
        lambda: notes.restore(name),
        lambda: notes.merge(["kept"], name, "text"),
    ):
        with pytest.raises(OutsideRoot):
            call()
    assert [memory.name for memory in notes.memories()] == ["kept.md"]


@pytest.mark.parametrize(
    "name", ["", " ", ".hidden", "a\0b", "nul", "COM1.md", "a:b", "x" * 300, "x.", "a.000001"]
)
def test_names_that_are_invalid_on_some_system_are_rejected(notes: MemoryFolder, name: str) -> None:
    if name:
        with pytest.raises(InvalidArgument):
            notes.create("text", name=name)
    with pytest.raises(InvalidArgument):
        notes.read(name)


def test_equal_titles_make_two_memories(notes: MemoryFolder) -> None:
    """Also where the first one is in the trash: restoring it must not meet the second."""
    first = notes.create("one", title="Why we retry")
    second = notes.create("two", title="why we RETRY")
    notes.delete(first.name)
    third = notes.create("three", title="Why we retry")
    assert [first.name, second.name, third.name] == [
        "why-we-retry.md",
        "why-we-retry-2.md",
        "why-we-retry-3.md",
    ]
    assert notes.restore(first.name).text == "one"


def test_a_name_in_use_is_rejected_in_any_case(notes: MemoryFolder) -> None:
    notes.create("one", name="Plan")
    with pytest.raises(InvalidArgument, match="already"):
        notes.create("two", name="plan.md")
    assert notes.read("PLAN").text == "one"


def test_an_ending_in_capitals_is_an_ending(notes: MemoryFolder) -> None:
    """Seen to fail when only ``.md`` was cut off: each version took the place of the last one,
    and what was deleted was in the trash under an unexpected name."""
    notes.folder.mkdir()
    (notes.folder / "Note.MD").write_text("one\n", encoding="utf-8")
    assert notes.read("Note").title == "Note"
    notes.update("Note.MD", "two")
    notes.update("note", "three")
    notes.delete("Note.md")
    trash = [(entry.name, entry.version, entry.deleted) for entry in notes.trash()]
    assert trash == [("Note.MD", number, True) for number in (1, 2, 3)]
    assert notes.restore("note", version=1).text == "one"
    assert notes.restore("Note").text == "three"
    assert notes.restore("Note.MD", version=2).text == "two"
    assert [memory.name for memory in notes.memories()] == ["Note.MD"]
    assert notes.create("new", name="Other.MD").name == "Other.md"


def twins(notes: MemoryFolder, *names: str) -> None:
    """Memories by hand whose names differ in case, with one earlier version each."""
    notes.folder.mkdir()
    for name in names:
        (notes.folder / name).write_text(f"{name} 1\n", encoding="utf-8")
    if len(notes.memories()) < len(names):
        pytest.skip("this disk does not tell case apart")
    for name in names:
        notes.update(name, f"{name} 2")


@pytest.mark.parametrize("names", [("Note.md", "note.md"), ("note.MD", "note.md")])
def test_memories_that_differ_in_case_are_never_restored_from_each_other(
    notes: MemoryFolder, names: tuple[str, str]
) -> None:
    """Seen to fail when the versions were looked up by their folded names, when the memory to
    restore was, and when the ending of a name was not kept."""
    twins(notes, *names)
    for name in names:
        assert notes.read(name).text == f"{name} 2"
        restored = notes.restore(name)
        assert (restored.name, restored.text) == (name, f"{name} 1")
    for name, other in (names, names[::-1]):
        notes.delete(name)
        assert {entry.name for entry in notes.trash() if entry.deleted} == {name}
        restored = notes.restore(name)
        assert (restored.name, restored.text) == (name, f"{name} 1")
        assert notes.read(other).text == f"{other} 1"


def test_a_memory_does_not_use_versions_of_a_similar_name(notes: MemoryFolder) -> None:
    """Seen to fail when versions of existing memories were candidates."""
    twins(notes, "Note.md", "note.md")
    (notes.folder / ".trash" / "Note.000001.md").unlink()
    with pytest.raises(NotFound):
        notes.restore("Note")
    assert notes.read("note").text == "note.md 2"


def test_a_memory_renamed_by_hand_keeps_its_versions(notes: MemoryFolder) -> None:
    """In another case, that is; seen to fail when names were only compared exactly."""
    notes.create("one", name="note")
    notes.update("note", "two")
    (notes.folder / "note.md").rename(notes.folder / "Note.md")
    restored = notes.restore("Note")
    assert (restored.name, restored.text) == ("Note.md", "one")


def test_trash_versions_never_collide_on_case_insensitive_disks(notes: MemoryFolder) -> None:
    """Some disks take both for one; seen to fail when each name was counted for itself."""
    for name in ("note", "Note", "NOTE"):
        notes.create(name, name=name)
        notes.delete(name)
    kept = [path.name.lower() for path in (notes.folder / ".trash").glob("*.md")]
    assert sorted(kept) == ["note.000001.md", "note.000002.md", "note.000003.md"]
    assert notes.restore("Note").text == "Note"


# --- what a file says -----------------------------------------------------------------------------


def test_a_memory_records_author_and_time(notes: MemoryFolder) -> None:
    times = iter(range(1_700_000_000, 1_700_000_100, 10))
    notes = MemoryFolder(notes.folder, clock=lambda: float(next(times)))
    made = notes.create("x", title="T: \"q\" 'r' # é\n---", type="plan", tags=["#a", "b c"],
                        author="agent-1")  # fmt: skip
    assert (made.type, made.status, made.author) == ("plan", "active", "agent-1")
    assert made.title == "T: \"q\" 'r' # é ---"
    assert made.tags == ("a", "b c")
    assert made.created_at == made.updated_at == "2023-11-14T22:13:20Z"
    again = notes.append(made.name, "y", author="agent-2")
    assert (again.created_at, again.author) == (made.created_at, "agent-1")
    assert again.updated_at > made.updated_at
    assert b"updated_by: " in raw(notes, made.name)
    assert b"agent-2" in raw(notes, made.name)
    assert [(item["did"], item["by"]) for item in journal(notes)] == [
        ("create", "agent-1"),
        ("append", "agent-2"),
    ]


@pytest.mark.parametrize("wrong", ["", "  \n ", "a\0b", "\ud800"])
def test_invalid_memory_texts_are_rejected(notes: MemoryFolder, wrong: str) -> None:
    notes.create("one", name="one")
    calls: list[Callable[[], object]] = [
        lambda: notes.create(wrong),
        lambda: notes.append("one", wrong),
    ]
    for call in calls:
        with pytest.raises(InvalidArgument):
            call()
    assert notes.trash() == []


def test_a_memory_stays_small_enough_to_be_indexed(notes: MemoryFolder) -> None:
    notes.create("x" * (MAX_BYTES - 1000), name="big")
    before = raw(notes, "big.md")
    with pytest.raises(InvalidArgument, match="bytes"):
        notes.append("big", "y" * 2000)
    assert raw(notes, "big.md") == before
    assert notes.trash() == []


def test_unknown_types_and_statuses_are_rejected(notes: MemoryFolder) -> None:
    assert TYPES == ("plan", "journal", "fact", "observation", "reflection")
    with pytest.raises(InvalidArgument) as refused:
        notes.create("x", type="secret")
    assert refused.value.details["validOptions"] == list(TYPES)
    with pytest.raises(InvalidArgument) as state:
        notes.create("x", status="lost")
    assert state.value.details["validOptions"] == ["active", "archived"]
    assert not notes.memories()
    for type in TYPES:
        notes.create("x", name=type, type=type)
    assert notes.update("plan", status="archived").status == "archived"
    assert [memory.name for memory in notes.memories(status="archived")] == ["plan.md"]


# --- what people wrote ----------------------------------------------------------------------------

HEAD = (
    b"---\r\n# mine\r\ntype:   fact # really\r\ntags:\r\n  - a\r\n\r\n  - b\r\n"
    b"other: {x: [1, 2]}\r\n---\r\n"
)


def test_edited_front_matter_is_kept_line_by_line(notes: MemoryFolder) -> None:
    """Protects comments, spacing, line ends and unknown keys of users who edit by hand."""
    notes.create("x", name="seed")
    (notes.folder / "hand.md").write_bytes(b"\xef\xbb\xbf" + HEAD + b"body \xff\r\n")
    assert notes.read("hand").tags == ("a", "b")
    notes.append("hand", "more\nlines", author="me")
    after = raw(notes, "hand.md")
    assert after.startswith(b"\xef\xbb\xbf" + HEAD[: -len(b"---\r\n")])
    assert after.endswith(b"---\r\nbody \xff\r\n\r\nmore\r\nlines\r\n")
    notes.update("hand", tags=["c"])
    changed = raw(notes, "hand.md")
    assert b'tags: ["c"]\r\nother: {x: [1, 2]}\r\n' in changed
    assert b"# mine\r\ntype:   fact # really\r\n" in changed
    assert b"\n" not in changed.replace(b"\r\n", b"")
    notes.update("hand", "new")
    assert raw(notes, "hand.md").endswith(b"---\r\n\r\nnew\r\n")


BROKEN = [
    b"---\ntype: [\n---\nbody\n",
    b"---\ntype: fact\ntype: plan\n---\nbody\n",
    b"---\na: &x 1\nb: *x\n---\nbody\n",
    b"---\ntags: [a,\nb]\ntype: fact\n---\nbody\n",
    b"---\n{type: fact}\n---\nbody\n",
    b"+++\ntype = 'fact'\n+++\nbody\n",
    b"---\ntype: fact\nbody without an end\n",
    b"---\nkey: " + b"x" * 20_000 + b"\n---\nbody\n",
    b"\xffbroken\x80",
    b"",
    b"just text, no end",
    b"---\n---",
    b"---\ntype: fact\n---",
]


@pytest.mark.parametrize("content", BROKEN, ids=range(len(BROKEN)))
def test_broken_front_matter_is_never_touched_and_never_fatal(
    notes: MemoryFolder, content: bytes
) -> None:
    notes.create("x", name="seed")
    (notes.folder / "hand.md").write_bytes(content)
    assert notes.read("hand").name == "hand.md"
    assert len(notes.memories()) == 2
    notes.append("hand", "more")
    after = raw(notes, "hand.md")
    assert after.endswith(b"\n\nmore\n") or (content == b"" and after == b"\nmore\n")
    kept = after[: -len(b"more\n")].rstrip(b"\n")
    if b"updated_at" not in after:
        assert kept == content.rstrip(b"\n")
    assert notes.read("hand").text.endswith("more")
    notes.restore("hand")
    assert raw(notes, "hand.md") == content
    if b"[a,\nb]" in content:  # Its lines end where no line of ours would: only others change.
        with pytest.raises(InvalidArgument, match="front matter"):
            notes.update("hand", tags=["c"])
        assert raw(notes, "hand.md") == content
    if notes.read("hand").warnings or content.startswith(b"+"):
        with pytest.raises(InvalidArgument, match="front matter"):
            notes.update("hand", type="plan")
        assert raw(notes, "hand.md") == content
    elif b"{type" not in content:
        notes.update("hand", type="plan")
        assert notes.read("hand").type == "plan"
    notes.update("hand", "new text")
    assert notes.read("hand").text.endswith("new text")


@pytest.mark.parametrize("before", [b"old\n", b"old\r\nlines\r\n", b"\n---\na: 1\n---\n", b""])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize(
    "text",
    [
        "new",
        "---\ntype: plan\n---\nhello",
        "+++\ntype = 'plan'\n+++\nhello",
        "---\ntype: plan",
        "\ufeffmarked",
    ],
)
def test_a_text_without_front_matter_stays_one_and_keeps_its_mark(
    notes: MemoryFolder, before: bytes, mark: bytes, text: str
) -> None:
    """Seen to fail without the mark, and without the blank line before such a text."""
    notes.folder.mkdir()
    (notes.folder / "hand.md").write_bytes(mark + before)
    updated = notes.update("hand", text)
    assert (updated.text, updated.type) == (text, "")
    assert notes.read("hand") == updated
    end = b"\r\n" if b"\r" in before else b"\n"
    blank = b"" if text == "new" else end
    assert raw(notes, "hand.md") == mark + blank + text.encode().replace(b"\n", end) + end


def test_a_file_in_another_encoding_is_not_damaged(notes: MemoryFolder) -> None:
    """Editors on Windows may write UTF-16; bytes of UTF-8 behind it would make it unreadable."""
    notes.create("x", name="seed")
    content = "Grüße".encode("utf-16")
    (notes.folder / "hand.md").write_bytes(content)
    assert notes.read("hand").text == "Grüße"
    calls: list[Callable[[], object]] = [
        lambda: notes.append("hand", "y"),
        lambda: notes.update("hand", "y"),
    ]
    for call in calls:
        with pytest.raises(InvalidArgument, match="UTF-16"):
            call()
    assert raw(notes, "hand.md") == content


@given(
    st.binary(max_size=200).filter(lambda raw: raw[:2] not in (b"\xff\xfe", b"\xfe\xff")),
    st.sampled_from([b"", b"---\n", b"---\r\ntype: "]),
)
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_bytes_can_be_read_appended_to_and_restored(content: bytes, head: bytes) -> None:
    notes = MemoryFolder(Path(mkdtemp()) / "memory")
    notes.create("x", name="seed")
    (notes.folder / "hand.md").write_bytes(head + content)
    notes.memories()
    notes.append("hand", "more")
    assert b"more" in raw(notes, "hand.md")
    notes.restore("hand")
    assert raw(notes, "hand.md") == head + content


def test_links_and_folders_are_not_memories(notes: MemoryFolder, tmp_path: Path) -> None:
    """Protects against a link that shows, or lets us write, what lies elsewhere."""
    secret = tmp_path / "secret.md"
    secret.write_text("secret", encoding="utf-8")
    notes.create("x", name="seed")
    (notes.folder / "linked.md").symlink_to(secret)
    (notes.folder / "folder.md").mkdir()
    assert [memory.name for memory in notes.memories()] == ["seed.md"]
    for name in ("linked", "folder"):
        with pytest.raises(NotFound):
            notes.read(name)
        with pytest.raises(NotFound):
            notes.append(name, "y")
    assert secret.read_text(encoding="utf-8") == "secret"


def test_a_trash_that_is_a_link_is_rejected(tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "memory", tmp_path / "elsewhere"
    folder.mkdir()
    elsewhere.mkdir()
    (folder / ".trash").symlink_to(elsewhere)
    with pytest.raises(OutsideRoot):
        MemoryFolder(folder).create("x")
    assert list(elsewhere.iterdir()) == []


def test_earlier_versions_are_kept_up_to_a_number(notes: MemoryFolder) -> None:
    """The latest ones; and the first can be asked for by its number while it is there."""
    notes.create("0", name="n")
    for number in range(1, 31):
        notes.update("n", str(number))
    versions = [entry.version for entry in notes.trash()]
    assert versions == list(range(11, 31))
    assert notes.restore("n", version=15).text == "14"
    with pytest.raises(NotFound):
        notes.restore("n", version=3)


def test_cited_documents_are_kept_with_their_hashes(tmp_path: Path) -> None:
    notes = MemoryFolder(tmp_path / "m", cites=lambda text: {"a.md": str(len(text))})
    notes.create("four", name="n")
    assert b'cites: {"a.md": "4"}' in raw(notes, "n.md")
    notes.append("n", "x")
    assert b'cites: {"a.md": "7"}' in raw(notes, "n.md")


# --- several at once ------------------------------------------------------------------------------


def test_threads_lose_nothing(notes: MemoryFolder) -> None:
    """Appends to one file, new files of one title and updates, all at once."""
    notes.create("begin", name="shared")

    def work(number: int) -> None:
        own = MemoryFolder(notes.folder)
        own.append("shared", f"line {number}.")
        own.create(f"own {number}", title="same title")
        own.update("shared", tags=[f"t{number}"])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(10)))
    lines = notes.read("shared").text.split("\n\n")
    assert sorted(lines[1:]) == sorted(f"line {number}." for number in range(10))
    texts = {memory.text for memory in notes.memories()} - {notes.read("shared").text}
    assert texts == {f"own {number}" for number in range(10)}


CHILD = """
import sys
from lookfar.edit.memories import MemoryFolder
notes = MemoryFolder(sys.argv[1])
for number in range(10):
    notes.append("shared", f"{sys.argv[2]}-{number}.", author=sys.argv[2])
    notes.create(f"{sys.argv[2]} {number}", title="same")
"""


def test_processes_lose_nothing(notes: MemoryFolder) -> None:
    notes.create("begin", name="shared")
    children = [
        subprocess.Popen([sys.executable, "-c", CHILD, str(notes.folder), name])
        for name in ("one", "two", "three")
    ]
    assert [child.wait(120) for child in children] == [0, 0, 0]
    lines = notes.read("shared").text.split("\n\n")
    expected = {f"{name}-{number}." for name in ("one", "two", "three") for number in range(10)}
    assert set(lines[1:]) == expected
    assert len(lines) == 31
    assert notes.stats().total == 31
    assert len(journal(notes)) == 61


def test_an_editor_that_saves_meanwhile_is_not_overwritten(
    notes: MemoryFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A save between our reading and our writing is taken up, not lost."""
    notes.create("begin", name="n")
    path = notes.folder / "n.md"
    saved = iter([True])
    read = MemoryFolder._bytes

    def interrupted(self: MemoryFolder, name: str) -> bytes:
        result = read(self, name)
        if next(saved, False):
            path.write_bytes(result.replace(b"begin", b"saved by hand"))
        return result

    monkeypatch.setattr(MemoryFolder, "_bytes", interrupted)
    notes.append("n", "more")
    assert notes.read("n").text == "saved by hand\n\nmore"


def test_a_reader_never_sees_half_a_file(notes: MemoryFolder) -> None:
    notes.create("a" * 50_000, name="n")
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(lambda: [notes.update("n", c * 50_000) for c in "bcdefgh" * 4])
        while not writing.done():
            text = notes.read("n").text
            assert len(text) == 50_000
            assert len(set(text)) == 1
        writing.result()


def test_a_missing_memory_lists_the_nearest(notes: MemoryFolder) -> None:
    assert notes.memories() == []
    assert notes.trash() == []
    notes.create("x", name="why-we-retry")
    with pytest.raises(NotFound) as refused:
        notes.read("why-we-retries")
    assert refused.value.details["candidates"] == ["why-we-retry.md"]
    notes.delete("why-we-retry")
    with pytest.raises(NotFound) as gone:
        notes.read("why-we-retry")
    assert "trash" in gone.value.hint
    assert issubclass(NotFound, LookfarError)


def test_a_merge_names_its_sources_and_needs_all_of_them(notes: MemoryFolder) -> None:
    notes.create("one", name="one", type="plan", tags=["a"])
    notes.create("two", name="two", type="plan", tags=["b"])
    with pytest.raises(NotFound):
        notes.merge(["one", "nowhere"], "both", "joint")
    assert notes.stats().total == 2
    made = notes.merge(["one", "two"], "both", "joint", author="me")
    assert (made.type, made.tags, made.text) == ("plan", ("a", "b"), "joint")
    assert [memory.name for memory in notes.memories()] == ["both.md"]
    assert b'merged_from: ["one.md", "two.md"]' in raw(notes, "both.md")
    assert notes.restore("one").text == "one"
    notes.create("x", name="taken")
    with pytest.raises(InvalidArgument):
        notes.merge(["one"], "taken", "joint")
    with pytest.raises(InvalidArgument):
        notes.merge([], "none", "joint")


# --- what a crash leaves --------------------------------------------------------------------------

KILLED = """
import os, signal, sys
from lookfar.edit.memories import MemoryFolder
from lookfar.store.ground import files

def die(what, name, size):
    if what == "rename" and name == sys.argv[2]:
        os.kill(os.getpid(), signal.SIGKILL)
    return size

files.on_fault_point = die
notes = MemoryFolder(sys.argv[1])
if sys.argv[3] == "create":
    notes.create("New.", title="Second")
else:
    notes.update("first.md", text="Changed.")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="kill -9")
@pytest.mark.parametrize(
    ("dies_at", "how"),
    [("second.md", "create"), ("first.md", "update"), ("first.000001.md", "update")],
)
def test_temporary_files_of_a_killed_writer_are_removed(
    notes: MemoryFolder, dies_at: str, how: str
) -> None:
    """Seen to fail when only a write of the same name took its temporary file away."""
    notes.create("Text.", title="First")
    theirs = notes.folder / ".own-notes.tmp"
    theirs.write_text("Not ours.", encoding="utf-8")
    command = [sys.executable, "-c", KILLED, str(notes.folder), dies_at, how]
    assert subprocess.run(command, check=False).returncode == -9
    assert [path.name for path in notes.folder.rglob(".*.md.tmp")] == [f".{dies_at}.tmp"]
    notes.create("Text.", title="Third")
    assert list(notes.folder.rglob(".*.md.tmp")) == []
    assert theirs.exists()
    assert {memory.name for memory in notes.memories()} == {"first.md", "third.md"}
