"""A name leads to its definition, whatever else mentions it, in every mode."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from lookfar.library import Library
from lookfar.model import Filters, Hit, Mode
from lookfar.retrieve.question.names import find_names
from lookfar.retrieve.question.plan import make_plan
from sample_files import write_files

pytestmark = pytest.mark.usefixtures("own_home")

FILES = {
    "README.md": "# Harbour\n\nOpen a ClientSession, and ClientSession again: ClientSession.\n"
    "Boats moor. Set mooring_grace_period in the environment.\n",
    "src/session.py": '''"""Sessions."""


class ClientSession:
    """Talks to a harbour."""

    def __init__(self, login, password):
        self.login = login

    def invoke(self, boat):
        def tracking_popen(command):
            return command

        return tracking_popen(boat)


def moor(boat):
    return boat
''',
    "src/auth.py": "def login_with_token(session, password):\n    return session, password\n\n\n"
    "def auth_session(token):\n    return token\n",
    "src/__init__.py": "from src.session import ClientSession as ClientSession\n",
    "src/uses.py": "from src.session import ClientSession\n\n\n"
    + "".join(
        f"def use_{n}(session):\n    return ClientSession({n}, ClientSession), moor({n})\n\n\n"
        for n in range(12)
    ),
    "tests/test_session.py": "class ClientSession:\n    pass\n\n\nclass moor:\n    pass\n\n\n"
    "def test_moor():\n    moor(1)\n",
    "notes.md": "# Notes\n\ntracking_popen, tracking_popen, tracking_popen.\n",
    "lib/ring.h": "#define RING_LIMIT 3\nint ring_size(void);\nint ring_push(int value);\n",
    "lib/ring.c": '#include "ring.h"\n\nint ring_size(void) { return RING_LIMIT; }\n\n'
    "int ring_push(int value)\n{\n    return value;\n}\n",
    "web/app.js": "exports.harbourLimit = 10;\nexports.moorAll = function moorAll() {};\n",
    "web/examples/user.js": "exports.berth = function (request, response) {\n  render();\n};\n",
    "web/berth.js": "function Berth(name) {\n  this.name = name;\n}\nmodule.exports = Berth;\n",
    "rb/base.rb": "module Port\n  module Helpers\n    def dock\n      1\n    end\n  end\nend\n",
    **{
        f"rb/{name}.rb": f"module Port\n  module {name.title()}\n"
        "    # Port::Helpers, more Port Helpers.\n    module Helpers\n"
        "      def dock\n        2\n      end\n    end\n  end\nend\n"
        for name in ("crane", "pilot", "buoy", "quay", "lock", "gate")
    },
    "cs/Ledger.cs": "public partial class Ledger\n{\n"
    + "".join(f"    public int Sum{n}() {{ return {n} + rate * months; }}\n" for n in range(9))
    + "}\n",
    "cs/Ledger.Settings.cs": "// Ledger: settings of a Ledger.\npublic partial class Ledger\n{\n"
    "    public static class Settings { public static int Ledger = 2; }\n}\n",
    "go/kinds.go": "package kinds\n\nconst (\n\tKindBoat = iota\n\tKindShip\n)\n",
}


@pytest.fixture
def library(tmp_path: Path) -> Iterator[Library]:
    write_files(tmp_path / "project", FILES)
    settings = {
        "embed.provider": "hash",
        "index.workers": 1,
        "chunk.merge_small": False,
        "search.candidates": 10,
    }
    with Library.open(
        tmp_path / "project", index_dir=tmp_path / "index", settings=settings
    ) as opened:
        yield opened


def first(library: Library, question: str, mode: Mode = "hybrid", **filters: str) -> Hit:
    return library.search(question, mode=mode, filters=Filters(**filters)).hits[0]  # type: ignore[arg-type]


def holds(hit: Hit, place: str) -> bool:
    """Return whether a hit shows a line, given as ``file:line``."""
    uri, _, line = place.partition(":")
    return hit.uri == uri and hit.span.start_line <= int(line) <= hit.span.end_line


LEADS = {
    "ClientSession": "src/session.py:4",
    "where is ClientSession defined?": "src/session.py:4",
    "how does `ClientSession` keep the password": "src/session.py:4",
    "ClientSession.invoke": "src/session.py:10",
    "what does moor do": "src/session.py:17",
    "moor()": "src/session.py:17",
    "ring_size": "lib/ring.c:3",
    "ring_push": "lib/ring.c:5",
    "where is RING_LIMIT defined": "lib/ring.h:1",
    "harbourLimit": "web/app.js:1",
    "KindShip": "go/kinds.go:5",
    "berth": "web/berth.js:1",
    "Port::Helpers": "rb/base.rb:2",
    "Ledger": "cs/Ledger.cs:1",
    "tracking_popen": "src/session.py:11",
    "how does tracking_popen work": "src/session.py:11",
    "what is mooring_grace_period for": "README.md:1",
}


@pytest.mark.parametrize("mode", get_args(Mode))
def test_name_leads_to_its_definition(library: Library, mode: Mode) -> None:
    """Code comes before its tests and re-exports, and definitions before declarations. What the
    parser did not record is found by its line, and a name in only one file is found there.

    Fails without the last stage, without definitions as candidates, without tiers, and without
    looking at lines.
    """
    firsts = {question: first(library, question, mode) for question in LEADS}
    missed = {
        question: hit.uri for question, hit in firsts.items() if not holds(hit, LEADS[question])
    }
    assert missed == {}


def test_filtered_definition_is_not_added(library: Library) -> None:
    """Fails if definitions are looked up without the filters."""
    assert holds(first(library, "ClientSession", prefix="tests/"), "tests/test_session.py:1")
    assert first(library, "ClientSession", glob="*.md").uri == "README.md"


def test_step_explains_the_match(library: Library) -> None:
    hit = library.search("ClientSession", explain=True).hits[0]
    assert "it defines ClientSession" in [step.note for step in hit.explanation]
    assert hit.score < 3


def test_definition_is_raised_no_more_than_needed(library: Library) -> None:
    """Fails with a fixed boost: the others would look irrelevant."""
    hits = library.search("RING_LIMIT", top_k=5).hits
    assert hits[0].uri == "lib/ring.h"
    assert hits[0].score - hits[1].score <= hits[0].score / 2


def list_names(question: str) -> list[tuple[str, bool]]:
    plan = make_plan(question, mode="keyword", top_k=5, filters=Filters(), embedder=None)
    return [(".".join(name.parts), name.alone) for name in find_names(plan)]


@pytest.mark.parametrize(
    ("question", "names"),
    [
        ("echo", [("echo", True)]),
        ("module", [("module", True)]),
        ("where is echo defined", [("echo", True)]),
        ("how does Context work?", [("Context", True)]),
        ("get_user", [("get_user", True)]),
        ("a::b_c", [("a.b_c", True)]),
        ("why does getUser fail for admins", [("getUser", False)]),
        ("what calls `echo` after a reload", [("echo", False)]),
        ("what calls echo() after a reload", [("echo", False)]),
        ("Request type and HTTP response in Vapor", []),
        ("rotate the signing key, e.g. monthly", []),
        ("how do U.S. rivers flow", []),
        ("a_b c_d e_f g_h i_j are too many", []),
        ("日本語の質問", [("日本語の質問", True)]),
        ("???", []),
    ],
)
def test_which_words_are_names(question: str, names: list[tuple[str, bool]]) -> None:
    """Fails if every capitalised word is a name."""
    assert list_names(question) == names


def test_parts_of_a_name_are_not_topics() -> None:
    """``ClientSession`` is not about authentication, although ``session`` is one of its words.
    Fails if all terms of the question are topics."""
    plan = make_plan(
        "ClientSession of error-handling", mode="keyword", top_k=5, filters=Filters(), embedder=None
    )
    assert "session" in plan.terms
    assert "session" not in plan.topics
    assert "error" in plan.topics
