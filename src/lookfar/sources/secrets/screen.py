"""Decide which files contain credentials, and mask credentials in texts.

The same rules apply to everything that is read: the working tree, the history, archives and
extracted text. A project cannot relax them; only the user's own settings can allow a path
(``sources.allow_secrets``). There are three steps.

1. *By path.* Names that are only used for credentials (``.env``, ``id_rsa``,
   ``.docker/config.json``), copies of them (``.env.bak``, ``id_rsa (1)``), and all files in key
   folders are skipped without being read.
2. *By path and content.* Names that are also used otherwise (``secrets.yaml``, ``auth.json``,
   ``prod.tfvars``) are skipped unless everything in them is harmless: templates, placeholders,
   references, names. Templates (``.env.example``), and code or prose with such a name
   (``credentials.py``, ``secrets.md``), are read like any other file.
3. *By content.* In every file that is read, private keys and tokens are masked: each character of
   the credential becomes ``\u2588``, and everything else stays.

Credentials are masked and not removed, because a page with one token in it is still useful. A mask
keeps all offsets, lines and headings as on the disk, and because it is the same each time, hashes
of citations agree. The index, exports, answers, diffs and citations contain only masked text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Final, NamedTuple
from unicodedata import category, normalize

from lookfar.common.hidden_characters import is_hidden
from lookfar.sources.globs import GlobSet, split_anchor
from lookfar.sources.secrets.assignments import contains_credentials, find_settings
from lookfar.sources.secrets.token_shapes import Finding, find_tokens, merge_findings
from lookfar.sources.secrets.values import MASK

VERSION: Final = 2
"""Increase it whenever a rule is added or changed; every index is then rebuilt."""

FOLDERS: Final = (
    *(".ssh", ".gnupg", ".aws", ".azure", ".gcloud", ".kube", ".terraform.d", ".password-store"),
    *(".config/{gcloud,op,doctl,scw,rclone,glab-cli,google-chrome,chromium,heroku}", ".mozilla"),
    *(".local/share/keyrings", "library/keychains", ".aliyun", ".bluemix", ".oci", ".step"),
    *(".ngrok2", ".1password", ".env"),
)
"""All files below these are skipped. No other folder is a secret by its name alone."""


NAMES: Final = (
    *(".env", ".envrc", "*.env", ".env.*", ".env-*", ".env_*", ".flaskenv"),
    *("{id,*}_{rsa,dsa,ecdsa,ecdsa_sk,ed25519,ed25519_sk}", "ssh_host_*_key", "adbkey"),
    *("*.{pem,key,p8,p12,pfx,pkcs12,keystore,jks,jceks,bcfks,kdb,kdbx,ppk,keytab,ovpn,agekey}",),
    *(".netrc", "_netrc", ".authinfo", ".npmrc", ".pypirc", ".git-credentials", ".gitcredentials"),
    *(".pgpass", "pgpass.conf", ".my.cnf", ".mylogin.cnf", "{,.}htpasswd", "proftp{,d}passwd"),
    *(".dockercfg", ".dockerconfigjson", ".vault-token", ".s3cfg", ".boto", ".msmtprc"),
    *("{,.}rclone.conf", ".fetchmailrc", ".esmtprc", ".smbcredentials", ".databrickscfg"),
    *(".terraformrc", "terraform.rc", "credentials.tfrc.json", "*.tfstate", "*.tfstate.*"),
    *("{,.}{,ansible}{,_,-}vault{,_,-}pass{,word,_file,-file}{,.txt}", ".passwd", ".passwd-s3fs"),
    *("application_default_credentials.json", "*firebase{-,}adminsdk*.json", "{,.}ftpconfig"),
    *("logins.json", "key{3,4}.db", "access_tokens.db", "sftp-config.json", ".remote-sync.json"),
    *("sitemanager.xml", "recentservers.xml", "winscp.ini", ".cvspass", ".dbshell", ".psqlrc"),
    *(".*{_,-,}history", "{fish,zsh,bash,psql,mysql,sqlite,python,node_repl,irb}_history"),
    *("consolehost_history.txt", ".mongorc.js", "*.{bash,zsh,psql,mysql}_history"),
    *("{password,passwd,credential,secret}{,s}.{csv,tsv,enc,gpg,db}",),
    *("*[-_. ]{passwords,credentials,secrets}.csv",),
    *("{aws,gcp,azure,google,my}{-,_,}credentials", ".credentials", ".secret{,s}"),
    *("**/.docker/config.json", "**/.config/gh/hosts.y{a,}ml", "**/.config/hub"),
    *("**/.m2/settings*.xml", "**/.cargo/credentials*", "**/.gem/credentials", "**/.bundle/config"),
    *("**/.kaggle/kaggle.json", "**/.gradle/gradle.properties", "**/{.,}nuget/nuget.config"),
    *("**/{.composer,composer,containers}/auth.json", "**/{.,}pypoetry/auth.toml"),
    *("**/{.pip,pip}/pip.conf", "**/.fly/config.y{a,}ml", "**/.circleci/cli.y{a,}ml"),
    *("**/.config/hcloud/cli.toml", "**/.mc/config.json", "**/ngrok/ngrok.y{a,}ml"),
    *("**/{.,}netlify/config.json", "**/.snowsql/config", "**/.config/stripe/config.toml"),
    *("**/.config/configstore/*.json", "**/.jupyter/*_config.json", "**/.expo/state.json"),
)
"""Files that consist of credentials or usually contain some."""

_SETTINGS: Final = frozenset(
    (
        *("json", "jsonc", "json5", "yaml", "yml", "toml", "ini", "cfg", "conf", "config"),
        *("properties", "xml", "plist", "php"),
    )
)
STEMS: Final = (
    *("{,*[-_.]}credential{,s}{,[-_.]*}", "{,*[-_.]}secret{,s}{,[-_.]*}"),
    *("{,*[-_.]}{password,token,apikey,api-key,api_key}{,s}",),
    *("{,*[-_.]}kubeconfig{,[-_.]*}", "wp-config", "wp-config[-_.]*"),
)
"""Stems of settings files that contain credentials in some projects."""
MAYBE: Final = (
    *("credential{,s}", "secret{,s}", "secret*.y{a,}ml", "{,*[-_.]}service{-,_,}account*.json"),
    *("client[-_]secret*.json", "gcp{-,_,}key*.json", "oauth*.json", "auth.json", "auth.toml"),
    *("kubeconfig{,[-_]*}", "*[-_.]kubeconfig", "kube.conf{,ig}", "*.tfvars", "*.tfvars.json"),
    *(".yarnrc.y{a,}ml", "nuget.config", "settings.xml", "settings-security.xml"),
    *("my.cnf", "pip.conf", "{,*[-_. ]}{password,passwd,credential,secret}{,s}.{txt,text}"),
)
"""Whole names of such files."""

_READ_AS_SETTINGS: Final = re.compile(
    r".*\.(?:json|jsonc|json5|ya?ml|toml|ini|cfg|conf|config|properties|xml|plist|tfvars|hcl|env|php"
    r"|cnf|rc|env[-_.].*|example|sample|template|dist)|\.[a-z-]+rc|\.env.*"
)
"""In these files a value is judged by the name of its key."""
_MANIFESTS: Final = re.compile(r"(?:package|composer|tsconfig|jsconfig|manifest|openapi|swagger).*")
"""Settings of tools: large, frequent, with keys like ``token`` but no secrets."""

_TEMPLATE: Final = re.compile(
    r"(?:.*[-_. ])?(?:examples?|samples?|templates?|tmpl|tpl|dist|defaults?|skel(?:eton)?|stub"
    r"|schema|placeholder)(?:[-_. ].*)?|.*\.(?:j2|erb|tt|gotmpl|mustache|hbs|jinja2?|liquid|ejs)"
)
_READ_ANYWAY: Final = frozenset(
    (
        *("md", "markdown", "mdx", "rst", "adoc", "asciidoc", "org", "html", "htm", "tex", "ipynb"),
        *("py", "pyi", "go", "rs", "rb", "js", "jsx", "mjs", "cjs", "ts", "tsx", "java", "kt"),
        *("kts", "scala", "c", "h", "cc", "cpp", "hpp", "cs", "swift", "m", "mm", "pl", "pm"),
        *("lua", "r", "jl", "ex", "exs", "erl", "hs", "clj", "cljs", "dart", "vue", "svelte"),
        *("css", "scss", "less", "sql", "tf", "proto", "graphql", "svg", "snap", "feature"),
        *("po", "pot", "bats", "nix", "zig", "el", "vim", "fs", "vb", "pub"),
    )
)
"""Prose and code that may be about credentials but does not consist of them."""
_COPIED: Final = re.compile(
    r"(?:[-_. ](?:bak|backup|bkp|bk|old|orig|original|save[d]?|copy|prev|previous|tmp|temp|disabled"
    r"|off|rej|mine|rpmsave|rpmnew|rpmorig|dpkg-(?:old|new|dist)|ucf-(?:old|dist)|sw[a-p]|pre|before"
    r"|deleted|unused|not-used|archive|keep|v?\d{1,14}|\d{4}-\d\d-\d\d)|~\d*~?|#| ?\(\d+\)"
    r"| - copy| copy \d+|;\d+|\^|,v|\$)$"
)
_COPY_OF: Final = re.compile(
    r"^(?:copy of |copy_of_|backup[-_ ]of[-_ ]|backup[-_]|old[-_]|\.?#|\.\.(?=\w)|~\$)"
)
_MOST_COPIES: Final = 4
_DEEPEST_RULE: Final = 2
"""How many folders a rule may name before the last component."""
_BRACES: Final = re.compile(r"\{([^{}]*)\}")
_WILD: Final = re.compile(r"[*?\[]")


class Rule(NamedTuple):
    """Why a path is skipped."""

    name: str
    """A folder, a path or a glob, for display."""
    by_content: bool = False
    """The content decides, too: see ``Secrets.screen``."""


class Screened(NamedTuple):
    """A text with its credentials masked."""

    text: str
    findings: tuple[Finding, ...] = ()
    refused: str = ""
    """The rule that forbids showing any of it."""

    def warnings(self) -> tuple[str, ...]:
        """Return one message per rule, with the masked lines."""
        return tuple(
            f"masked, because it looks like a secret ({rule}): line {lines}"
            for rule, lines in self.masked_lines().items()
        )

    def masked_lines(self) -> dict[str, str]:
        """Return the lines that each rule masks."""
        lines: dict[str, dict[int, None]] = {}
        for finding in self.findings:
            line = self.text.count("\n", 0, finding.start) + 1
            lines.setdefault(finding.rule, {})[line] = None
        return {rule: _format_lines(list(numbers)) for rule, numbers in lines.items()}


def fold_name(name: str) -> str:
    """Case-fold a name, normalise it to NFC and remove invisible characters."""
    if name.isascii():
        return name.lower()
    visible = (char for char in name if category(char) != "Cf" and not is_hidden(char))
    return normalize("NFC", "".join(visible)).casefold()


def secret_by_path(uri: str, is_dir: bool = False) -> Rule | None:
    """Return the rule that matches a path or a folder above it."""
    parts = uri.split("/")
    for depth in range(1, len(parts)):
        rule = _entry_rule("/".join(parts[:depth]), True)
        if rule is not None:
            return rule
    return _entry_rule(uri, is_dir)


def secret_by_content(text: str, uri: str = "") -> list[Finding]:
    """Find the credentials in a text; some rules apply only if ``uri`` is a settings file."""
    findings = find_tokens(text)
    name = fold_name(uri.rpartition("/")[2])
    if _READ_AS_SETTINGS.fullmatch(name) and not _MANIFESTS.fullmatch(name):
        findings += find_settings(text)
    return merge_findings(findings)


def mask(text: str, findings: list[Finding]) -> str:
    """Mask findings in a text; its length and line ends stay the same."""
    parts: list[str] = []
    at = 0
    for finding in findings:
        lines = text[finding.start : finding.end].split("\n")
        parts += (text[at : finding.start], "\n".join(MASK * len(line) for line in lines))
        at = finding.end
    return "".join((*parts, text[at:]))


@dataclass(frozen=True, slots=True)
class Secrets:
    """The rules, and the paths that the user exempts from them."""

    allow: tuple[str, ...] = ()
    _allowed: GlobSet | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_allowed", GlobSet(self.allow) if self.allow else None)

    def rule_for(self, uri: str, is_dir: bool = False) -> Rule | None:
        """Return the rule for an entry of an admitted folder, unless the user allows it."""
        if self._allowed is None:
            return _entry_rule(uri, is_dir)
        # A key folder is entered for an allowed file; its rule still skips the others.
        rule = secret_by_path(uri, is_dir)
        return None if rule is None or self.allows(uri, is_dir) else rule

    def allows(self, uri: str, is_dir: bool = False) -> bool:
        """Whether the user allows a path, or something in a folder."""
        if self._allowed is None:
            return False
        if self._allowed.match(uri) is not None:
            return True
        return is_dir and any(split_anchor(glob)[1].startswith(f"{uri}/") for glob in self.allow)

    def screen(self, uri: str, text: str) -> Screened:
        """Return a text with its credentials masked, or refused if it consists of them."""
        rule = self.rule_for(uri)
        if rule is not None and (not rule.by_content or contains_credentials(text)):
            return Screened("", (), rule.name)
        return self.masked(uri, text)

    def masked(self, uri: str, text: str) -> Screened:
        """Return a text with its credentials masked, whatever its name."""
        findings = [] if self.allows(uri) else secret_by_content(text, uri)
        return Screened(mask(text, findings), tuple(findings)) if findings else Screened(text)


NO_EXCEPTIONS: Final = Secrets()
_SHORTEST_MASK: Final = 4


def copies_mask(before: str, after: str) -> bool:
    """Whether a new text contains masks that the old one did not.

    Writing masked text back would overwrite a secret with its mask.
    """
    run = MASK * _SHORTEST_MASK
    return after.count(run) > before.count(run)


def mask_diff(text: str) -> str:
    """Mask the diff or the message of a commit, which may show only part of a key."""
    return mask(text, merge_findings([*find_tokens(text), *_key_lines(text), *find_settings(text)]))


_KEY_LINE: Final = re.compile(r"(?m)^[-+ ][ \t\"']{0,40}([A-Za-z0-9+/=]{60,})[\"',\\n+ ]{0,8}$")


_HUNK_LINE: Final = re.compile(r"(?m)^@@ [^@\n]{1,60} @@ (.+)$")
_CUT_SHORT: Final = re.compile(r"[\w+/=.-]{20,}")


def _key_lines(text: str) -> list[Finding]:
    """Find lines of base64, which may be the middle of a key.

    git repeats a line in each hunk header and truncates it, so a token in it has no known shape.
    """
    findings = [Finding(*match.span(1), "encoded-line") for match in _KEY_LINE.finditer(text)]
    for hunk in _HUNK_LINE.finditer(text):
        findings += (
            Finding(*match.span(), "cut-short")
            for match in _CUT_SHORT.finditer(text, *hunk.span(1))
            if any(map(str.isdigit, match[0]))
        )
    return findings


def _entry_rule(uri: str, is_dir: bool) -> Rule | None:
    """Return the rule for the last component of a path, without those above it."""
    folder, _, name = uri.rpartition("/")
    if not is_dir and name[name.rfind(".") + 1 :].lower() in _READ_ANYWAY:
        return Rule(".mongorc.js") if fold_name(name) == ".mongorc.js" else None
    above = "/".join(map(_key, folder.split("/")[-_DEEPEST_RULE:])) if folder else ""
    return _rule(above, name, is_dir)


@lru_cache(maxsize=20_000)
def _rule(above: str, name: str, is_dir: bool) -> Rule | None:
    key = _key(name)
    prefix = f"{above}/" if above else ""
    if is_dir:
        folder = _folders().match(prefix + key)
        return Rule(f"{folder}/") if folder else None
    for original in _originals(key):
        path = prefix + original
        # An exact name is not a template even if it contains such a word: application_default_...
        if not _TEMPLATE.fullmatch(original) or original in _names().exact:
            rule = _certain(path) or _doubtful(original)
            if rule is not None:
                return rule
    return None


def _certain(path: str) -> Rule | None:
    rule = _names().match(path)
    return Rule(rule) if rule else None


def _doubtful(name: str) -> Rule | None:
    rule = _maybe().match(name) or _names().endings.get(f".{name}")
    stem, _, ending = name.rpartition(".")
    if rule is None and ending in _SETTINGS:
        rule = _stems().match(stem)
        rule = f"{rule}.{ending}" if rule else None
    return Rule(rule, by_content=True) if rule else None


def _key(name: str) -> str:
    # Windows drops trailing dots and spaces, so `.env ` opens `.env` there.
    return fold_name(name).rstrip(". ")


def _originals(name: str) -> list[str]:
    """Return a name and the names it may be a copy of."""
    names = [name]
    for known in names:
        if len(names) > _MOST_COPIES:
            break
        stem, dot, ending = known.rpartition(".")
        for candidate in (
            _COPIED.sub("", known),
            _COPY_OF.sub("", known),
            f"{_COPIED.sub('', stem)}{dot}{ending}" if stem else known,
        ):
            if candidate and candidate not in names:
                names.append(candidate)
    return names


class _Rules:
    """Globs for folded paths. Most are whole names and found by one lookup."""

    def __init__(self, globs: Iterable[str]) -> None:
        self.exact: dict[str, str] = {}
        self.endings: dict[str, str] = {}
        rest: list[str] = []
        for glob in _expand(globs):
            literal = glob.removeprefix("**/")
            if not _WILD.search(literal):
                self.exact[literal] = literal
            elif glob.startswith("*.") and not _WILD.search(glob, 1) and glob.count(".") == 1:
                self.endings[glob[1:]] = glob
            else:
                rest.append(glob)
        self._rest = GlobSet(rest)

    def match(self, path: str) -> str | None:
        """Return the glob that matches the last component, with or without folders before it."""
        parts = path.split("/")
        name = parts[-1]
        rule = self.exact.get(name) or self.endings.get(name[name.rfind(".") :])
        for depth in range(2, min(len(parts), _DEEPEST_RULE + 1) + 1):
            rule = rule or self.exact.get("/".join(parts[-depth:]))
        rule = rule or self._rest.match(path)
        return rule.removeprefix("**/") if rule else None


@cache
def _folders() -> _Rules:
    return _Rules(FOLDERS)


@cache
def _names() -> _Rules:
    return _Rules(NAMES)


@cache
def _maybe() -> _Rules:
    return _Rules(MAYBE)


@cache
def _stems() -> GlobSet:
    return GlobSet(_expand(STEMS))


def _expand(globs: Iterable[str]) -> list[str]:
    """Expand braces, so that the displayed rule is exactly the one that matched."""
    expanded: list[str] = []
    for glob in globs:
        match = _BRACES.search(glob)
        if match is None:
            expanded.append(glob)
            continue
        choices = (
            glob[: match.start()] + word + glob[match.end() :] for word in match[1].split(",")
        )
        expanded += _expand(choices)
    return expanded


def _format_lines(numbers: list[int]) -> str:
    listed = ", ".join(str(number) for number in numbers[:10])
    return listed if len(numbers) <= 10 else f"{listed} and {len(numbers) - 10} more"
