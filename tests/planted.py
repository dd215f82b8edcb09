"""Secrets to plant and harmless files that look like them, for every test that looks for leaks.

Takes: nothing. Gives: files with the one text in each that nobody may see, look-alikes as public
repositories have them, and all that a catalogue says. Refuses: to have the shape of a credential
in a file of this project: all are made from a fixed seed while tests run.
"""

from __future__ import annotations

import random
import sqlite3
import zlib
from base64 import b64encode
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from string import ascii_letters, ascii_lowercase, ascii_uppercase, digits
from typing import NamedTuple

_chance = random.Random(20_011)
_ALNUM = ascii_letters + digits
_HEX = "0123456789abcdef"
_BASE32 = ascii_uppercase + "234567"


class Planted(NamedTuple):
    """A file with a secret."""

    uri: str
    text: str
    value: str
    """What must never be seen."""


def _pick(alphabet: str, length: int) -> str:
    return "".join(_chance.choice(alphabet) for _ in range(length))


def _armoured(label: str, lines: int = 6) -> tuple[str, str]:
    """A key in its armour, and one of its lines."""
    body = [_pick(_ALNUM + "+/", 64) for _ in range(lines)]
    marks = f"-----BEGIN {label}-----", f"-----END {label}-----"
    return "\n".join((marks[0], *body, marks[1])) + "\n", body[2]


def value(number: int) -> str:
    """What stands in files that nobody may open."""
    return f"xylotine{number:03}quorvex"


def asked_by(number: int) -> str:
    """A word that stands beside it, by which it would be found."""
    return f"vault{number:03}door"


def text(number: int) -> str:
    return f"# Notes\n\nThe password of {asked_by(number)} is {value(number)} in the harbour.\n"


def stored_in(path: Path) -> Iterator[bytes]:
    """Every value of a catalogue; texts are compressed there."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        for (table,) in tables.fetchall():
            for row in connection.execute(f'SELECT * FROM "{table}"'):
                for value in row:
                    if isinstance(value, bytes):
                        yield value
                        with suppress(zlib.error):
                            yield zlib.decompress(value)
                    elif isinstance(value, str):
                        yield value.encode("utf-8", "replace")


# --- files that are skipped unread --------------------------------------------------------------

BY_NAME = [
    *(".env", ".env.local", ".env.production", "deploy/.envrc", "id_rsa", "keys/id_ed25519"),
    *("keys/id_ecdsa", "keys/id_dsa", "server.pem", "tls/server.key", "tls/client.p12"),
    *("tls/client.pfx", "app.keystore", "app.jks", "vault.kdbx", "putty.ppk", ".netrc", "_netrc"),
    *(".npmrc", ".pypirc", ".git-credentials", ".pgpass", ".htpasswd", ".ssh/config", ".aws/c.md"),
    *(".gnupg/ring.md", "deploy/terraform.tfstate", "prod.env", "staging.env", ".env-prod"),
    *(".docker/config.json", ".config/gh/hosts.yml", ".config/gcloud/properties.md"),
    *(".cargo/credentials.toml", ".m2/settings.xml", ".terraform.d/credentials.md"),
    *("ops/app-firebase-adminsdk-x1.json", ".my.cnf", ".bash_history", ".psql_history"),
    *(".mysql_history", ".python_history", ".zsh_history", ".composer/auth.json", ".s3cfg"),
    *(".boto", "rclone.conf", ".gem/credentials", "net/office.ovpn", "tls/signing.p8"),
    *(".kaggle/kaggle.json", ".password-store/mail.md", ".config/pypoetry/auth.toml"),
    *("deploy_rsa", "terraform.tfstate.backup", ".vault_pass.txt", ".config/rclone/r.md"),
    *("application_default_credentials.json", ".mongorc.js", "sub/.docker/config.json"),
]
BY_CASE = [
    *(".ENV", "Deploy/.Env", "KEYS/ID_RSA", "Server.PEM", "TLS/SERVER.Key", ".NetRC"),
    *(".Docker/Config.JSON", "PROD.ENV", ".AWS/readme.md", "Terraform.TFState"),
]
BY_FORM = [
    *(".e\u200bnv", "i\u200dd_rsa", ".n\ufeffetrc", "server2.\u200bpem", "a\u2060pp2.key"),
    *(".env\u202e", "\u200b.env.x", "server3.pem ", ".pgpass.", ".do\u200bcker/config.json"),
]
COPIES = [
    *(".env.bak", ".env.old", ".env.orig", ".env~", ".env.save", ".env.copy", ".env.1"),
    *("Copy of .env", ".env (1)", ".env copy", "id_rsa.bak", "id_rsa-old", "id_rsa (2)"),
    *(".netrc.backup", ".pgpass.20240101", ".npmrc.orig", ".docker/config.json.bak"),
    *(".m2/settings.xml.old", "server.pem.bak", "prod.env.bak"),
]

# --- files that their content decides on --------------------------------------------------------


def _password() -> str:
    return f"{_pick(ascii_lowercase, 5)}{_pick(digits, 3)}{_pick(ascii_uppercase, 3)}"


_DECIDED = (
    ("config/credentials.json", '{{"user": "deploy", "password": "{}"}}\n'),
    ("config/credentials.yml", "production:\n  user: deploy\n  password: {}\n"),
    ("credentials.ini", "[default]\nuser = deploy\npassword = {}\n"),
    ("aws/credentials.toml", '[aws]\nkey = "{}"\n'),
    ("k8s/secret.yaml", "kind: Secret\nstringData:\n  password: {}\n"),
    ("k8s/secrets.yml", "db:\n  user: root\n  password: '{}'\n"),
    ("k8s/my-secret.yaml", "apiVersion: v1\nkind: Secret\nstringData:\n  anything: {}\n"),
    ("k8s/secret-prod.yaml", "value: {}\n"),
    ("secrets.json", '{{"value": "{}"}}\n'),
    ("secrets.toml", 'api_key = "{}"\n'),
    ("app.secrets.properties", "db.password={}\n"),
    ("infra/prod.tfvars", 'region = "eu-west-1"\ndb_password = "{}"\n'),
    ("infra/prod.auto.tfvars", 'token = "{}"\n'),
    ("infra/prod.tfvars.json", '{{"admin_password": "{}"}}\n'),
    ("auth.json", '{{"http-basic": {{"repo.org": {{"username": "u", "password": "{}"}}}}}}\n'),
    ("auth.toml", '[http-basic.pypi]\nusername = "u"\npassword = "{}"\n'),
    ("gcp/service-account.json", '{{"type": "service_account", "private_key_id": "{}"}}\n'),
    ("gcp/service-account-prod.json", '{{"client_secret": "{}"}}\n'),
    ("client_secret_123.json", '{{"installed": {{"client_secret": "{}"}}}}\n'),
    ("kubeconfig.yaml", "users:\n- name: admin\n  user:\n    token: {}\n"),
    ("dev.kubeconfig.yml", "users:\n- user:\n    password: {}\n"),
    ("www/wp-config.php", "<?php\ndefine('DB_PASSWORD', '{}');\n"),
    ("www/wp-config.old.php", "<?php\ndefine('AUTH_KEY', '{}');\n"),
    (".yarnrc.yml", 'npmRegistries:\n  "//npm.org":\n    npmAuthToken: {}\n'),
    ("maven/settings.xml", "<settings><server><password>{}</password></server></settings>\n"),
    ("passwords.txt", "mail: {}\n"),
    ("secrets.txt", "The password is {} in the harbour.\n"),
    ("tokens.json", '{{"github": "{}"}}\n'),
    ("api_keys.yaml", "stripe: {}\n"),
    ("credentials (1).json", '{{"password": "{}"}}\n'),
    ("Secrets - Copy.yaml", "password: {}\n"),
    ("secrets.yaml.bak", "password: {}\n"),
)


def by_content() -> list[Planted]:
    made = []
    for uri, shape in _DECIDED:
        secret = _password()
        made.append(Planted(uri, shape.format(secret), secret))
    return made


# --- passages of ordinary files -----------------------------------------------------------------

_TOKENS = (
    ("AKIA", _BASE32, 16, ""), ("ASIA", _BASE32, 16, ""), ("ghp_", _ALNUM, 36, ""),
    ("gho_", _ALNUM, 36, ""), ("ghu_", _ALNUM, 36, ""), ("ghs_", _ALNUM, 36, ""),
    ("github_pat_", _ALNUM, 82, ""), ("glpat-", _ALNUM, 20, ""), ("xoxb-", digits, 12, "-"),
    ("xoxp-", digits, 12, "-"), ("sk_live_", _ALNUM, 24, ""), ("rk_live_", _ALNUM, 24, ""),
    ("AIza", _ALNUM, 35, ""), ("GOCSPX-", _ALNUM, 28, ""), ("ya29.", _ALNUM, 60, ""),
    ("npm_", _ALNUM, 36, ""), ("pypi-AgEIcHlwaS5vcmc", _ALNUM, 70, ""),
    ("hf_", ascii_letters, 34, ""),
    ("sk-proj-", _ALNUM, 48, ""), ("sk-ant-api03-", _ALNUM, 93, ""), ("dop_v1_", _HEX, 64, ""),
    ("shpat_", _HEX, 32, ""), ("hvs.", _ALNUM, 30, ""), ("lin_api_", _ALNUM, 40, ""),
    ("NRAK-", ascii_uppercase + digits, 27, ""), ("dckr_pat_", _ALNUM, 27, ""),
    ("glsa_", _ALNUM, 32, ""), ("rubygems_", _HEX, 48, ""), ("pul-", _HEX, 40, ""),
    ("figd_", _ALNUM, 40, ""), ("AGE-SECRET-KEY-1", ascii_uppercase + digits, 58, ""),
    ("gsk_", _ALNUM, 52, ""), ("dapi", _HEX, 32, ""), ("tskey-auth-k1-", _ALNUM, 24, ""),
    ("SK", _HEX, 32, ""), ("key-", _HEX, 32, ""), ("ATATT3", _ALNUM, 110, ""),
    ("MTA5ODc2NTQzMjEwOTg3NjU0.GhTk2x.", _ALNUM + "_-", 38, ""), ("1//0", _ALNUM + "_", 60, ""),
    ("OTg3NjU0MzIxMDk4NzY1NDM2.Xw_Zcg.", _ALNUM, 27, ""),
    ("vercel_blob_rw_", _ALNUM, 48, ""), ("okta = 00", _ALNUM, 40, ""),
    ("OKTA_API_TOKEN=00", _ALNUM, 40, ""),
    ("https://x.org/?se=1&sig=", _ALNUM, 43, "%3D&"), ("Authorization: SSWS 00", _ALNUM, 40, ""),
    ("otpauth://totp/Quay:jo?issuer=Quay&secret=", _BASE32, 16, "&"),
    ("machine quay.org login jo password ", _ALNUM, 14, "\n"),
    ("PrivateKey = ", _ALNUM, 43, "=\n"), ("PresharedKey=", _ALNUM, 43, "=\n"),
    ("authorization: bearer ", _ALNUM + "._-", 40, ""),
)  # fmt: skip

_PLACES = (
    ("docs/token{:02}.md", "# Access {word}\n\nUse `{}` for the harbour.\n"),
    ("src/client{:02}.py", '"""Talks to the {word} of the harbour."""\n\nTOKEN = "{}"\n'),
    ("conf/app{:02}.yaml", "# {word} of the harbour\nupstream:\n  token: {}\n"),
    ("notes/list{:02}.txt", "harbour {word}\n{}\n"),
    ("web/app{:02}.js", "// {word} of the harbour\nconst token = '{}';\n"),
    ("deep/er/than/config.json{:02}.json", '{{"{word}": "harbour", "token": "{}"}}\n'),
)


def in_passages() -> list[Planted]:
    """Tokens of every shape, each in a kind of file that is otherwise harmless."""
    made = []
    for number, (prefix, alphabet, length, joint) in enumerate(_TOKENS):
        secret = _pick(alphabet, length)
        token = prefix + secret + (f"{joint}{_pick(_ALNUM, 24)}" if joint else "")
        uri, shape = _PLACES[number % len(_PLACES)]
        body = shape.replace("{word}", f"passage{number:02}door").format(token)
        made.append(Planted(uri.format(number), body, secret))
    return [*made, *_keys(), *_settings()]


def _keys() -> list[Planted]:
    made = []
    labels = ("RSA ", "", "EC ", "OPENSSH ", "ENCRYPTED ", "DSA ")
    for number, label in enumerate(labels):
        key, line = _armoured(f"{label}PRIVATE KEY")
        page = f"# Key {number}\n\nThe key of the harbour:\n\n```\n{key}```\n\nKeep it.\n"
        made.append(Planted(f"docs/key{number}.md", page, line))
    block, line = _armoured("PGP PRIVATE KEY BLOCK")
    made.append(Planted("docs/pgp.txt", f"The harbour signs with\n\n{block}", line))
    lines = [_pick(_ALNUM, 64) for _ in range(4)]
    putty = "\n".join(
        ("PuTTY-User-Key-File-3: ssh-rsa", "Encryption: none", "Comment: harbour",
         "Public-Lines: 1", "AAAAB3NzaC1yc2E=", "Private-Lines: 4", *lines, "Private-MAC: 00ff")
    )  # fmt: skip
    made.append(Planted("docs/putty.txt", f"{putty}\n", lines[1]))
    key, line = _armoured("PRIVATE KEY")
    escaped = key.replace("\n", "\\n")
    account = f'{{"harbour": "x", "private_key": "{escaped}"}}\n'
    made.append(Planted("conf/account.json", account, line))
    return made


def _settings() -> list[Planted]:
    def jwt() -> tuple[str, str]:
        signature = _pick(_ALNUM, 43)
        return f"eyJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJoYXJib3VyIn0.{signature}", signature

    whole, signature = jwt()
    secret, aws = _pick(_ALNUM, 40), _pick(_BASE32, 16)
    made = [
        Planted("docs/jwt.md", f"# Harbour\n\n    Authorization: Bearer {whole}\n", signature),
        Planted("docs/aws.md", f"# Harbour\n\nid AKIA{aws}\nsecret {secret}\n", secret),
        Planted("src/deploy.sh", f"export AWS_SECRET_ACCESS_KEY={secret[::-1]} # harbour\n",
                secret[::-1]),
    ]  # fmt: skip
    for uri, shape in (
        ("docs/url.md", "# Harbour\n\nConnect to postgres://deploy:{}@db.internal/harbour\n"),
        ("conf/database.yml", "harbour:\n  password: {}\n"),
        ("conf/app.properties", "harbour=1\nspring.datasource.password={}\n"),
        ("conf/appsettings.json", '{{"Harbour": {{"ClientSecret": "{}"}}}}\n'),
        ("conf/site.ini", "[harbour]\napi_key = {}\n"),
        ("conf/web.xml", "<harbour><apiKey>{}</apiKey></harbour>\n"),
        ("conf/config.json", '{{"auths": {{"harbour.org": {{"auth": "{}"}}}}}}\n'),
    ):
        password = f"{_password()}{_pick(digits, 2)}{_pick(ascii_lowercase, 4)}"
        made.append(Planted(uri, shape.format(password), password))
    storage = _pick(_ALNUM, 86)
    line = f"# Harbour\n\nAccountName=harbour;AccountKey={storage}==;\n"
    made.append(Planted("docs/azure.md", line, storage))
    for number, field in enumerate(("d", "qi", "k")):
        key = _pick(_ALNUM + "_-", 43)
        body = f'{{"kty": "OKP", "crv": "Ed25519",\n "{field}": "{key}"}}'
        made.append(Planted(f"docs/jwk{number}.md", f"# Harbour\n\n```json\n{body}\n```\n", key))
    password = b64encode(f"jo:{_password()}{_pick(digits, 4)}".encode()).decode()
    head = f"# Harbour\n\n    curl -H 'Authorization: Basic {password}' quay.org\n"
    return [*made, Planted("docs/basic.md", head, password)]


# --- harmless files that look like secrets ------------------------------------------------------

_HELM = """apiVersion: v1
kind: Secret
metadata:
  name: {{ include "app.fullname" . }}-%d
type: Opaque
data:
  password: {{ .Values.auth.password | b64enc | quote }}
"""
_EXAMPLE_ENV = "APP_ENV=local\nDB_PASSWORD=%s\nAPI_KEY=%s\nDEBUG=true\n"
_STANDS_FOR = (
    *("changeme", "your-password-here", "<password>", "secret", "password", "xxxxxxxx", ""),
    *("${DB_PASSWORD}", "CHANGE_ME", "example", "********", "postgres", "replace-me", "TODO"),
)


def lookalikes() -> dict[str, str]:
    """Two hundred harmless files, by URI: what public repositories have under such names."""
    made: dict[str, str] = {}
    code = ("py", "go", "rb", "ts", "js", "java", "rs", "md", "rst", "c", "kt", "swift", "ex")
    for at, ending in enumerate(code):
        for stem in ("credentials", "secrets", "secret_santa", "kubeconfig", "auth_tokens"):
            made[f"lib{at}/{stem}.{ending}"] = f"The {stem} module of the harbour.\n"
    for at, stands in enumerate(_STANDS_FOR):
        made[f"app{at}/sample.env.md"] = _EXAMPLE_ENV % (stands, stands)
        made[f"helm{at}/templates/secret.yaml"] = _HELM % at
        made[f"infra{at}/terraform.tfvars"] = (
            f'region = "eu-west-{at}"\ninstance_type = "t3.micro"\nadmin_password = "{stands}"\n'
        )
        made[f"cfg{at}/credentials.json"] = f'{{"user": "admin", "password": "{stands}"}}\n'
        made[f"k8s{at}/secret-store.yaml"] = (
            "apiVersion: external-secrets.io/v1beta1\nkind: SecretStore\nmetadata:\n"
            f"  name: harbour-{at}\nspec:\n  provider:\n    vault:\n      path: secret\n"
        )
        made[f"lang{at}/auth.json"] = (
            '{"failed": "These credentials do not match our records.",'
            ' "password": "The provided password is incorrect."}\n'
        )
        made[f"doc{at}/keys.md"] = (
            "# Keys\n\n```\n-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----\n```\n\n"
            f"Set AWS_ACCESS_KEY_ID=AKIAIOSFODNN7EXAMPLE and TOKEN={stands}.\n"
        )
        made[f"web{at}/tokens.json"] = (
            f'{{"color": {{"value": "#00{at:02}ff"}}, "space": {{"small": "4px"}}}}\n'
        )
    return made | _singles()


def _singles() -> dict[str, str]:
    return {
        "www/wp-config.php": "<?php\ndefine('DB_PASSWORD', getenv('DB_PASSWORD'));\n",
        "www/wp-config-sample.php": "<?php\ndefine('DB_PASSWORD', 'password_here');\n",
        ".yarnrc.yml": "nodeLinker: node-modules\nyarnPath: .yarn/releases/yarn-4.1.0.cjs\n",
        "maven/settings.xml": "<settings><mirrors><id>central</id></mirrors></settings>\n",
        "kube/kubeconfig.yaml": "kind: Config\nusers:\n- user:\n    token: <TOKEN>\n",
        "docs/passwords.txt": "How passwords are stored.\n\n" + (
            "The framework keeps a salted hash of each password and never the password itself,\n"
            "so that whoever reads the table of users learns nothing of value from what is there.\n"
        ) * 8,
        "rbac/secret-reader.yaml": (
            "kind: Role\nmetadata:\n  name: secret-reader\nrules:\n- apiGroups: ['']\n"
            "  resources: ['secrets']\n  verbs: ['get', 'list']\n"
        ),
        "ci/service-account.json": '{"type": "service_account", "private_key": "YOUR_KEY"}\n',
        "conf/config.json": '{"theme": "dark", "plugins": ["search"], "port": 8080}\n',
        "conf/database.yml": "test:\n  adapter: postgresql\n  password: postgres\n",
        "docs/connect.md": "Connect to postgres://user:password@localhost:5432/app first.\n",
        "docs/curl.md": "curl -H 'Authorization: Bearer $TOKEN' https://api.example.com\n",
        "docs/bearer.md": "Authorization: Bearer YOUR_LONG_ACCESS_TOKEN_HERE\n\n"
            "'Authorization': 'Bearer <your-long-lived-access-token>'\n\n"
            "Authorization: Bearer 123e4567-e89b-12d3-a456-426614174000\n\n"
            "Authorization: Basic dXNlcjpwYXNzd29yZDpleGFtcGxl\n\n"
            "Authorization: Bearer {{ access_token_of_deploy_user_2 }}\n",
        "docs/keys.md": "otpauth://totp/LABEL?secret=JBSWY3DPEHPK3PXP&issuer=Quay\n\n"
            "machine quay.org login jo password <password>\n\nPrivateKey = <private key>\n\n"
            '{"kty": "OKP", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}\n\n'
            '{"d": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}, which is no key\n\n'
            "sha256 003f786850e387550fdab836ed7e6dc881de23001bae0f4a2a1e7a2f1e8b91c3\n\n"
            "MTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MA==\n",
        "docs/hash.md": "Commit 3f786850e387550fdab836ed7e6dc881de23001b fixed the harbour.\n",
        "docs/uuid.md": "The id 123e4567-e89b-12d3-a456-426614174000 names a harbour.\n",
        "docs/integrity.md": '<script integrity="sha384-oqVuAfXRKap7fdgcCY5uykM6"></script>\n',
        "lock/go.sum.md": "github.com/pkg/errors v0.9.1 h1:FEBLx1zS214owpjy7qsBeixbURkuhQA=\n",
        "src/tokenizer.py": "max_tokens = 4096\ntoken_type_ids = None\nsecret_name = 'harbour'\n",
        "conf/compose.yaml": "environment:\n  POSTGRES_PASSWORD: ${POSTGRES_PASSWORD}\n",
        "conf/workflow.yml": "env:\n  TOKEN: ${{ secrets.GITHUB_TOKEN }}\n",
        "conf/values.yaml": "existingSecret: harbour-db\nsecretKeyRef:\n  name: harbour\n",
        "docs/history.md": "The history of the harbour.\n",
        "docs/environment.md": "Copy .env.example to .env first.\n",
        "src/id_rsa.md": "How to make a key for the harbour.\n",
        "conf/oauth.json": '{"provider": "github", "scopes": ["read:user"]}\n',
    }  # fmt: skip
