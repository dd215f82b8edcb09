"""Find private keys and tokens in a text by their shapes, as public secret scanners do.

Made-up tokens (``AKIAIOSFODNN7EXAMPLE``) are ignored. A token has a run of at least 20 letters and
digits, so those runs are searched first with a lookup table, and only they are compared with the
rules. Time is linear in the text.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode
from collections.abc import Iterator
from functools import cache
from typing import Final, NamedTuple

from lookfar.sources.secrets.values import (
    decode_base64,
    entropy,
    is_made_up,
    is_opaque,
    is_placeholder,
)


class Finding(NamedTuple):
    start: int
    end: int
    rule: str


_SHAPES: Final = (
    ("aws-access-key", r"A(?:3T[A-Z0-9]|KIA|SIA|BIA|CCA)[A-Z2-7]{16}(?![A-Za-z0-9])"),
    ("aws-bedrock-key", r"ABSK[A-Za-z0-9+/]{109,269}"),
    ("github-token", r"gh[pousr]_[A-Za-z0-9]{36,255}"),
    ("github-token", r"github_pat_\w{36,255}"),
    ("gitlab-token", r"gl(?:pat|dt|rt|cbt|ptt|ft|imt|agent|oas|soat|ffct)-[\w.-]{20,}"),
    ("gitlab-token", r"GR1348941[\w-]{20}"),
    ("slack-token", r"xox[abeoprs](?:\.xox[abp])?-[\w-]{15,}"),
    ("slack-token", r"xapp-\d-[A-Za-z0-9-]{20,}"),
    ("slack-webhook", r"hooks\.slack\.com/(?:services|workflows)/[A-Za-z0-9+/]{40,}"),
    ("discord-webhook", r"discord(?:app)?\.com/api/webhooks/\d{15,}/[\w-]{60,}"),
    ("teams-webhook", r"webhook\.office\.com/webhookb2/[\w@-]{60,}/IncomingWebhook/[\w/-]{60,}"),
    ("stripe-key", r"sk_(?:live|prod)_[A-Za-z0-9]{10,}"),
    ("stripe-key", r"rk_(?:live|prod)_[A-Za-z0-9]{10,}"),
    ("stripe-key", r"whsec_[A-Za-z0-9+/]{32,}"),
    ("google-api-key", r"AIza[\w-]{35}(?![\w-])"),
    ("google-oauth", r"GOCSPX-[\w-]{28}"),
    ("google-oauth", r"ya29\.[\w-]{30,}"),
    ("npm-token", r"npm_[A-Za-z0-9]{36}(?![A-Za-z0-9])"),
    ("pypi-token", r"pypi-AgE[\w-]{50,}"),
    ("rubygems-token", r"rubygems_[a-f0-9]{48}"),
    ("clojars-token", r"CLOJARS_[a-z0-9]{60}"),
    ("cargo-token", r"cio[A-Za-z0-9]{32}(?![A-Za-z0-9])"),
    ("anthropic-key", r"sk-ant-[\w-]{20,}"),
    ("openai-key", r"sk-(?:proj|svcacct|admin|None)-[\w-]{20,}"),
    ("openai-key", r"sk-[A-Za-z0-9]{20}T3BlbkFJ[A-Za-z0-9]{20}"),
    ("openai-key", r"sk-[A-Za-z0-9]{48}"),
    ("huggingface-token", r"hf_[A-Za-z]{34}(?![A-Za-z])"),
    ("huggingface-token", r"api_org_[A-Za-z]{34}(?![A-Za-z])"),
    ("groq-key", r"gsk_[A-Za-z0-9]{52}"),
    ("perplexity-key", r"pplx-[A-Za-z0-9]{48}"),
    ("replicate-token", r"r8_[A-Za-z0-9]{37}"),
    ("xai-key", r"xai-[A-Za-z0-9]{70,}"),
    ("sendgrid-key", r"SG\.[\w-]{16,32}\.[\w-]{32,64}"),
    ("twilio-key", r"SK[0-9a-f]{32}(?![0-9a-f])"),
    ("mailgun-key", r"key-[0-9a-f]{32}(?![0-9a-f])"),
    ("sendinblue-key", r"xkeysib-[0-9a-f]{64}-[A-Za-z0-9]{16}"),
    ("digitalocean-token", r"do[oprt]_v1_[a-f0-9]{64}"),
    ("shopify-token", r"shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}"),
    ("square-token", r"sq0(?:csp|atp)-[\w-]{22,}"),
    ("facebook-token", r"EAA[MC][A-Za-z0-9]{100,}"),
    ("databricks-token", r"dapi[a-f0-9]{32}(?![a-f0-9])"),
    ("doppler-token", r"dp\.(?:pt|st|ct|sa|scim|audit)\.(?:[\w-]{2,35}\.)?[A-Za-z0-9]{40,44}"),
    ("dynatrace-token", r"dt0[a-zA-Z]\d{2}\.[A-Z0-9]{8,24}\.[A-Z0-9]{64}"),
    ("linear-key", r"lin_(?:api|oauth)_[A-Za-z0-9]{40,}"),
    ("newrelic-key", r"NRAK-[A-Z0-9]{27}"),
    ("newrelic-key", r"NRJS-[a-f0-9]{19}"),
    ("newrelic-key", r"NRII-[\w-]{32}"),
    ("notion-token", r"secret_[A-Za-z0-9]{43}(?![A-Za-z0-9])"),
    ("notion-token", r"ntn_[A-Za-z0-9]{40,}"),
    ("planetscale-token", r"pscale_(?:tkn|pw|oauth)_[\w.=-]{32,}"),
    ("postman-key", r"PMAK-[a-f0-9]{24}-[a-f0-9]{34}"),
    ("pulumi-token", r"pul-[a-f0-9]{40}"),
    ("vault-token", r"hv[sbr]\.[\w-]{24,}"),
    ("grafana-token", r"gl(?:c|sa)_[A-Za-z0-9+/]{32,}(?:_[0-9a-f]{8})?"),
    ("sentry-token", r"sntry[su]_[\w+/=-]{60,}"),
    ("atlassian-token", r"ATATT3[\w=-]{100,}"),
    ("atlassian-token", r"ATCTT3[\w=-]{100,}"),
    ("atlassian-token", r"ATBB[A-Za-z0-9]{32}"),
    ("artifactory-token", r"AKCp[A-Za-z0-9]{69}"),
    ("artifactory-token", r"cmVmd[A-Za-z0-9]{59}"),
    ("docker-token", r"dckr_(?:pat|oat)_[\w-]{27,}"),
    ("fly-token", r"fo1_[\w-]{43}"),
    ("fly-token", r"fm[12][ar]?_[A-Za-z0-9+/]{80,}={0,3}"),
    ("cloudflare-key", r"v1\.0-[a-f0-9]{24}-[a-f0-9]{146}"),
    ("age-key", r"AGE-SECRET-KEY-1[0-9A-Z]{58}"),
    ("heroku-key", r"HRKU-[\w-]{36,}"),
    ("netlify-token", r"nf[cp]_[A-Za-z0-9]{36}"),
    ("supabase-key", r"sb(?:p|_secret)_[A-Za-z0-9_]{30,}"),
    ("figma-token", r"fig[dou]r?_[\w-]{40,}"),
    ("airtable-token", r"pat[A-Za-z0-9]{14}\.[a-f0-9]{64}"),
    ("openshift-token", r"sha256~[\w-]{43}(?![\w-])"),
    ("onepassword-token", r"ops_eyJ[A-Za-z0-9+/]{200,}"),
    ("tailscale-key", r"tskey-[a-z]+-[A-Za-z0-9]+-[A-Za-z0-9]{20,}"),
    ("alibaba-key", r"LTAI[A-Za-z0-9]{17,20}(?![A-Za-z0-9])"),
    ("tencent-key", r"AKID[A-Za-z0-9]{32}(?![A-Za-z0-9])"),
    ("ibm-key", r"ApiKey-[a-f0-9-]{36}"),
    ("easypost-key", r"EZAK[A-Za-z0-9]{54}"),
    ("duffel-token", r"duffel_live_[\w=-]{43}"),
    ("frameio-token", r"fio-u-[\w=-]{64}"),
    ("flutterwave-key", r"FLWSECK-[A-Za-z0-9]{32}-X"),
    ("readme-key", r"rdme_[a-z0-9]{70}"),
    ("typeform-token", r"tfp_[\w.=-]{59}"),
    ("sourcegraph-token", r"sgp_(?:[a-f0-9]{16}_)?[a-f0-9]{40}"),
    ("sonar-token", r"sq[upa]_[a-f0-9]{40}"),
    ("circleci-token", r"CCIPAT_[A-Za-z0-9]{22}_[a-f0-9]{40}"),
    ("buildkite-token", r"bk(?:ua|aj|ct)_[a-f0-9]{40,}"),
    ("launchdarkly-key", r"api-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![\w-])"),
    ("launchdarkly-key", r"sdk-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![\w-])"),
    ("azure-key", r"AccountKey=[A-Za-z0-9+/]{40,88}={0,2}"),
    ("azure-key", r"SharedAccessKey=[A-Za-z0-9+/]{40,88}={0,2}"),
    ("azure-key", r"sig=[A-Za-z0-9%+/]{43,70}(?:%3[Dd]|=)(?![A-Za-z0-9])"),
    ("okta-token", r"OKTA\w{0,30}=00[\w-]{40}(?![\w-])"),
    ("vercel-token", r"vercel_blob_rw_\w{30,}"),
    ("wireguard-key", r"P(?:rivate|reshared)Key=[A-Za-z0-9+/]{43}="),
    # The number of an account in base64, a time and a signature.
    *(("discord-token", first + r"[DTjz][AEIMQUYcgk][w-z0-5]\w{19,24}\.[\w-]{6}\.[\w-]{27,38}")
      for first in "MNO"),
    ("jwt", r"eyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{20,}"),
)  # fmt: skip
"""Rules and shapes. A shape starts with a letter, and its alternatives are in parentheses."""

_ANCHORED: Final = tuple(
    (rule, anchor, re.compile(rf"(?<![A-Za-z0-9]){shape}"), offsets)
    for rule, anchor, shape, offsets in (
        ("mailchimp-key", "-us", r"[0-9a-f]{32}-us\d{1,2}(?!\w)", (32,)),
        ("telegram-token", ":AA", r"\d{8,10}:AA[\w-]{32,34}(?![\w-])", (10, 9, 8)),
        ("azure-client-secret", "Q~", r"[A-Za-z0-9_~.]{3}\dQ~[A-Za-z0-9_~.-]{31,34}", (4,)),
        ("azure-key", "JQQJ99", r"[A-Za-z0-9]{52}JQQJ99[A-Za-z0-9]{26}", (52,)),
        ("azure-key", "+ASt", r"[A-Za-z0-9+/]{76}\+ASt[A-Za-z0-9+/]{6}==", (76,)),
        ("google-oauth", "1//0", r"1//0[\w-]{40,}", (0,)),
        ("terraform-token", ".atlasv1.", r"[A-Za-z0-9]{14}\.atlasv1\.[\w=-]{60,}", (14,)),
    )
)
"""Shapes without a fixed start: found by a fixed part, and its distance from the start."""
_SHORTEST_ANCHORED: Final = 36

_WORD, _JOINT, _OTHER = b"a. "
_TABLE: Final = bytes(
    _WORD if chr(code).isascii() and (chr(code).isalnum() or chr(code) in "_-")
    else _JOINT if chr(code) in ".:/~+=@%" else _OTHER
    for code in range(256)
)  # fmt: skip
"""Classes of characters: part of a run, allowed between two runs, or neither."""
_RUN: Final = b"a" * 20
_FARTHEST: Final = 2_000
"""How many characters before and after a run may belong to the same token."""
_LEAST_ENTROPY: Final = 2.5

_KEY_BEGINS: Final = re.compile(r"-----BEGIN[ A-Z0-9_-]{0,60}PRIVATE KEY(?: BLOCK)?-----")
_KEY_ENDS: Final = "-----END"
_LONGEST_KEY: Final = 64_000
_KEY_TEXT: Final = re.compile(r"[A-Za-z0-9+/=]{16,}")
_KEY_LINES: Final = re.compile(
    r"(?:[^\n]{0,24}?(?:(?:Proc-Type|DEK-Info|Comment|Version|Charset|Hash):[^\n]{0,200}"
    r"|[A-Za-z0-9+/=]{16,}[^\n]{0,8})?(?:\n|\Z|\\n))+"
)
_PUTTY: Final = re.compile(
    r"PuTTY-User-Key-File-\d[^\n]*\n(?:[^\n]*\n){0,40}?(?=Private-Lines:)"
    r"(Private-Lines: \d+\n(?:[A-Za-z0-9+/=]{1,80}\r?\n){1,200}(?:Private-MAC: [0-9a-f]+)?)"
)
_URL: Final = re.compile(r"://[^\s/:@\"'<>`]{0,200}:([^\s/@\"'<>`]{4,200})@(?=[\w\[.-])")
_NETRC: Final = re.compile(r"machine\s+\S+\s+login\s+\S+\s+password\s+(\S+)")
_OTP: Final = re.compile(r"ecret=(?!JBSWY3DPEHPK3PXP)([A-Z2-7]{16,})(?![A-Za-z0-9])")
_LEADS: Final = frozenset(("er ", "ER ", "ic ", "IC ", "WS ", " = ", ': "', '":"'))
"""The ends of what ``_LED`` matches, because nearly all runs follow something else."""
_LED: Final = re.compile(
    r"(?i:authorization[\"'`]?\s{0,3}[:=,]\s{0,3}[\"'`]?(?:bearer|(basic))) $"
    r"|(\"(?:d|p|q|dp|dq|qi|k)\"\s{0,3}:\s{0,3}\")$|(P(?:rivate|reshared)Key = )$"
    r"|(?i:(ssws|okta)[^\n]{0,40})$"
)
_LED_VALUE: Final = re.compile(r"[\w.~+/=-]{20,}")
_AWS_SECRET: Final = re.compile(
    r"(?i)ecret_?(?:access_?)?(?:key)?[\"'\s]{0,3}(?:=>|[=:,>])[\"'\s]{0,5}"
    r"([A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])"
)
_LONE_SECRET: Final = re.compile(r"(?<![A-Za-z0-9/+=])[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+=])")
_NEAR: Final = 400
_LONGEST_LEAD: Final = 60
_OKTA_LENGTH: Final = 42
_KNOWN_PAYLOADS: Final = re.compile(
    rb"1234567890|John Doe|example|\"(?:sub|name)\": ?\"(?:joe|foo)"
)


@cache
def _tokens() -> re.Pattern[str]:
    """Compile the shapes at first use, because most commands need none."""
    # Grouped by first letter, because alternatives are tried one after the other.
    by_letter: dict[str, list[str]] = {}
    for _, shape in _SHAPES:
        by_letter.setdefault(shape[0], []).append(shape[1:])
    branches = (f"{letter}(?:{'|'.join(rests)})" for letter, rests in by_letter.items())
    return re.compile(rf"(?<![A-Za-z0-9])(?:{'|'.join(branches)})")


def _rule_of(token: str) -> str:
    return next(name for name, shape in _SHAPES if re.match(shape, token))


def find_tokens(text: str) -> list[Finding]:
    """Return private keys and tokens in order and without overlaps."""
    findings = list(_runs(text))
    if "PRIVATE KEY" in text:
        findings += _private_keys(text)
    if "PuTTY-User-Key-File" in text:
        findings += (Finding(*match.span(1), "private-key") for match in _PUTTY.finditer(text))
    if "://" in text and "@" in text:
        findings += _urls(text)
    if "password" in text:
        matches = _NETRC.finditer(text)
        findings += (Finding(*m.span(1), "netrc") for m in matches if not is_placeholder(m[1]))
    findings += _named_secrets(text)
    findings += _aws_neighbours(text, findings)
    return merge_findings(findings)


def merge_findings(findings: list[Finding]) -> list[Finding]:
    """Sort findings and merge those that overlap."""
    result: list[Finding] = []
    # The sort is stable: of two with the same start, the first one names the rule.
    for finding in sorted(findings, key=lambda finding: finding.start):
        if result and finding.start < result[-1].end:
            end = max(result[-1].end, finding.end)
            result[-1] = result[-1]._replace(end=end)
        else:
            result.append(finding)
    return result


def _runs(text: str) -> Iterator[Finding]:
    """Find tokens that contain a long run of letters and digits."""
    # One byte per character, so that offsets agree.
    classes = text.encode("ascii", "replace").translate(_TABLE)
    search = _tokens().search
    at, end = classes.find(_RUN), 0
    while at >= 0:
        start = max(classes.rfind(b" ", max(0, at - _FARTHEST), at) + 1, at - _FARTHEST, end)
        end = classes.find(b" ", at, at + _FARTHEST)
        end = min(at + _FARTHEST, len(text)) if end < 0 else end
        match = search(text, start, end)
        while match is not None:
            if _is_real(match[0]):
                yield Finding(*match.span(), _rule_of(match[0]))
            match = search(text, match.end(), end)
        if end - start >= _SHORTEST_ANCHORED:
            yield from _anchored(text, start, end)
        if text[start - 3 : start] in _LEADS:
            yield from _led(text, start)
        at = classes.find(_RUN, end)


def _anchored(text: str, start: int, end: int) -> Iterator[Finding]:
    for rule, anchor, shape, offsets in _ANCHORED:
        at = text.find(anchor, start, end)
        while at >= 0:
            for offset in offsets:
                match = shape.match(text, at - offset) if at >= offset else None
                if match is not None and _is_real(match[0]):
                    yield Finding(*match.span(), rule)
            at = text.find(anchor, at + 1, end)


def _led(text: str, start: int) -> Iterator[Finding]:
    """Find a value that is a credential only because of what is before it."""
    lead = _LED.search(text, max(0, start - _LONGEST_LEAD), start)
    match = _LED_VALUE.match(text, start)
    if lead is None or match is None or is_made_up(match[0]):
        return
    value = match[0]
    if lead[1]:
        password = decode_base64(value).partition(":")[2]
        rule, is_secret = "basic-password", not is_placeholder(password)
    elif lead[2]:
        beside = text[text.rfind("{", 0, start) + 1 : text.find("}", start)]
        rule, is_secret = "private-jwk", '"kty"' in beside
    elif lead[3]:
        rule, is_secret = "wireguard-key", value.endswith("=")
    elif lead[4]:
        rule, is_secret = "okta-token", value.startswith("00") and len(value) == _OKTA_LENGTH
    else:
        rule, is_secret = "bearer-token", any(map(str.isdigit, value)) and is_opaque(value, "id")
    if is_secret:
        yield Finding(*match.span(), rule)


def _is_real(token: str) -> bool:
    if token.startswith("eyJ"):
        payload = token.split(".")[1]
        known = _KNOWN_PAYLOADS.search(urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        return known is None and not is_made_up(token.rpartition(".")[2])
    return not is_made_up(token) and entropy(token) >= _LEAST_ENTROPY


def _private_keys(text: str) -> Iterator[Finding]:
    done = 0
    for begin in _KEY_BEGINS.finditer(text):
        start = begin.end()
        if start < done:
            continue
        end = text.find(_KEY_ENDS, start, start + _LONGEST_KEY)
        if end < 0 or not _is_key(text[start:end]):
            lines = _KEY_LINES.match(text, start, min(start + _LONGEST_KEY, len(text)))
            end = lines.end() if lines is not None else start
            if not _is_key(text[start:end]):
                continue
        done = end
        yield Finding(start, end, "private-key")


def _is_key(body: str) -> bool:
    """Whether most of the text between the marks is base64, without an ellipsis."""
    written = [match[0] for match in _KEY_TEXT.finditer(body)]
    dense = sum(map(len, written))
    rest = len("".join(body.split())) - dense
    if dense < 40 or dense <= rest or "..." in body or "\u2026" in body:
        return False
    return not is_made_up(max(written, key=len))


def _urls(text: str) -> Iterator[Finding]:
    for match in _URL.finditer(text):
        if not is_placeholder(match[1]):
            yield Finding(*match.span(1), "url-password")


def _named_secrets(text: str) -> Iterator[Finding]:
    """Find values after the word "secret": of forty characters, or of one-time passwords."""
    for word in ("ecret", "ECRET"):
        at = text.find(word)
        while at >= 0:
            match = _AWS_SECRET.match(text, at)
            if match is not None and entropy(match[1]) >= 4 and not is_made_up(match[1]):
                yield Finding(*match.span(1), "aws-secret-key")
            match = _OTP.match(text, at)
            if match is not None and "otpauth://" in text[max(0, at - _NEAR) : at]:
                yield Finding(*match.span(1), "otp-secret")
            at = text.find(word, at + 1)


def _aws_neighbours(text: str, findings: list[Finding]) -> Iterator[Finding]:
    """Find the secret near an access key, whatever its name."""
    for key in [finding for finding in findings if finding.rule == "aws-access-key"]:
        around = max(0, key.start - _NEAR), min(key.end + _NEAR, len(text))
        for match in _LONE_SECRET.finditer(text, *around):
            if entropy(match[0]) >= 4 and not is_made_up(match[0]):
                yield Finding(*match.span(), "aws-secret-key")
