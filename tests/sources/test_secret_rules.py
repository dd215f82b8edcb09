"""Which files and which characters are secrets, and which only look so.

Seen to fail with a rule that did not know copies (`.env.bak`), with a token found only at the
beginning of a line, with a mask of another length, with a value judged without its key, with
every doubtful name treated as credentials (92 look-alikes were skipped), and with a folder of keys
whose other files an exception let in.
"""

from __future__ import annotations

import pickle

import pytest

import planted
from harness import report
from lookfar.sources.folder.policy import Policy
from lookfar.sources.secrets import token_shapes
from lookfar.sources.secrets.screen import (
    Secrets,
    copies_mask,
    mask,
    mask_diff,
    secret_by_content,
    secret_by_path,
)
from lookfar.sources.secrets.token_shapes import Finding
from lookfar.sources.secrets.values import MASK, is_made_up, is_opaque, is_placeholder
from lookfar.text.parse.formats import parser_for

NAMED = [*planted.BY_NAME, *planted.BY_CASE, *planted.BY_FORM, *planted.COPIES]
PASSAGES = planted.in_passages()
DECIDED = planted.by_content()


@pytest.mark.parametrize("uri", NAMED)
def test_files_of_secrets_are_known_by_their_path(uri: str) -> None:
    for path in (uri, f"home/me/{uri}"):
        rule = secret_by_path(path)
        assert rule is not None
        assert not rule.by_content
        verdict = Policy(include=("**",), exclude=()).verdict(path)
        assert verdict is not None
        assert verdict.reason == "denied"


@pytest.mark.parametrize("each", DECIDED, ids=lambda each: each.uri)
def test_a_doubtful_name_is_decided_by_content(each: planted.Planted) -> None:
    rule = secret_by_path(each.uri)
    assert rule is not None
    assert rule.by_content
    assert Secrets().screen(each.uri, each.text).refused == rule.name
    hollow = each.text.replace(each.value, "changeme")
    kept_out = Secrets().screen(each.uri, hollow).refused
    # A note in prose is not a settings file: its password cannot be located.
    assert bool(kept_out) == (each.uri == "secrets.txt")


@pytest.mark.parametrize("each", PASSAGES, ids=lambda each: each.uri)
def test_a_secret_in_an_ordinary_file_is_masked(each: planted.Planted) -> None:
    screened = Secrets().screen(each.uri, each.text)
    assert not screened.refused
    assert each.value in each.text
    assert each.value not in screened.text
    assert len(screened.text) == len(each.text)
    lines = zip(each.text.split("\n"), screened.text.split("\n"), strict=True)
    assert all(len(was) == len(now) for was, now in lines)
    # What is left is the text around it, and the file can still be found by that.
    assert "arbour" in screened.text
    assert Secrets().screen(each.uri, screened.text).text == screened.text
    assert parser_for(each.uri) is not None


def test_shapes_are_looked_for_by_their_first_letter() -> None:
    for rule, shape in token_shapes._SHAPES:
        assert shape[0].isalpha(), rule
    tokens = PASSAGES[: len(planted._TOKENS)]
    assert [item.uri for item in tokens if not secret_by_content(item.text)] == []
    result = {finding.rule for item in PASSAGES for finding in secret_by_content(item.text)}
    assert len(result) > 30


def test_at_most_four_of_two_hundred_lookalikes_are_skipped() -> None:
    harmless = planted.lookalikes()
    assert len(harmless) >= 200
    skipped = []
    for uri, text in harmless.items():
        screened = Secrets().screen(uri, text)
        if Policy().verdict(uri) is not None or screened.refused or screened.findings:
            skipped.append((uri, screened.refused, screened.findings))
    report("secrets: look-alikes", trials=len(harmless), failures=max(0, len(skipped) - 4))
    assert len(skipped) <= 4, skipped


@pytest.mark.parametrize(
    "uri",
    [
        *(".env.example", ".env.sample", ".env.template", ".env.dist", "example.env", "env.sample"),
        *("terraform.tfvars.example", "credentials.example.json", "secrets.sample.yaml"),
        *("secrets.yaml.j2", "id_rsa.pub", ".env.d.ts", "docs/.env.md", "kubeconfig.md"),
        *("history", "history.json", "environment", "keyboard.json", "tokenizer.json"),
    ],
)
def test_templates_prose_and_code_are_not_secrets_by_their_path(uri: str) -> None:
    assert secret_by_path(uri) is None


@pytest.mark.parametrize("name", ["key", "env", "pem", "keystore", "Kdb", "p8", "keytab"])
def test_a_name_that_only_equals_an_ending_is_no_evidence(name: str) -> None:
    for folder in (name, f"server.{name}", "prod.tfstate", ".my.cnf"):
        assert secret_by_path(f"api/keyboardevent/{folder}/index.md") is None
        assert Policy().verdict(f"api/{folder}", is_dir=True) is None
    assert Policy().verdict(f"api/{name}") is None
    assert not Secrets().screen(f"api/{name}", "What the user pressed on the board.\n").refused
    # Two lines of settings, a key and nothing else, and a block of base64 with padding.
    key = planted._pick(planted._ALNUM, 43)
    for text in (f"USER=deploy\nPASSWORD={key}\n", f"{key}\n", f"{key}=\n"):
        assert Secrets().screen(f"api/{name}", text).refused
    assert secret_by_path(f"api/server.{name}") is not None
    assert secret_by_path(f"api/.{name}") is not None


def test_the_user_allows_a_path_and_nothing_beside_it() -> None:
    token = PASSAGES[2]
    secrets = Secrets(("fixtures/**", ".aws/notes.md", "id_rsa"))
    assert secrets.rule_for("fixtures/prod.env") is None
    assert secrets.screen("fixtures/a.md", token.text).text == token.text
    assert secrets.rule_for(".aws", is_dir=True) is None
    assert secrets.rule_for(".aws/notes.md") is None
    assert secrets.rule_for(".aws/config") is not None
    assert secrets.rule_for("id_rsa") is None
    assert secrets.rule_for("id_dsa") is not None
    assert Secrets(("a",)) == Secrets(("a",)) != Secrets(("b",))
    assert pickle.loads(pickle.dumps(secrets)).rule_for(".aws/notes.md") is None


def test_a_mask_keeps_lines_and_length() -> None:
    text = "a\nsecret\nmore\nb"
    masked = mask(text, [Finding(2, 13, "x")])
    assert masked == f"a\n{MASK * 6}\n{MASK * 4}\nb"
    assert mask(text, []) == text
    assert copies_mask(text, masked)
    assert not copies_mask(masked, masked)


def test_warnings_of_a_masked_document() -> None:
    token = PASSAGES[2]
    screened = Secrets().screen(token.uri, token.text)
    [warning] = screened.warnings()
    assert "github-token" in warning
    assert "line" in warning
    assert token.value not in warning


def test_a_diff_shows_nothing_of_the_middle_of_a_key() -> None:
    key = next(item for item in PASSAGES if item.uri == "docs/key0.md")
    diff = "\n".join(f"+{line}" for line in key.text.split("\n")[7:10])
    assert "BEGIN" not in diff
    assert any(len(line) > 60 for line in diff.split("\n"))
    assert key.value not in mask_diff(diff)
    begun = key.text[: key.text.index("-----END")]
    assert key.value not in mask_diff("\n".join(f"-{line}" for line in begun.split("\n")))


@pytest.mark.parametrize(
    "value",
    [
        *("changeme", "${TOKEN}", "{{ .Values.x }}", "<your-token>", "xxxxxxxxxxxx", "password"),
        *("my-secret-pw", "badpass", "ENV['KEY']", "123456", "true", "", "$TOKEN", "YOUR_API_KEY"),
        *("op://vault/item", "env:TOKEN", "*******", "secret123", "test-token", MASK * 8),
    ],
)
def test_placeholders(value: str) -> None:
    assert is_placeholder(value)


@pytest.mark.parametrize("value", ["hunter4x9", "tr0ub4dor&3zq", "kq4gihvszzgn1p0r", "Zq81mPw0x"])
def test_values_that_are_not_placeholders(value: str) -> None:
    assert not is_placeholder(value)


def test_a_value_is_judged_by_its_key() -> None:
    value = next(item.value for item in PASSAGES if item.uri == "conf/site.ini")
    for key, hidden in (("api_key", True), ("dbPassword", True), ("revision", False),
                        ("secretName", False), ("token_file", False)):  # fmt: skip
        text = f"[harbour]\n{key} = {value}\n"
        assert bool(secret_by_content(text, "conf/site.ini")) == hidden, key


def test_names_of_resources_are_not_generated_values() -> None:
    for value in ("ami-0c55b159cbfafe1f0", "eu-west-1", "v1alpha1", "10.0.0.0/16", "t3.micro",
                  "https://example.org/a1b2c3d4e5f6", "a few words 1a2b3c4d5e"):  # fmt: skip
        assert not is_opaque(value), value
    assert is_opaque("xylotine07quorvex")
    assert is_made_up("AKIAIOSFODNN7EXAMPLE")


@pytest.mark.parametrize(
    "text",
    [
        *("-----BEGIN PRIVATE KEY-----" * 2_000, "A" * 200_000, "{{" * 50_000, "=" * 100_000),
        *("password: " * 20_000, "://a:" * 20_000, "eyJ" * 50_000, " " * 100_000 + "secret"),
        *("Q~" * 40_000, "AKIA" * 40_000, "secret=" * 20_000, "\ud83d\ude00".join("0a" * 10_000)),
        *("kind: Secret\ndata:\n" * 5_000, '"' * 100_000, "key-us1" * 20_000),
        *("@@ -1 +1 @@ " + "a." * 50_000, "@@ 1 @@ 1" * 10_000),
    ],
    ids=lambda text: text[:12],
)
def test_no_text_is_slow_or_changes_its_length(text: str) -> None:
    """Each of these takes minutes where an expression looks at all beginnings to all ends."""
    for uri in ("a.md", "secrets.yaml", "a.json"):
        assert len(Secrets().masked(uri, text).text) == len(text)
        Secrets().screen(uri, text)
    assert len(mask_diff(text)) == len(text)
