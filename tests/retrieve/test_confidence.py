"""Confidence of an answer, measured with the bundled model in a small folder.

Seen to fail with the limit for large collections alone (no foreign question was noticed), without
the check that the best document has all words (a word in a long page was doubted), and with a limit
for small folders at which nearly every question in other words was doubted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

import pytest

from lookfar.library import Library

PAGES = {
    "backup.md": "Snapshots are written every night and kept for thirty days. To restore a"
    " snapshot, stop the server, run restore with the name of the snapshot, and start it again.",
    "login.md": "Users sign in with a password and a code from their phone. After five wrong"
    " passwords an account is locked for ten minutes; an administrator can unlock it earlier.",
    "upload.md": "Files up to two gigabytes can be uploaded. Larger files are split into parts,"
    " and an interrupted upload continues with the first part that is missing.",
    "prices.md": "The price depends on the number of seats. A month that has begun is billed in"
    " full, and seats that are added later are billed by the day.",
    "export.md": "Reports are exported as spreadsheets. The columns follow the order of the page,"
    " and dates have the format of the reader's country.",
}
ABOUT_THEM = (
    "how do I restore a snapshot",
    "account locked after wrong passwords",
    "continue an interrupted upload",
    "how are seats billed that are added later",
    "exported",
)
IN_OTHER_WORDS = (
    ("how much may a hotel cost", "travel.md"),
    ("how many holidays do I get", "leave.md"),
    ("what rebate can I give a customer", "discounts.md"),
)
HANDBOOK = {
    "travel.md": "Flights and trains are booked through the portal at least fourteen days ahead."
    " Overnight stays are reimbursed up to 140 EUR per night in cities and 110 EUR elsewhere.",
    "leave.md": "Employees have thirty days of paid leave a year. Unused vacation days expire at"
    " the end of March.",
    "discounts.md": "Representatives may grant buyers a discount of ten percent. More needs the"
    " consent of the head of sales.",
    "vpn.md": "Install the client, import the profile, and sign in with your second factor.",
    "printers.md": "They are on every floor next to the kitchen. Hold your badge to the reader.",
    "parking.md": "The garage opens at six. Places are assigned weekly by lot.",
    "canteen.md": "Lunch is served from half past eleven to two. There is always a vegan dish.",
    "rooms.md": "They are reserved in the calendar, and released ten minutes after the start.",
    "contracts.md": "Offers are valid for sixty days, and terms renew unless they are cancelled.",
    "releases.md": "We ship every second Tuesday. The branch is frozen on Friday.",
    "onboarding.md": "A buddy accompanies new colleagues. They get a laptop and access to mail.",
    "security.md": "Disks are encrypted. Report a lost device to the help desk at once.",
}
FOREIGN = (
    "Which glacier feeds the river Rhone in Switzerland?",
    "How long must bread dough rest before baking?",
    "Who composed the opera about Figaro's wedding?",
    "What vaccine protects against measles and mumps?",
)


def write_pages(folder: Path, pages: Mapping[str, str]) -> None:
    for name, text in pages.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# {path.stem.title()}\n\n{text}\n", encoding="utf-8")


@pytest.fixture(scope="module")
def handbook(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    base = tmp_path_factory.mktemp("handbook")
    write_pages(base / "files", HANDBOOK)
    with Library.open(
        base / "files", index_dir=base / "index", settings={"index.workers": 1}
    ) as opened:
        yield opened


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    base = tmp_path_factory.mktemp("confidence")
    folder = base / "handbook"
    folder.mkdir()
    for name, text in PAGES.items():
        (folder / name).write_text(f"# {name[:-3].title()}\n\n{text}\n", encoding="utf-8")
    filler = "The office is open on weekdays and closed on holidays. " * 60
    long = f"# Office\n\n{filler}\n\nAsk Rosalind about parking.\n\n{filler}\n"
    (folder / "office.md").write_text(long, encoding="utf-8")
    with Library.open(folder, index_dir=base / "index", settings={"index.workers": 1}) as opened:
        yield opened


@pytest.mark.parametrize("question", ABOUT_THEM)
def test_a_question_with_an_answer_is_not_doubted(library: Library, question: str) -> None:
    answer = library.search(question)
    assert answer.confidence in ("high", "medium")
    assert "nothing_relevant" not in {note.reason for note in answer.incomplete}


@pytest.mark.parametrize("question", FOREIGN)
def test_a_foreign_question_gets_three_hits_and_plain_words(
    library: Library, question: str
) -> None:
    answer = library.search(question)
    assert answer.confidence == "low"
    assert 0 < len(answer.hits) <= 3
    assert "No passage fits well" in str(answer.incomplete[-1])


def test_a_word_of_a_long_page_is_not_doubted(library: Library) -> None:
    answer = library.search("Rosalind")
    assert answer.hits[0].uri == "office.md"
    assert answer.confidence != "low"


def test_vectors_alone_have_no_confidence(library: Library) -> None:
    assert library.search("restore a snapshot", mode="vector").confidence is None


def test_doubt_can_be_turned_off(tmp_path: Path) -> None:
    settings = {"index.workers": 1, "search.doubt": False}
    other = tmp_path / "pages"
    other.mkdir()
    for name, text in PAGES.items():
        (other / name).write_text(f"# {name}\n\n{text}\n", encoding="utf-8")
    with Library.open(other, index_dir=tmp_path / "index", settings=settings) as opened:
        answer = opened.search(FOREIGN[0])
    assert answer.confidence is None
    assert len(answer.hits) > 3


def test_a_pasted_text_is_not_doubted(library: Library) -> None:
    """Its title alone says too little. Seen to fail when the title was judged like a question."""
    issue = "Measles vaccine\n\n" + "The opera about Figaro was composed in Vienna. " * 10
    answer = library.search(issue)
    assert answer.confidence is None
    assert "nothing_relevant" not in {note.reason for note in answer.incomplete}


@pytest.mark.parametrize(("question", "uri"), IN_OTHER_WORDS)
def test_an_answer_in_other_words_is_not_doubted(
    handbook: Library, question: str, uri: str
) -> None:
    answer = handbook.search(question)
    assert uri in [hit.uri for hit in answer.hits[:3]]
    assert answer.confidence != "low"


@pytest.mark.parametrize("question", FOREIGN)
def test_foreign_questions_are_doubted_in_a_handbook_too(handbook: Library, question: str) -> None:
    assert handbook.search(question).confidence == "low"


@pytest.mark.parametrize("question", ["Travel", "travel.md", "Rooms", "discounts"])
def test_a_title_is_not_doubted(handbook: Library, question: str) -> None:
    answer = handbook.search(question)
    assert answer.hits[0].title.casefold().startswith(question[:5].casefold())
    assert answer.confidence != "low"


@pytest.mark.parametrize("question", ["Broker.tick", "where is Broker.tick defined"])
def test_a_definition_is_not_doubted(tmp_path: Path, question: str) -> None:
    """The definition has no word of the question but its name, and notes have the name, too.

    Seen to fail when only words and meaning were judged.
    """
    folder = tmp_path / "files"
    body = "".join(f"        self.parcels.append(weigh(cargo[{at}]))\n" for at in range(40))
    others = "".join(f"    def load_{at}(self):\n{body}\n" for at in range(30))
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "broker.py").write_text(f"class Broker:\n{others}    def tick(self):\n{body}")
    notes = {f"notes/{at}.md": f"Day {at}: Broker.tick was late. " * 20 for at in range(60)}
    write_pages(folder, notes)
    settings = {"index.workers": 1}
    with Library.open(folder, index_dir=tmp_path / "index", settings=settings) as opened:
        answer = opened.search(question)
    assert answer.hits[0].uri == "src/broker.py"
    assert "def tick" in answer.hits[0].text
    assert answer.confidence != "low"


def test_high_confidence_needs_a_lead(tmp_path: Path) -> None:
    """Seen to fail when only the fit was judged: the thirty pages were rated high."""
    pages = {
        f"tenant-{at}.md": f"Tenant number {at} may export invoices as spreadsheets every month."
        for at in range(30)
    } | {"garden.md": "Roses are cut in March, above the third bud, with a clean blade."}
    write_pages(tmp_path / "files", pages)
    settings = {"index.workers": 1}
    with Library.open(
        tmp_path / "files", index_dir=tmp_path / "index", settings=settings
    ) as opened:
        assert opened.search("when are roses cut").confidence == "high"
        assert opened.search("which tenant may export invoices").confidence == "medium"


@pytest.mark.parametrize("mode", ["hybrid", "keyword"])
@pytest.mark.parametrize("question", ["frobnicateAll", "snapshot", "how are seats billed", "vpn"])
def test_hits_without_a_score_are_not_shown(
    library: Library, mode: Literal["hybrid", "keyword"], question: str
) -> None:
    """Seen to fail when the least candidate, whose scaled score is 0, was shown as well."""
    answer = library.search(question, mode=mode, top_k=50)
    assert [hit.uri for hit in answer.hits if f"{hit.score:.3f}" == "0.000"] == []
