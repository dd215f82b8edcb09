"""Text to terms: wholes, parts, and which forms match."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lookfar.store.keywords.analyser import (
    _ASCII_RUN,
    CLINGING,
    _by_run,
    _expand,
    analyse,
    expand,
    has_cjk,
    stem,
    terms_of,
)
from processor_time import processor_time_below

examples = settings(max_examples=300, deadline=None, derandomize=True)


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("", ""),
        (" \n\t", ""),
        ("🎉 — … ___ -- ''", ""),
        ("Hello, World!", "hello world"),
        ("getUserById", "getuserbyid get user by id"),
        ("user_by_id", "user_by_id user by id"),
        ("__init__", "init"),
        ("HTTPServer", "httpserver http server"),
        ("parseURLs", "parseurls parseurl pars url"),
        ("APIs", "api"),
        ("userIDs", "userids userid user id"),
        ("WebAssembly", "webassembly webassembl web assembl"),
        ("webassembly", "webassembl"),
        ("macOS", "macos maco mac os"),
        ("k8s", "k8s k 8 s"),
        ("base64", "base64 bas 64"),
        ("1.0.21", "1.0.21 1 0 21"),
        ("v2.0-beta.1", "v2.0-beta.1 v2 v 2 0 beta 1"),
        ("2024-05-01", "2024-05-01 2024 05 01"),
        ("real-time", "real-time real tim"),
        ("os.path", "os.path os path"),
        ("std::vector", "std::vector std vector"),
        ("C++", "c++"),
        ("C++17", "c++ 17"),
        ("C#", "c#"),
        ("#tag", "tag"),
        ("count++", "count++ count"),
        (".NET", "net"),
        ("ASP.NET", "asp.net asp net"),
        ("Node.js", "node.js nod js"),
        ("the end.", "the end"),
        ("café CAFÉ cafe\u0301", "caf caf caf"),
        ("naïve Straße", "naiv straße"),
        ("Ｋｕｂｅｒ １２", "kuber 12"),
        ("ｶﾅ", "カ カナ ナ"),
        ("漢", "漢"),
        ("設定値", "設 設定 定 定値 値"),
        ("重跑gen", "重 重跑 跑 gen"),
        ("Kubernetesの設定", "kubernet の の設 設 設定 定"),
        ("サ―バ−", "サ サー ー ーバ バ バー ー"),
        ("ｻｰﾊﾞｰ", "サ サー ー ーバ バ バー ー"),
        ("ﾃﾞｰﾀ", "デ デー ー ータ タ"),
        ("か\u3099く", "が がく く"),
        ("葛\U000e0100城", "葛 葛城 城"),
        ("2010–2015", "2010 2015"),
        ("Ｇｅｔ＿Ｕｓｅｒの値", "get_user get user の の値 値"),
        ("한국어", "한 한국 국 국어 어"),
        ("ﬁle", "fil"),
        ("don't", "don't don t"),
        ("don’t", "don't don t"),
        ("user's user’s User's USER'S", "user user user user"),
        ("users'", "user"),
        ("Привет", "привет"),
        ("हिन्दी", "हिन्दी"),
        ("مُحَمَّد محمد", "محمد محمد"),
        ("שָׁלוֹם שלום", "שלום שלום"),
        ("1️⃣", "1"),
    ],
)
def test_terms(text: str, terms: str) -> None:
    assert analyse(text) == terms


@pytest.mark.parametrize(
    ("query", "indexed", "shared"),
    [
        ("get user by id", "getUserById", {"get", "user", "by", "id"}),
        ("user_by_id", "getUserById", {"user", "by", "id"}),
        ("GetUserByID", "getUserById", {"getuserbyid", "get", "user", "by", "id"}),
        ("getuserbyid", "getUserById", {"getuserbyid"}),
        ("usestate", "useState", {"usestat"}),
        ("youtube", "YouTube", {"youtub"}),
        ("api", "the APIs", {"api"}),
        ("real time", "real-time", {"real", "tim"}),
        ("设置", "网络设置", {"设", "设置", "置"}),
        ("résumé", "resume", {"resum"}),
        ("C++", "modern C++, C", {"c++"}),
    ],
)
def test_query_terms_match_index_terms(query: str, indexed: str, shared: set[str]) -> None:
    assert set(terms_of(query)) & set(terms_of(indexed)) == shared


@pytest.mark.parametrize(
    "forms",
    [
        "use used uses using",
        "run runs running",
        "cache caches cached caching",
        "query queries queried querying",
        "class classes",
        "index indexes indices indexed indexing",
        "process processes processed processing",
        "analysis analyses analyse analysing",
        "embed embeds embedded embedding embeddings",
        "cookie cookies",
        "value values valued",
        "queue queues queued",
        "cancel cancels cancelled canceled cancelling",
        "install installs installed installing",
        "control controls controlled controlling",
        "alias aliases aliased",
        "apply applies applied applying",
        "supply supplies supplied",
        "try tries tried trying",
        "possible possibly",
        "automatic automatically",
        "type types typed typing",
        "size sizes sized sizing",
        "status statuses",
        "set sets setting settings",
        "pass passes passed passing",
        "age aged aging",
        "schema schemas",
        "database databases",
    ],
)
def test_forms_of_a_word_share_a_stem(forms: str) -> None:
    assert len({stem(form) for form in forms.split()}) == 1


@pytest.mark.parametrize(
    "word",
    ["is", "us", "this", "css", "dns", "aws", "string", "thing", "bring", "need", "speed", "red",
     "sing", "embed", "index", "https", "being"],
)  # fmt: skip
def test_words_that_only_look_inflected_stay_unchanged(word: str) -> None:
    assert stem(word) == word


@pytest.mark.parametrize(
    ("one", "other"),
    [("universe", "university"), ("http", "https"), ("us", "use"), ("on", "one"), ("tree", "tre")],
)
def test_different_words_stay_apart(one: str, other: str) -> None:
    assert stem(one) != stem(other)


@examples
@given(st.text(alphabet="abcdefghilnorstuvxyz", min_size=3, max_size=12))
def test_a_stem_is_never_shorter_than_three_letters(word: str) -> None:
    assert 3 <= len(stem(word)) <= len(word)


@examples
@given(st.text() | st.text(alphabet="aA1_-.'’:+# é\u0301\u00a8漢の한ｶＡ\u200d\n\u2003"))
def test_terms_are_clean_and_repeatable(text: str) -> None:
    stream = analyse(text)
    assert stream == analyse(text)
    assert stream.split() == [term for term in stream.split(" ") if term]
    assert all(len(term) <= 64 for term in stream.split())
    assert terms_of(text) == list(dict.fromkeys(stream.split()))


@examples
@given(st.text(alphabet="abAB12_-. '"), st.sampled_from(["é", "漢", "→"]))
def test_text_in_another_script_changes_no_term(text: str, neighbour: str) -> None:
    """The fast path for ASCII agrees with the general one."""
    assert analyse(f"{text} {neighbour}").split() == [*analyse(text).split(), *terms_of(neighbour)]


@examples
@given(st.text() | st.text(alphabet="aB1_-.':+#(< é\u0301\u0338\u00a8漢ー\u2010ｶＡ“…\ufe0f\n"))
def test_splitting_into_words_first_changes_no_term(text: str) -> None:
    """A text is split without a regex before its words are analysed; ``_by_run`` has none of it."""
    assert analyse(text).split() == " ".join(_by_run(text)).split()


@examples
@given(st.text(alphabet="aBcS12__", min_size=1) | st.text(alphabet="aBs1_-.':+#", min_size=1))
def test_a_name_without_joints_has_the_terms_of_its_run(word: str) -> None:
    """Most names are one run, for which the pattern is not needed."""
    runs = _ASCII_RUN.findall(word.strip(CLINGING))
    assert expand(word).split() == " ".join(map(_expand, runs)).split()


def test_cjk_is_detected() -> None:
    assert has_cjk("abc 漢")
    assert has_cjk("カ")
    assert not has_cjk("abc é")


@pytest.mark.parametrize(
    "unit",
    ["a-", "_", "9", "x", "Aa", "a.b", "a+", "'", "é-", "é_", "漢", "\u0301\u0316", "\u05b0\u05b7",
     "\u0650\u0651", "\u0e48\u0e38", "a\u0301\u0316", "::a", "\u0315\u0300\u0327"],
    ids=ascii,
)  # fmt: skip
def test_hostile_text_takes_linear_time(unit: str) -> None:
    text = "é" * (not unit.isascii()) + unit * (500_000 // len(unit))
    with processor_time_below(3.0):
        analyse(text)
