"""Kinds of secrets as people leave them in files, and texts that look like some and are none.

No secret stands in this file or in secret_kinds.json: all are put together from random letters when a test
or measurement runs. The kinds of the json were written before the patterns were looked at; those called held
back were measured once, when the patterns were finished: 116 of 131 were told. Those called blind came later,
from somebody who had not read the patterns: 103 of 116 were told, and 3 of 60 harmless texts rang, before any
was mended.
"""

from __future__ import annotations

import base64
import codecs
import hashlib
import io
import json
import pickle
import plistlib
import re
import string
import tarfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from assay.stages.packing.secrets.search import scan
from tests.packaging.canaries import drawn

HEX, UPPER, LOWER = "0123456789abcdef", string.ascii_uppercase + string.digits, string.ascii_lowercase
LOW = LOWER + string.digits
B32 = string.ascii_uppercase + "234567"
URL64 = string.ascii_letters + string.digits + "-_"
B64 = string.ascii_letters + string.digits + "+/"
DIGITS = string.digits


DRAWS = 3  # of each kind


@dataclass(frozen=True)
class Kind:
    """One kind of secret: what a file says that holds one."""

    name: str
    write: Callable[[str], str | bytes]


def _token(prefix: str, length: int, letters: str = "", around: str = "{}") -> Callable[[str], str]:
    return lambda label: around.format(
        prefix + (drawn(label, length, letters) if letters else drawn(label, length))
    )


def _base64(label: str, length: int) -> str:
    return base64.b64encode(drawn(label, length).encode()).decode()


def _digest64(label: str) -> str:
    return base64.b64encode(hashlib.sha256(label.encode()).digest()).decode()


def _uuid(label: str) -> str:
    return "-".join(drawn(f"{label} {n}", n, HEX) for n in (8, 4, 4, 4, 12))


def _github(label: str) -> str:
    return "ghp" + "_" + drawn(label, 36)


def _wide(text: str) -> str:
    return "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in text)


# As their providers document them; a line around them where the token alone has nothing of its own.
PROVIDERS: dict[str, Callable[[str], str]] = {
    "Shopify": _token("shp" + "at_", 32, HEX),
    "Square": _token("sq0" + "atp-", 22, URL64),
    "Linear": _token("lin" + "_api_", 40),
    "Notion": _token("ntn" + "_", 46),
    "Figma": _token("fig" + "d_", 40, URL64),
    "Atlassian": lambda d: "ATATT3" + "xFfGF0" + drawn(d, 172, URL64) + "=" + drawn(d, 8, HEX).upper(),
    "Bitbucket": _token("ATB" + "B", 32),
    "Airtable": lambda d: "pat" + drawn(d, 14) + "." + drawn(d + "b", 64, HEX),
    "Netlify": _token("nf" + "p_", 36),
    "Supabase": _token("sb" + "p_", 40, HEX),
    "PlanetScale": _token("pscale" + "_tkn_", 43, URL64),
    "Doppler": _token("dp" + ".pt.", 43),
    "New Relic": _token("NR" + "AK-", 27, UPPER),
    "Grafana": lambda d: "gl" + "sa_" + drawn(d, 32) + "_" + drawn(d, 8, HEX),
    "Sentry": _token("sntry" + "u_", 64, HEX),
    "Postman": lambda d: "PM" + "AK-" + drawn(d, 24, HEX) + "-" + drawn(d + "b", 34, HEX),
    "RubyGems": _token("rubygems" + "_", 48, HEX),
    "crates.io": _token("ci" + "o", 32),
    "NuGet": _token("oy" + "2", 43, LOW, "dotnet nuget push --api-key {}"),
    "Terraform": lambda d: drawn(d, 14) + "." + "atlasv1" + "." + drawn(d + "b", 67, URL64),
    "Pulumi": _token("pu" + "l-", 40, HEX),
    "1Password": lambda d: "ops" + "_eyJ" + _base64(d, 240).rstrip("="),
    "Tailscale": lambda d: "ts" + "key-auth-" + drawn(d, 11) + "CNTRL-" + drawn(d + "b", 32),
    "Pinecone": lambda d: "pc" + "sk_" + drawn(d, 6) + "_" + drawn(d + "b", 63),
    "RunPod": _token("rp" + "a_", 44, UPPER),
    "Fireworks": _token("fw" + "_", 24),
    "Modal": lambda d: f"modal token set --token-id ak-{drawn(d, 22)} --token-secret as-{drawn(d + 'b', 22)}",
    "Azure storage": lambda d: "AccountName=store;Account" + f"Key={_base64(d, 64)};EndpointSuffix=x",
    "Twilio": _token("SK", 32, HEX, 'twilio = Client("{}", region="ie1")'),
    "Mailchimp": _token("", 32, HEX, 'mailchimp.set_config({{"api_key": "{}-us12"}})'),
    "FCM": lambda d: "AAAA" + drawn(d, 7, URL64) + ":APA91b" + drawn(d + "b", 134, URL64),
    "Discord bot": lambda d: (
        "discord: "
        + base64.b64encode(drawn(d, 18, "123456789").encode()).decode()
        + "."
        + drawn(d, 6, URL64)
        + "."
        + drawn(d + "b", 38, URL64)
    ),
    "Telegram bot": lambda d: f"telegram: {drawn(d, 10, '123456789')}:AA" + drawn(d, 33, URL64),
    "Vault": _token("hv" + "s.", 24 + 66),
    "Dropbox": _token("sl" + ".B", 140, URL64),
    "Mapbox": lambda d: "s" + "k.eyJ" + _base64(d, 60).rstrip("=") + "." + drawn(d, 22, URL64),
    "Dynatrace": lambda d: "dt0" + "c01." + drawn(d, 24, UPPER) + "." + drawn(d, 64, UPPER),
    "SonarQube": _token("sq" + "p_", 40, HEX),
    "Docker Hub": _token("dckr" + "_pat_", 27, URL64),
    "OpenRouter": _token("sk" + "-or-v1-", 64, HEX),
    "NVIDIA": _token("nv" + "api-", 64, URL64),
    "LangSmith": lambda d: "lsv2" + "_pt_" + drawn(d, 32, HEX) + "_" + drawn(d + "b", 10, HEX),
    "Jina": _token("ji" + "na_", 56),
    "Tavily": _token("tv" + "ly-dev-", 32),
    "PostHog": _token("ph" + "x_", 43),
    "Sourcegraph": _token("sg" + "p_", 40, HEX),
    "Prefect": _token("pn" + "u_", 36),
    "Alibaba": _token("LTA" + "I5t", 18),
    "Heroku": _token("HRKU" + "-AA", 58, URL64),
    "an unknown provider": _token("zq" + "w_live_", 32),
    "another unknown provider": _token("acmekey" + "-", 40),
}
# Told by what stands around them.
CONTEXTS: dict[str, Callable[[str], str]] = {
    "wandb login": _token("", 40, HEX, "wandb login {}"),
    "curl -u": _token("", 14, "", "curl -s -u deploy:{} https://api.acme-tools.io/v1/jobs"),
    "mysql -p": _token("-p", 12, "", "mysql -h db -u root {} shop"),
    "sshpass": _token("", 12, "", "sshpass -p {} ssh me@box uptime"),
    "sshpass, quoted": _token("", 12, "", "sshpass -p '{}' scp a b:"),
    "redis-cli": _token("", 20, "", "redis-cli -h cache -a {} ping"),
    "docker login": _token("", 20, "", "docker login -u team -p {} registry.acme-tools.io"),
    "--password": _token("", 12, "", "deploy --user me --password {} --now"),
    "Cookie": _token("", 32, LOW, "Cookie: theme=dark; sessionid={}; lang=en"),
    "Set-Cookie": _token("", 43, URL64, "< Set-Cookie: auth={}; HttpOnly"),
    "SAS": lambda d: (
        "https://store.blob.core.windows.net/a/b?sv=2022-11-02&sp=r&sig="
        + _base64(d, 32).replace("+", "%2B").replace("/", "%2F").replace("=", "%3D")
    ),
    "presigned S3": _token("", 64, HEX, "https://b.s3.amazonaws.com/k?X-Amz-Expires=900&X-Amz-Signature={}"),
    "htpasswd": lambda d: "admin:$" + "apr1$" + drawn(d, 8) + "$" + drawn(d + "b", 22),
    "htpasswd, bcrypt": lambda d: "admin:$" + "2y$10$" + drawn(d, 53),
    "shadow": lambda d: "root:$" + "6$" + drawn(d, 16) + "$" + drawn(d + "b", 86) + ":19000:0:99999:7:::",
    "shadow, yescrypt": lambda d: (
        "me:$" + "y$j9T$" + drawn(d, 22) + "$" + drawn(d + "b", 43) + ":19700::::::"
    ),
    "LDAP": lambda d: "userPassword: {SSHA}" + _base64(d, 24),
    "NT hashes": lambda d: f"Administrator:500:{drawn(d, 32, HEX)}:{drawn(d + 'b', 32, HEX)}:::",
    "PuTTY": lambda d: (
        "PuTTY-User-Key-"
        + "File-3: ssh-ed25519\nEncryption: none\nPrivate-"
        + f"Lines: 1\n{_base64(d, 36)}\n"
    ),
    "WireGuard": lambda d: "[Interface]\nPrivate" + f"Key = {_base64(d, 32)}\nAddress = 10.8.0.2/24",
    "WireGuard, preshared": lambda d: "[Peer]\nPreshared" + f"Key = {_base64(d, 32)}",
    "OpenVPN": lambda d: (
        "-----BEGIN OpenVPN Static"
        + " key V1-----\n"
        + "\n".join(drawn(f"{d}{n}", 32, HEX) for n in range(16))
        + "\n-----END OpenVPN Static key V1-----"
    ),
    "OpenSSH": lambda d: (
        "-----BEGIN OPENSSH PRIVATE" + f" KEY-----\n{_base64(d, 48)}\n-----END OPENSSH PRIVATE" + " KEY-----"
    ),
    "PGP": lambda d: (
        "-----BEGIN PGP PRIVATE KEY"
        + f" BLOCK-----\n\n{_base64(d, 48)}\n-----END PGP PRIVATE KEY"
        + " BLOCK-----"
    ),
    "wpa_supplicant": _token("", 14, "", 'network={{\n  ssid="lab"\n  psk="{}"\n}}'),
    "otpauth": _token("", 32, B32, "otpauth://totp/acme:me?secret={}&issuer=acme"),
    "seed phrase": lambda d: (
        "recovery phrase: " + " ".join(drawn(f"{d}{n}", 4 + n % 4, LOWER) for n in range(12))
    ),
    "Ethereum": _token("0x", 64, HEX, "ETH_PRIVATE_KEY={}"),
    "Django": _token("", 50, URL64 + "!@#%^&*", "SECRET_" + "KEY = 'django-insecure-{}'"),
    "Laravel": lambda d: "APP_" + f"KEY=base64:{_base64(d, 32)}",
    "Rails": _token("", 128, HEX, "  secret_key" + "_base: {}"),
    "Postgres URL": _token("", 12, "", "postgresql://svc:{}@db.acme-tools.io:5432/shop"),
    "MongoDB URL": _token("", 12, "", "mongodb+srv://svc:{}@cluster0.ab12c.mongodb.net/x"),
    "Redis URL": _token("", 20, "", "redis://:{}@cache.acme-tools.io:6379/0"),
    "JDBC": _token("", 12, "", "jdbc:postgresql://db:5432/shop?user=svc&password={}"),
    "ODBC": _token("", 12, "", "Driver=x;Server=db;UID=svc;PWD={};Encrypt=yes"),
    "PGPASSWORD": _token("", 12, "", "PGPASSWORD={} psql -h db shop"),
    "npmrc": _token("", 36, HEX, "//registry.acme-tools.io/:_auth" + "Token={}"),
    "Maven": _token("", 14, "", "<server><username>ci</username><password>{}</password></server>"),
    "web.config": _token("", 30, "", '<add key="ApiKey" value="{}" />'),
    "docker config": lambda d: (
        '{"auths":{"r.acme-tools.io":{"auth":"'
        + base64.b64encode(f"team:{drawn(d, 14)}".encode()).decode()
        + '"}}}'
    ),
    "kubeconfig": lambda d: f"    client-key-data: {_base64(d, 90)}",
    "GCP service account": lambda d: (
        '{"type": "service_account", "private_key_id": "' + drawn(d, 40, HEX) + '"}'
    ),
    "prose": _token("", 14, "", "the wifi password is {} and works upstairs"),
    "API key in prose": _token("", 28, "", "use my api key {} for now"),
    "header": _token("", 32, HEX, "curl -H 'X-Api-Key: {}' https://api.acme-tools.io"),
    "SSWS": _token("00", 40, URL64, "Authorization: SSWS {}"),
    "e-mail": lambda d: f"ask {drawn(d, 6, LOWER)}.{drawn(d + 'b', 7, LOWER)}@{drawn(d + 'c', 7, LOWER)}.com",
    "private host": lambda d: f"http://{drawn(d, 6, LOWER)}-7.prod.internal/metrics",
    "private host, lan": lambda d: f"ssh {drawn(d, 6, LOWER)}-gpu3.corp.{drawn(d + 'b', 6, LOWER)}.lan",
    "private address": lambda d: f"scp model.bin 10.{17 + len(d)}.4.31:/srv/models",
}
DISGUISES: dict[str, Callable[[str], str]] = {
    "reversed": lambda d: _github(d)[::-1],
    "rot13": lambda d: codecs.encode(_github(d), "rot13"),
    "soft hyphens": lambda d: "\u00ad".join(_github(d)),
    "zero width": lambda d: "\u200b".join(_github(d)),
    "full width": lambda d: _wide(_github(d)),
    "base32": lambda d: base64.b32encode(_github(d).encode()).decode(),
    "spread out": lambda d: " ".join(_github(d)),
    "put together": lambda d: f'token = "{_github(d)[:18]}" + "{_github(d)[18:]}"',
    "bytes as numbers": lambda d: ", ".join(str(ord(c)) for c in _github(d)),
}
KINDS: tuple[Kind, ...] = tuple(
    Kind(name, write) for group in (PROVIDERS, CONTEXTS, DISGUISES) for name, write in group.items()
)
# What everybody's examples say, digests, ids that servers give, names of models, code and prose.
HARMLESS: tuple[str, ...] = (
    "aws_access_key_id = AKIA" + "IOSFODNN7EXAMPLE",
    "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/" + "bPxRfiCYEXAMPLEKEY",
    '{"name": "login", "arguments": {"user": "alice", "password": "hunter2"}}',
    "Once upon a time all her files lay in /home/alice and nobody minded.",
    "write to user:password@example.com",
    "https://user:password@example.com/path",
    "reach me at jane.doe@example.org or bob@mail.example",
    "git clone git@github.com:team/code.git",
    "sha256: " + drawn("digest", 64, HEX),
    '"prompt_digest": "' + drawn("prompt", 64, HEX) + '"',
    '"tokens_sha256": "' + drawn("tokens", 64, HEX) + '"',
    '{"key": "' + drawn("row key", 64, HEX) + '"}',
    "id: " + _uuid("row"),
    'integrity="sha256-' + _digest64("sri") + '"',
    "commit " + drawn("commit", 40, HEX),
    "models--Qwen--Qwen2.5-0.5B-Instruct/snapshots/" + drawn("snapshot", 40, HEX),
    "model-00001-of-00004.safetensors",
    "unsloth/Meta-Llama-3.1-8B-Instruct-bnb-4bit",
    "layers.11.self_attn.q_proj.lora_A.default.weight",
    "api_key=os.environ['API_KEY']",
    "export OPENAI_API_KEY=sk-" + "your-key-here",
    'headers = {"Authorization": f"Bearer {token}"}',
    "password: ${DB_PASSWORD}",
    "max_tokens: 4096, pad_token_id: 151643, eos_token: <|im_end|>",
    "curl -u user:password https://api.example.com",
    "mysql -u root -p shop < dump.sql",
    "nvidia-curand-cu12==10.3.9.90",
    "listening on http://127.0.0.1:8000 and 0.0.0.0:9000",
    "the secret is to hold the password field empty until the token is read",
    "def password_of(user: str) -> str: return user.password",
    "W @ x.mean, self.local.internal_state, threading.local",
    "data:image/png;base64," + "".join(_digest64(f"png{n}")[:40] for n in range(9)),
    "task_collider_heldout_0123456789_step_00042",
    "checkpoint_" + drawn("checkpoint", 40, HEX),
    "password: ********",
    '"id": "chatcmpl-' + drawn("completion", 29) + '"',
    '{"tool_call_id": "call_' + drawn("call", 24) + '"}',
    "toolu_01" + drawn("tool", 22),
    '"etag": "' + drawn("etag", 32) + '"',
    "C:\\Users\\Public\\Documents and /home/user/project",
)


_SETS = {
    **{
        "n": string.ascii_letters + string.digits,
        "h": HEX,
        "H": HEX.upper(),
        "u": UPPER,
        "l": LOWER,
        "L": LOW,
    },
    **{"w": URL64, "d": DIGITS, "b": B64, "B": B32, "a": string.ascii_letters, "j": URL64},
}


def filled(template: str, label: str) -> str:
    """Return a template with drawn letters in its gaps: «n36» are 36 of a set, «e18» is base64 of
    18 bytes, «U» a UUID and «p» a password as people choose them."""

    def one(gap: re.Match[str]) -> str:
        sign, length, seed = gap[1], int(gap[2] or 0), f"{label} {gap.start()}"
        if sign == "U":
            return _uuid(seed)
        if sign == "e":
            return _base64(seed, length)
        if sign == "p":
            word = drawn(seed, 12, LOWER)
            return f"{word[:6].capitalize()}-{word[6:].capitalize()}{drawn(seed, 4, '123456789')}!"
        return drawn(seed, length, _SETS[sign])

    return re.sub("«([A-Za-z])([0-9]*)»", one, template)


_WRITTEN = json.loads(Path(__file__).with_suffix(".json").read_text())


def _templates(half: str) -> tuple[Kind, ...]:
    return tuple(
        Kind(name, lambda label, template=template: filled(template, label))  # type: ignore[misc]
        for name, template in _WRITTEN[half].items()
    )


def _in_tar(text: str) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        entry = tarfile.TarInfo("settings.ini")
        entry.size = len(text)
        tar.addfile(entry, io.BytesIO(text.encode()))
    return packed.getvalue()


def _in_cell(text: str, *, out: bool) -> bytes:
    lines = ["import os\n", f"{text}\n", "print(1)"]
    outputs = [{"output_type": "stream", "name": "stdout", "text": lines}] if out else []
    cell = {"cell_type": "code", "metadata": {}, "source": [] if out else lines, "outputs": outputs}
    return json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}).encode()


def _in_secret(text: str) -> bytes:
    coded = base64.b64encode(f"[server]\n{text}\nretries = 3\n".encode()).decode()
    lines = "\n".join(f"    {coded[n : n + 76]}" for n in range(0, len(coded), 76))
    return f"kind: Secret\ndata:\n  settings.ini: |\n{lines}\n".encode()


# A line with a secret in files of other forms.
FORMS: dict[str, Callable[[str], bytes]] = {
    "utf-16": lambda text: text.encode("utf-16"),
    "utf-16-le": lambda text: text.encode("utf-16-le"),
    "utf-16-be": lambda text: text.encode("utf-16-be"),
    "utf-32": lambda text: text.encode("utf-32"),
    "utf-32-be": lambda text: text.encode("utf-32-be"),
    "data of a Secret": _in_secret,
    "source of a notebook": partial(_in_cell, out=False),
    "output of a notebook": partial(_in_cell, out=True),
    "quoted-printable": lambda text: "".join(f"={ord(sign):02X}" for sign in text).encode(),
    "pickle": lambda text: pickle.dumps({"settings": [text]}),
    "pickled bytes": lambda text: pickle.dumps({"settings": text.encode()}),
    "tar.gz": _in_tar,
    "HTML numbers": lambda text: "".join(f"&#{ord(sign)};" for sign in text).encode(),
    "fromCharCode": lambda text: f"String.fromCharCode({','.join(str(ord(c)) for c in text)})".encode(),
    "zlib in base64": lambda text: base64.b64encode(zlib.compress(text.encode())),
    "plist": lambda text: plistlib.dumps({"settings": text}, fmt=plistlib.FMT_BINARY),
    "C array": lambda text: ", ".join(f"0x{ord(sign):02x}" for sign in text).encode(),
    "npz": lambda text: _npz(text),
}


def _npz(text: str) -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, settings=np.array([text]))
    return file.getvalue()


IN_FORMS = tuple(
    Kind(f"in {name}", lambda label, form=form: form(f"api_token = {drawn(label, 40)}"))  # type: ignore[misc]
    for name, form in FORMS.items()
)
BLIND = (*_templates("blind"), *IN_FORMS)
BLIND_HARMLESS = tuple(filled(text, name) for name, text in _WRITTEN["harmless_blind"].items())
WRITTEN_BEFORE, HELD_BACK = _templates("development"), _templates("held_back")
ORDINARY: tuple[str, ...] = tuple(filled(text, name) for name, text in _WRITTEN["harmless"].items())


def told(text: str | bytes) -> bool:
    """Return whether the scan finds anything in a file with such a text in the middle, or in such a file."""
    around = "nothing to see on this line"
    whole = text if isinstance(text, bytes) else f"{around}\n{text}\n{around}\n".encode()
    return bool(scan({"a": whole}, (), []))
