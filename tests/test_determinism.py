"""Same corpus, settings and question: the same bytes, whichever process and however built."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

QUESTIONS = (
    "how do I bake bread",
    "oven temperature",
    "def knead",
    "flour -rye",
    '"cold cellar" dough',
    "bred ovn",
    "steam and crust",
)
EVERYTHING_ON = {
    "fusion": "rrf",
    **dict.fromkeys(
        ("dynamic_weights", "recency", "communities", "join_neighbours", "mmr", "dedup_ngram",
         "dedup_semantic", "expansion", "concepts", "parents", "adaptive"),
        True,
    ),
}  # fmt: skip


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Pages that link to each other, with many ties, and some code."""
    folder = tmp_path / "corpus"
    folder.mkdir()
    for number in range(24):
        flour = ("rye", "wheat", "spelt")[number % 3]
        (folder / f"page{number:02}.md").write_text(
            f"# Bread {number % 6}\n\nSee [[page{(number * 7) % 24:02}]]. Bake {flour} flour with"
            f" steam in the oven.\n\n## Crust\n\nA cold cellar keeps dough {number % 4}.\n"
        )
    (folder / "knead.py").write_text('def knead(dough):\n    """Fold it."""\n    return dough\n')
    return folder


def environment(seed: str) -> dict[str, str]:
    kept = {name: told for name, told in os.environ.items() if not name.startswith("LOOKFAR_")}
    return {**kept, "PYTHONHASHSEED": seed}


def answers(
    corpus: Path,
    index: Path,
    seed: str,
    settings: Mapping[str, object] | None = None,
    *,
    rebuild: bool = False,
) -> str:
    """What one process says to all questions, one JSON line each."""
    script = (
        "import json, sys\n"
        "from lookfar import Library\n"
        "from lookfar.serve.show import json_shapes\n"
        "corpus, index, settings, rebuild, *questions = sys.argv[1:]\n"
        "with Library.open(corpus, index_dir=index, settings=json.loads(settings)) as library:\n"
        "    library.index(rebuild=rebuild == 'True')\n"
        "    for question in questions:\n"
        "        shape = json_shapes.answer(library.search(question, explain=True), explain=True)\n"
        "        print(json.dumps([shape['hits'], shape['incomplete']]))\n"
    )
    explicit = json.dumps({f"search.{key}": value for key, value in (settings or {}).items()})
    done = subprocess.run(
        [sys.executable, "-c", script, str(corpus), str(index), explicit, str(rebuild), *QUESTIONS],
        env=environment(seed),
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    return done.stdout


@pytest.mark.parametrize("settings", [{}, EVERYTHING_ON], ids=["default", "everything on"])
def test_processes_and_rebuilds_answer_alike(
    corpus: Path, tmp_path: Path, settings: Mapping[str, object]
) -> None:
    """Seen to fail with a set of terms that ``plan`` went through in an order which follows the
    process.
    """
    first = answers(corpus, tmp_path / "one", "1", settings)
    assert first.count("\n") == len(QUESTIONS)
    assert '"uri"' in first
    assert answers(corpus, tmp_path / "one", "2", settings) == first
    assert answers(corpus, tmp_path / "two", "3", settings) == first


def test_an_index_that_was_built_anew_answers_as_one_built_at_once(
    corpus: Path, tmp_path: Path
) -> None:
    """An index that grew weighs words also by the earlier texts that it keeps; rebuilding it
    leaves no trace of how it came about.
    """
    kept = {path: path.read_text() for path in sorted(corpus.iterdir())}
    later = list(kept)[::3]
    for path in later:
        path.write_text("# Something else\n\nNot yet.\n")
    answers(corpus, tmp_path / "grown", "1")
    for path in later:
        path.write_text(kept[path])
    anew = answers(corpus, tmp_path / "grown", "1", rebuild=True)
    assert anew == answers(corpus, tmp_path / "once", "1")


def test_equals_come_in_one_order_however_the_index_is_cut_up(tmp_path: Path) -> None:
    """Many pages that say the same, in an index of many segments, whose order is a matter of
    chance. Seen to fail (about half the time with two indexes, so here are five) when the best
    were cut off among equals.
    """
    folder = tmp_path / "corpus"
    folder.mkdir()
    told = set()
    script = (
        "import sys\n"
        "from pathlib import Path\n"
        "from lookfar import Library\n"
        "folder, index = map(Path, sys.argv[1:])\n"
        "settings = {'embed.provider': 'hash', 'search.mode': 'keyword'}\n"
        "with Library.open(folder, index_dir=index, settings=settings) as library:\n"
        "    for turn in range(7):\n"
        "        for number in range(40):\n"
        "            text = f'# Page {turn} {number}\\n\\nthe same steam\\n'\n"
        "            (folder / f'{turn}-{number}.md').write_text(text)\n"
        "        library.index()\n"
        "    print([hit.uri for hit in library.search('steam', top_k=50).hits])\n"
    )
    for number in range(5):
        shutil.rmtree(folder)
        folder.mkdir()
        done = subprocess.run(
            [sys.executable, "-c", script, str(folder), str(tmp_path / str(number))],
            env=environment("1"),
            capture_output=True,
            text=True,
            timeout=300,
            check=True,
        )
        told.add(done.stdout)
    assert len(told) == 1
    assert told.pop().count(".md") == 50


def test_weights_are_added_in_one_order_whatever_the_hash_seed() -> None:
    """Fails if a sum runs over a set: its last digits decide between hits of equal score."""
    script = (
        "from collections import Counter\n"
        "from types import SimpleNamespace\n"
        "from lookfar.ports import Statistics\n"
        "from lookfar.retrieve.retrievers.candidates import measure_rarity\n"
        "terms = [f'word{number}' for number in range(40)]\n"
        "counts = Counter({('page', term): 3 + 7 * at for at, term in enumerate(terms)})\n"
        "snapshot = SimpleNamespace(statistics=lambda _: Statistics(1_000, counts))\n"
        "plan = SimpleNamespace(terms=terms, replacements=(), names={})\n"
        "print(repr(measure_rarity([(plan, snapshot)])))\n"
    )
    printed = {
        subprocess.run(
            [sys.executable, "-c", script],
            env=environment(str(seed)),
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in range(1, 6)
    }
    assert len(printed) == 1
