"""Turn text into keyword terms, separated by single spaces; shared by indexing and querying.

Compounds give the whole in lower case followed by its parts: ``getUserById``, ``foo_bar``,
``real-time``, ``os.path``, ``1.0.21``. English words are lightly stemmed. Chinese, Japanese and
Korean runs give every character and every pair of neighbours, because they have no spaces.
The terms of each run of text are cached, because documentation repeats its words.
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise

# Han, kana, hangul, bopomofo, and the marks that only occur between them.
_CJK = (
    "\u1100-\u11ff\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3041-\u3096\u309d-\u309f"
    "\u30a1-\u30fa\u30fc-\u30ff\u3105-\u312f\u3131-\u318e\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf"
    "\u4e00-\u9fff\ua960-\ua97c\uac00-\ud7fb\uf900-\ufaff\U00020000-\U000323af"
)
# Accents, and the points of Hebrew and Arabic, which people omit when they type a query.
_ACCENTS = "\u0300-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u064b-\u065f\u0670"
# Vowel signs of Indic and South-East Asian scripts are not \w but are part of words.
_SIGNS = "\u0900-\u0903\u093a-\u094f\u0980-\u0dff\u0e31\u0e34-\u0e4e\u0eb1-\u0ece"
_MARKS = _ACCENTS + _SIGNS

_RUN = re.compile(rf"[\w{_MARKS}]+(?:(?:[-.']|::)[\w{_MARKS}]+)*(?:\+\+|#(?!\w))?")
_ASCII_RUN = re.compile(r"\w+(?:(?:[-.']|::)\w+)*(?:\+\+|#(?!\w))?", re.ASCII)
# ASCII that cannot be part of a run is blanked in UTF-8, so that a text splits without a regex.
_KEPT = frozenset(string.ascii_letters + string.digits + "_-.':+#")
_BLANKED = bytes(code if code >= 128 or chr(code) in _KEPT else ord(" ") for code in range(256))
_JOINTS = re.compile(r"[-.']|::")
_COMPOUND = re.compile(r"(?!_)\w+(?:[-.]\w+)+(?<!_)", re.ASCII)
CLINGING = "-.':"
"""Punctuation if at either end of a run."""
_SCRIPTS = re.compile(rf"[{_CJK}]+|[^{_CJK}]+")
# Acronyms first, with a plural ``s``: ``parseURLs`` is ``parse URLs``.
_PARTS = re.compile(
    rf"[A-Z]{{2,}}s(?![a-z])|[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|(?:[^\W\d_A-Za-z]|[{_SIGNS}])+"
)
# The same for ASCII, where a search is twice as quick.
_ASCII_PARTS = re.compile(r"[A-Z]{2,}s(?![a-z])|[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_WORDLESS = re.compile(r"[^\w\s\x00-\x7f]{32,}")
# The katakana long vowel mark, typed as some kind of dash.
_DASHED = re.compile("(?<=[\u30a1-\u30fa\u30fc\uff66-\uff9f])[\u2010-\u2015\u2212\uff0d]+")
# Variation selectors, which only choose the shape of a character.
_SELECTORS = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]")
_CJK_CHARACTER = re.compile(rf"[{_CJK}]")

TERMS = 3
"""Raise this whenever the same text would give other terms or entries of the keyword index."""

LONGEST_TERM = 64
_CACHED_LENGTH = 32
_CACHED_RUNS = 200_000
_CACHED_PARTS = 1 << 13
"""Different words share their parts: ``userName`` and ``user_id``. With eight times as
many, 93 instead of 90 % of the parts in code are known, for 11 MB more in every worker."""


class _Expansions(dict[str, str]):
    """Caches the terms of each word; cleared when full."""

    def __missing__(self, word: str) -> str:
        bare = word.strip(CLINGING)
        expanded = expand(word) if bare == word else self[bare]
        if len(word) <= _CACHED_LENGTH:
            if len(self) >= _CACHED_RUNS:
                self.clear()
            self[word] = expanded
        return expanded


_expansions = _Expansions()


def forget_words() -> None:
    """Release the memory of words that were analysed; they are analysed again when they occur."""
    _expansions.clear()
    _part_term.cache_clear()


def analyse(text: str) -> str:
    """Return all terms of ``text`` in order, separated by spaces."""
    return " ".join(filter(None, map(_expansions.__getitem__, split_words(text))))


def split_words(text: str) -> list[str]:
    """Split where no term can be: the terms of a text are those of its words, in order.

    Words keep the punctuation that may be part of a term, and all that is not ASCII.
    """
    blanked = text.encode("utf-8", "surrogatepass").translate(_BLANKED)
    return blanked.decode("utf-8", "surrogatepass").split()


def expand(word: str) -> str:
    """Return the terms of one word, separated by spaces; ``analyse`` caches them."""
    if word.isascii():
        bare = word.strip(CLINGING)
        if bare.isalpha() and (bare.islower() or bare[1:].islower()):
            return stem(bare.lower())[:LONGEST_TERM]  # The usual case.
        if bare.replace("_", "").isalnum():
            return " ".join(_word_terms(bare))  # One run, without joints.
        runs = _ASCII_RUN.findall(bare)
    else:
        runs = _RUN.findall(_normalise(word))
    return " ".join(filter(None, map(_expand, runs)))


def split_compound(word: str) -> Sequence[str]:
    """Return the components of a name such as ``os.path`` or ``make_path``; none of other words.

    The terms of such a word are the whole in lower case, without ``_`` at its ends, followed by
    those of each component.
    """
    if len(word) > LONGEST_TERM:
        return ()
    if word.islower() and word.isascii() and word.replace("_", "").isalpha():
        components = [part for part in word.split("_") if part]
        return components if len(components) > 1 else ()
    return word.replace("-", ".").split(".") if _COMPOUND.fullmatch(word) else ()


def _normalise(text: str) -> str:
    plain = _SELECTORS.sub("", _DASHED.sub("\u30fc", _WORDLESS.sub(_without_marks, text)))
    normal = unicodedata.normalize("NFKC", plain)
    return normal.replace("\u2019", "'")


def terms_of(text: str) -> list[str]:
    """Return the distinct terms of a query in the order of their first appearance."""
    return list(dict.fromkeys(analyse(text).split()))


def names_in(text: str) -> dict[str, tuple[str, ...]]:
    """Return the compound names of a query, each with its parts that do not occur on their own."""
    names: dict[str, tuple[str, ...]] = {}
    alone: set[str] = set()
    for run in _by_run(text):
        first, *others = run.split() or [""]
        alone.add(first)
        # In a CJK run, pairs and characters are the terms themselves, not parts of a name.
        if others and not has_cjk(run):
            names[first] = tuple(others)
        else:
            alone.update(others)
    return {
        name: tuple(part for part in parts if part not in alone) for name, parts in names.items()
    }


def _by_run(text: str) -> list[str]:
    if text.isascii():
        return [_expansions[run] for run in _ASCII_RUN.findall(text)]
    return [_expand(run) for run in _RUN.findall(_normalise(text))]


def has_cjk(text: str) -> bool:
    return not text.isascii() and _CJK_CHARACTER.search(text) is not None


def _without_marks(stacked: re.Match[str]) -> str:
    """Drop stacked marks: no letter has so many, and normalising them takes quadratic time."""
    return "".join(mark for mark in stacked[0] if not unicodedata.combining(mark))


def _expand(run: str) -> str:
    if run.isascii():
        return " ".join(_word_terms(run))
    terms: list[str] = []
    for piece in _SCRIPTS.findall(run):
        if _CJK_CHARACTER.match(piece):
            terms += _cjk_terms(piece)
        else:
            terms += _word_terms(_fold_accents(piece))
    return " ".join(terms)


def _word_terms(run: str) -> Iterable[str]:
    """Return the whole run, and its parts if it has several."""
    run = run.strip("_.-'").removesuffix("'s").removesuffix("'S")
    whole = run.lower()
    if whole.isalpha() and (run.islower() or run[1:].islower()):
        return (stem(whole)[:LONGEST_TERM],)
    components = [part for part in _JOINTS.split(run) if part] if _JOINTS.search(run) else ()
    if len(components) > 1:
        # Each component is a name of its own, such as the method in `k8sApi.listNamespacedPod`.
        terms = [term for component in components for term in _word_terms(component)]
        return [whole, *terms] if len(whole) <= LONGEST_TERM else terms
    parts = (_ASCII_PARTS if run.isascii() else _PARTS).findall(run)
    if len(parts) == 1 and (len(parts[0]) == 1 or parts[0] == run):
        return (_part_term(run),)
    terms = [*map(_part_term, parts)]
    if whole.isalpha() and (stemmed := stem(whole)) != whole:
        terms.insert(0, stemmed)
    if 0 < len(whole) <= LONGEST_TERM:
        terms.insert(0, whole)
    return terms


@lru_cache(_CACHED_PARTS)
def _part_term(part: str) -> str:
    if part[-1] == "s" and part[:-1].isupper():
        return part[:-1].lower()[:LONGEST_TERM]  # APIs, IDs, URLs
    return stem(part.lower())[:LONGEST_TERM]


def _cjk_terms(run: str) -> list[str]:
    terms: list[str] = []
    for left, right in pairwise(run):
        terms += (left, left + right)
    terms.append(run[-1])
    return terms


def _fold_accents(word: str) -> str:
    """Remove accents, so that ``cafe`` finds ``café``."""
    return _ACCENT.sub("", unicodedata.normalize("NFKD", word))


_ACCENT = re.compile(f"[{_ACCENTS}]")
_VOWELS = frozenset("aeiouy")
_IRREGULAR = {
    "alias": "alias", "atlas": "atlas", "bias": "bias", "canvas": "canvas", "https": "https",
    "lens": "lens", "always": "always", "embed": "embed", "embeds": "embed", "axes": "axis",
    "analysis": "analys", "indices": "index", "vertices": "vertex", "matrices": "matrix",
    "appendices": "appendix", "guaranteed": "guarantee", "agreed": "agree", "children": "child",
}  # fmt: skip
"""Words that the rules would separate from their other forms."""
_LAST_LETTERS = frozenset("sgdyel")
"""The only letters at the end of a word that a rule may change."""


def stem(word: str) -> str:
    """Return a light English stem: plurals, -ing, -ed, -ly; never shorter than three letters.

    Light on purpose: ``universe`` and ``university`` stay separate, and words of other languages
    change at their end at most.
    """
    if len(word) < 4 or not word.isascii() or not word.isalpha():
        return word
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if word[-1] not in _LAST_LETTERS:
        return word
    word = _without_plural(word)
    if word.endswith("ing") and len(word) >= 5:
        word = _tidy(word[:-3], word)
    elif word.endswith("ied") and len(word) >= 5:
        word = word[:-3] + "y"
    elif word.endswith("ed") and not word.endswith("eed"):
        word = _tidy(word[:-2], word)
    elif word.endswith("ly") and len(word) >= 6:
        word = _without_ly(word)
    return _without_last_letter(word) if len(word) >= 4 else word


def _without_plural(word: str) -> str:
    if not word.endswith("s") or word.endswith(("ss", "us", "is")):
        return word
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("sses", "shes", "ches", "xes", "zes")) and len(word) > 4:
        return word[:-2]
    return word[:-1]


def _tidy(root: str, word: str) -> str:
    """Restore the root that a suffix changed: ``running`` -> ``run``, not ``runn``."""
    if not _VOWELS.intersection(root):
        return word
    if len(root) == 2:
        # ``using`` and ``aged`` have lost an e; ``being`` and ``tied`` stay as they are.
        return root + "e" if root[0] in _VOWELS and root[1] not in _VOWELS else word
    if len(root) > 3 and root[-1] == root[-2] and root[-1] not in "lsz":
        return root[:-1]
    return root


def _without_ly(word: str) -> str:
    """``quickly`` -> ``quick``, ``possibly`` -> ``possible``; ``supply`` is not an adverb."""
    if word.endswith("ply"):
        return word
    if word.endswith("bly"):
        return word[:-1] + "e"
    if word.endswith("ically"):
        return word[:-4]
    return word[:-2]


def _without_last_letter(word: str) -> str:
    """Drop a last letter that forms of a word do not share: ``cach(e)``, ``cancel(l)``."""
    last, before = word[-1], word[-2]
    if last == "e" and before not in "aeoy":
        return word[:-1]
    if last == "y" and before not in _VOWELS:
        return word[:-1] + "i"
    if last == before == "l" and len(word) >= 6:
        return word[:-1]
    return word
