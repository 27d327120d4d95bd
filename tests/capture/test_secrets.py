"""What must not be written down: spellings of secrets, arguments that only look alike, and any words at all."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gpuledger.capture.secrets import WITHHELD, shareable_command, shareable_value, without_secrets
from gpuledger.trace.model import Private
from gpuledger.verbs.info import info
from support.command import ROOT, gpuledger
from support.traces.trace_notation import trace

S = "hunter2-correct"
"""A secret that nothing in its own form gives away: its name must."""
RANDOM = "q7Zt9LmW2xRkB4vNc8YpD3sFhJ6g"

SECRETS: tuple[tuple[str, tuple[str, ...]], ...] = (
    # by the name of an option, in any case and with any separator
    (S, ("train", "--api-key", S)),
    (S, ("train", f"--api-key={S}")),
    (S, ("train", f"--api_key={S}")),
    (S, ("train", f"--apikey={S}")),
    (S, ("train", f"--ApiKey={S}")),
    (S, ("train", "--huggingface-token", S)),
    (S, ("train", f"--Password={S}")),
    (S, ("train", "--PASSWORD", S)),
    (S, ("train", "-password", S)),
    (S, ("train", f"--db.password={S}")),
    (S, ("train", f"--dbpass={S}")),
    (S, ("train", f"--user-pwd={S}")),
    (S, ("train", f"--client-secret={S}")),
    (S, ("train", "--secret", S)),
    (S, ("train", f"--credentials={S}")),
    (S, ("train", f"--basic-auth=me:{S}")),
    (S, ("train", f"--passphrase={S}")),
    (S, ("train", f"--token={S}")),
    (S, ("train", f"--hf_token={S}")),
    (S, ("train", "--wandb-key", S)),
    (S, ("train", f"--encryption-key={S}")),
    # settings: variables, hydra, yaml, properties
    (S, ("env", f"HF_TOKEN={S}", "train")),
    (S, ("env", f"DB_PASSWORD=two words {S}", "train")),
    (S, ("env", f"AWS_SECRET_ACCESS_KEY={S}", "train")),
    (S, ("env", f"OPENAI_API_KEY_2={S}", "train")),
    (S, ("docker", "run", "-e", f"GITHUB_TOKEN={S}", "image")),
    (S, ("capture", f"--env=WANDB_API_KEY={S}", "train")),
    (S, ("train", f"api_key={S}")),
    (S, ("train", f"+logger.wandb.api_key={S}")),
    (S, ("java", f"-Dservice.auth.token={S}")),
    (S, ("train", "--config", f"{{api_key: {S}, steps: 4}}")),
    (S, ("helm", "--set", f"db.host=x,db.password={S}")),
    # texts for a shell
    (S, ("bash", "-c", f"export HF_TOKEN={S}; python train.py")),
    (S, ("bash", "-c", f"HF_TOKEN='{S}' python train.py")),
    (S, ("bash", "-c", f"python train.py --api-key {S} --steps 4")),
    (S, ("bash", "-lc", f'python train.py --api-key="{S}"')),
    (S, ("sh", "-c", f"mysql --user=me --password={S}&& true")),
    # JSON in an argument
    (S, ("train", "--config", f'{{"api_key": "{S}", "steps": 4}}')),
    (S, ("train", f'--headers={{"Authorization": "Bearer {S}"}}')),
    (S, ("train", f'--config={{"auth": {{"password": "{S}"}}}}')),
    (S, ("bash", "-c", f'train --config "{{\\"token\\": \\"{S}\\"}}"')),
    (S, ("train", f"--config={{'secretKey': '{S}'}}")),
    # headers
    (S, ("curl", "-H", f"Authorization: Bearer {S}")),
    (S, ("curl", "-H", f"authorization: Basic {S}")),
    (S, ("curl", f"--header=X-Api-Key: {S}")),
    (S, ("curl", "-H", f"Cookie: session={S}; path=/")),
    (S, ("curl", "-H", f"PRIVATE-TOKEN:{S}")),
    # addresses
    (S, ("train", f"--db=postgres://me:{S}@db.example/runs")),
    (S, ("train", f"redis://:{S}@cache:6379/0")),
    (S, ("git", "clone", f"https://{S}@github.com/a/b.git")),
    (S, ("train", f"https://example.com/data?x=1&access_token={S}&y=2")),
    (S, ("train", f"https://store/blob?sv=2024&sig={S}")),
    (S, ("curl", "-u", f"me:{S}", "https://example.com")),
    # by the form of the value, whatever it is called
    ("hf_" + "aBcDeFgHiJkLmNoPqRsTuVwXyZ012345", ("train", "--from", "hf_aBcDeFgHiJkLmNoPqRsTuVwXyZ012345")),
    ("ghp_" + "0a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R", ("x", "--by=ghp_0a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R")),
    ("sk-proj-" + "abcdefghijklmnop1234", ("x", "sk-proj-abcdefghijklmnop1234")),
    ("AKIA" + "IOSFODNN7EXAMPLE", ("x", "--id", "AKIAIOSFODNN7EXAMPLE")),
    ("eyJhbGciOiJI.eyJzdWIiOiIx.SflKxwRJSM", ("x", "--with", "eyJhbGciOiJI.eyJzdWIiOiIx.SflKxwRJSM")),
    ("nvapi-" + "0123456789abcdefABCDEF", ("x", "--ngc", "nvapi-0123456789abcdefABCDEF")),
    # by entropy alone
    (RANDOM, ("train", "--with", RANDOM)),
)

HEX = "5f4dcc3b5aa765d61d8327deb882cf99a1b2c3d4"
"""As a key of Weights & Biases is: without capitals."""
B64 = "wJalrXUtnFEMIbPxRfiCYzq7K9MDENGqQ2hT0aZ+"

NEW_SECRETS: tuple[tuple[str, tuple[str, ...]], ...] = (
    # programs that take one without a name
    (HEX, ("wandb", "login", HEX)),
    (HEX, ("wandb", "login", "--relogin", HEX)),
    (HEX, ("bash", "-c", f"wandb login {HEX} && python train.py")),
    (S, ("docker", "login", "-u", "me", "-p", S, "registry.example.com")),
    (S, ("bash", "-c", f"docker login -p {S}; docker run image")),
    (S, ("podman", "login", "-p", S)),
    (S, ("redis-cli", "-h", "host", "-a", S, "ping")),
    (S, ("zip", "-P", S, "out.zip", "run.sqlite")),
    (S, ("unzip", "-P", S, "in.zip")),
    (S, ("7z", "x", f"-p{S}", "in.7z")),
    (S, ("openssl", "enc", "-k", S, "-in", "a")),
    (S, ("openssl", "rsa", "-passin", f"pass:{S}")),
    (S, ("openssl", "enc", "-aes256", "-pass", f"pass:{S}")),
    (S, ("ssh-keygen", "-N", S, "-f", "id")),
    (S, ("az", "login", "--service-principal", "-u", "app", "-p", S)),
    (S, ("twine", "upload", "-u", "me", "-p", S, "dist/a.whl")),
    (S, ("aws", "configure", "set", "aws_secret_access_key", S)),
    (S, ("npm", "config", "set", "//registry.example.com/:_authToken", S)),
    (S, ("npm", "publish", f"--//registry.example.com/:_authToken={S}")),
    (S, ("git", "config", "user.password", S)),
    (f"hvs.CAESI{RANDOM}", ("vault", "login", f"hvs.CAESI{RANDOM}")),
    (f"s.{RANDOM[:24]}", ("vault", "login", f"s.{RANDOM[:24]}")),
    # addresses
    (HEX, ("curl", f"https://b.s3.amazonaws.com/x?X-Amz-Date=20260101T000000Z&X-Amz-Signature={HEX}")),
    (B64, ("curl", f"https://b.s3.amazonaws.com/x?X-Amz-Security-Token={B64}&X-Amz-Expires=60")),
    (RANDOM, ("curl", f"https://storage.googleapis.com/b/x?X-Goog-Signature={RANDOM}")),
    (RANDOM, ("curl", f"https://a.blob.core.windows.net/c?sv=2022-11-02&sig={RANDOM}%3D")),
    (RANDOM, ("notify", f"https://discord.com/api/webhooks/123456789012345678/{RANDOM}-{RANDOM}")),
    (
        "XyZ12abCDe34fGhIj56KlMn7",
        ("notify", "https://hooks.slack.com/services/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"),
    ),
    (RANDOM, ("notify", f"https://api.telegram.org/bot123456789:{RANDOM}aaaaaaa/sendMessage")),
    (S, ("train", f"redis://:{S}@host:6379/0")),
    (S, ("train", f"mongodb+srv://me:{S}@cluster.example.net/db")),
    (S, ("pip", "install", "--index-url", f"https://me:{S}@pypi.example.com/simple", "x")),
    (HEX, ("git", "clone", f"https://{HEX}@github.com/me/x")),
    (HEX, ("pip", "install", f"git+https://{HEX}:x-oauth-basic@github.com/me/x")),
    # texts of other shells and of Python
    (S, ("python", "-c", f"import os; os.environ['HF_TOKEN']='{S}'; import train")),
    (S, ("python", "-c", f'import os; os.environ["HF_TOKEN"] = "{S}"')),
    (S, ("python", "-c", f"import os; os.environ.setdefault('HF_TOKEN', '{S}')")),
    (S, ("python", "-c", f"import os; os.putenv('WANDB_API_KEY', '{S}')")),
    (S, ("python", "-c", f"os.environ.update(HF_TOKEN='{S}')")),
    (S, ("python", "-c", f"os.environ.update({{'HF_TOKEN': '{S}'}})")),
    (S, ("python", "-c", f"from huggingface_hub import login; login(token='{S}')")),
    (HEX, ("python", "-c", f"import wandb; wandb.login('relogin', '{HEX}')")),
    (S, ("fish", "-c", f"set -x HF_TOKEN {S}; python train.py")),
    (S, ("fish", "-c", f"set -gx HF_TOKEN {S}")),
    (S, ("fish", "-c", f"set --export HF_TOKEN '{S}'")),
    (S, ("csh", "-c", f"setenv HF_TOKEN {S}; python train.py")),
    (S, ("pwsh", "-c", f"$env:HF_TOKEN='{S}'; python train.py")),
    (S, ("cmd", "/c", f"set HF_TOKEN={S}&& python train.py")),
    (S, ("bash", "-c", f"declare -x HF_TOKEN={S}")),
    (HEX, ("bash", "-c", f"printf 'machine api.wandb.ai login user password {HEX}' > ~/.netrc")),
    (S, ("bash", "-c", f"echo {S} | docker login --password-stdin -p {S}")),
    # settings
    (S, ("terraform", "apply", "-var", f"db_password={S}")),
    (S, ("kubectl", "create", "secret", "generic", "x", f"--from-literal=password={S}")),
    (B64, ("train", f"DefaultEndpointsProtocol=https;AccountName=a;AccountKey={B64}==;EndpointSuffix=core")),
    (S, ("psql", f"host=h user=u password={S} dbname=d")),
    (S, ("train", f"Server=h;Database=d;User Id=u;Password={S};")),
    (S, ("ansible-playbook", "--extra-vars", f'{{"db_pass": "{S}"}}')),
    (S, ("curl", "-H", f"PRIVATE-TOKEN: {S}", "https://gitlab.example.com")),
    (S, ("curl", "-H", f"X-Auth-Key: {S}", "https://x")),
    (S, ("curl", "--oauth2-bearer", S, "https://x")),
    (S, ("rclone", "copy", f"--s3-secret-access-key={S}", "a", "b")),
    (S, ("modal", "token", "set", "--token-secret", S)),
    # forms, under no name
    (f"glpat-{RANDOM[:20]}", ("train", f"glpat-{RANDOM[:20]}")),
    (f"dckr_pat_{RANDOM[:27]}", ("train", f"dckr_pat_{RANDOM[:27]}")),
    (f"npm_{RANDOM}aaaaaaaa", ("train", f"npm_{RANDOM}aaaaaaaa")),
    (f"nvapi-{RANDOM}{RANDOM}", ("train", f"nvapi-{RANDOM}{RANDOM}")),
    (HEX, ("train", HEX)),
    (HEX, ("train", "--run", HEX)),
    (HEX[:32], ("train", f"--login={HEX[:32]}")),
    (B64, ("train", B64)),
)

OTHERS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (S, ("mysql", "-uroot", f"-p{S}")),
    (S, ("psql", f"postgresql://bob:{S}@db/x")),
    (S, ("redis-cli", "-a", S)),
    (S, ("sshpass", "-p", S, "ssh", "host")),
    (S, ("curl", "-u", f"bob:{S}", "https://x")),
    (RANDOM, ("curl", "-H", f"Authorization: Basic {RANDOM}")),
    (S, ("curl", "-H", f"X-Api-Key: {S}")),
    (RANDOM, ("curl", "--cookie", f"session={RANDOM}")),
    (S, ("wget", f"--http-password={S}", "u")),
    (RANDOM, ("git", "clone", f"https://oauth2:{RANDOM}@gitlab.com/x.git")),
    (S, ("pip", "install", "--index-url", f"https://u:{S}@pypi.corp/simple")),
    (RANDOM, ("huggingface-cli", "login", "--token", f"hf_{RANDOM}")),
    (HEX, ("python", "train.py", f"--wandb-api-key={HEX}")),
    (HEX, ("python", "train.py", f"+logger.wandb.api_key={HEX}")),
    (RANDOM, ("env", f"OPENAI_API_KEY=sk-proj-{RANDOM}", "python", "x.py")),
    (S, ("python", "-c", f"import os; os.environ.update(HF_TOKEN='{S}')")),
    (S, ("bash", "-c", f"export ANTHROPIC_API_KEY={S}; python x.py")),
    (S, ("ray", "start", f"--redis-password={S}")),
    (S, ("jupyter", "lab", f"--NotebookApp.token={S}")),
    (S, ("docker", "run", "-e", f"HF_TOKEN={S}", "img")),
    (RANDOM, ("aws", "configure", "set", "aws_secret_access_key", RANDOM)),
    (S, ("az", "login", "--service-principal", "-u", "x", "-p", S)),
    (RANDOM, ("vault", "login", f"hvs.{RANDOM}")),
    (S, ("openssl", "enc", "-aes-256-cbc", "-k", S)),
    (S, ("gpg", "--batch", "--passphrase", S)),
    (RANDOM, ("http", "POST", "x", f"Authorization:Bearer {RANDOM}")),
    (S, ("python", "serve.py", "--ssl-keyfile-password", S)),
    (S, ("vllm", "serve", "m", "--api-key", S)),
    (RANDOM, ("ngrok", "config", "add-authtoken", RANDOM)),
    (S, ("python", "x.py", "--db", f"mongodb+srv://u:{S}@c.mongodb.net")),
    (RANDOM, ("python", "x.py", f"--slack-webhook=https://hooks.slack.com/services/T00000000/B00000000/{RANDOM}")),
    (RANDOM, ("python", "x.py", "--jwt", f"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.{RANDOM}")),
    (S, ("python", "x.py", "--config", f'{{"password": "{S}"}}')),
    (S, ("python", "x.py", "--set", f"db.password: {S}")),
    (S, ("smbclient", "//h/s", "-U", f"bob%{S}")),
    (S, ("ldapsearch", "-x", "-w", S)),
    (RANDOM, ("mc", "alias", "set", "m", "http://x", "AKIAIOSFODNN7EXAMPLE", RANDOM)),
    (RANDOM, ("s3cmd", f"--secret_key={RANDOM}")),
)
"""Those of other people's programs, thought of before the rules were looked at: two of 38 leaked, `-w` and `-U`."""

B = "frabjous day callooh"
"""Words with blanks, of which a filter may keep some."""

STRUCTURES: tuple[tuple[str, ...], ...] = (
    # the value of a name to its end: brackets, blocks, lines, elements, headers
    ("x", "--config", f'{{"api_keys": ["{S}", "{B}"], "lr": 1}}'),
    ("x", "--config", f"{{'tokens': ('{S}', '{B}'), 'lr': 1}}"),
    ("x", "--config", f'{{"db": {{"credentials": {{"user": "me", "id": "{B}"}}}}, "lr": 1}}'),
    ("x", "--config", f'{{"password": "{S}\\"{B}", "lr": 1}}'),
    ("x", "--config", f'{{"token": "{S}, {B}'),
    ("x", "--config", f"password: |\n  {B}\n\n  {S}\nlr: 1"),
    ("x", "--config", f"api_keys:\n- {S}\n- {B}\nlr: 1"),
    ("x", "--config", f"password: !vault |\n  {B}\n  {S}\nlr: 1"),
    ("x", "--config", f"[db]\npassword = {B}\nlr = 1"),
    ("x", "--config", f'tokens = [\n  "{S}",\n  "{B}",\n]\nlr = 1'),
    ("x", "--config", f"[secrets]\nanything = {B}\n[db]\nlr = 1"),
    ("x", "--config", f"<a><password>{B}</password><lr>1</lr></a>"),
    ("x", "--config", f"<a password='{B}' lr='1'/>"),
    ("x", "--config", f"<password><![CDATA[{B}]]></password>"),
    ("x", "--netrc", f"machine h login me password {S}"),
    ("curl", "-H", f'Authorization: Digest username="me", realm="{S}", response="{S}2"'),
    # names and values in pairs
    ("x", "--config", f'[{{"value": "{B}", "name": "HF_TOKEN"}}, {{"name": "lr", "value": "1"}}]'),
    ("x", "--config", f"env:\n- name: HF_TOKEN\n  value: {B}\n- name: LR\n  value: 1"),
    ("x", "--config", f'<setting name="Password"><value>{B}</value></setting>'),
    ("x", "--config", f"kind: Secret\nmetadata:\n  name: x\nstringData:\n  anything: {B}"),
    ("aws", "--parameters", f"ParameterKey=DBPassword,ParameterValue={S}"),
    # code
    ("python", "-c", f"password: str = '{B}'; run(1)"),
    ("python", "-c", f"API_KEYS: Final[list[str]] = ['{S}', '{B}']; run(1)"),
    ("python", "-c", f"client = Client(auth=('me', '{B}'), timeout=1)"),
    ("node", "-e", f"const apiKey: string = `{B}`; run(1)"),
    ("php", "-r", f"return ['password' => '{B}', 'lr' => 1];"),
    # words of programs, in texts for shells and behind other programs
    ("kubectl", "create", "secret", "generic", "x", f"--from-literal=k={S}"),
    ("sudo", "timeout", "9", "sqlcmd", "-S", "h", "-P", S),
    ("mongosh", "-u", "me", "-p", S),
    ("http", "-a", f"me:{S}", "http://h"),
    ("redis-cli", "AUTH", S),
    ("vault", "kv", "put", "secret/x", f"a={S}", f"b={B}"),
    ("htpasswd", "-b", "file", "me", S),
    ("setx", "HF_TOKEN", S),
    ("consul", "kv", "put", "db/password", S),
    ("curl", "-b", f"sid={S}; other={S}2", "http://h"),
    ("ssh", "h", f"sudo mysql -ume -p{S} -e 'select 1'"),
    ("bash", "-c", f"echo {S} | docker login -u me --password-stdin"),
    ("bash", "-c", f"docker login --password-stdin <<< '{B}'"),
    ("bash", "-c", f"cat > .env <<EOF\nHF_TOKEN={B}\nLR=1\nEOF"),
    ("bash", "-c", f"bash -c \"export API_KEY='{B}'; python t.py\""),
    ("sbatch", f"--wrap=python t.py --api-key '{B}' --lr 1"),
    # quotes in quotes, and what follows a value in the same word
    ("bash", "-c", f"TOKENS=('{S}' '{B}'); train"),
    ("bash", "-c", f"train \\\n  --api-key \\\n  {S}"),
    ("x", "--api-keys", HEX[:32], HEX[:32]),
    ("x", "MODEL.API_KEY", S),
    ("x", "--api-key", f"{S}-{S}4", "--note", f"run-{S}-{S}4"),
    ("pwsh", "-c", f"$env:sessionToken = '{B}'"),
    # names of every style, also where the value is a number
    *(("x", f"--{name}", S) for name in ("pw", "cred", "creds", "passcode", "jwt", "sas", "dbPw", "tokens")),
    *(("env", f"{name}={S}", "x") for name in ("GITHUB_PAT", "CI_JOB_JWT_V2", "TOKENS", "API_KEY_OPENAI", "TOKEN_HUB")),
    *(("x", f"--{name}", "731942") for name in ("pin", "otp", "mfa-code")),
    ("x", "--login", f"me:{S}"),
    # forms of services, with short and wordlike bodies
    *(("x", f"{tag}{S}-{S}") for tag in ("dckr_pat_", "GOCSPX-", "xapp-1-", "glptt-", "ATATT3", "shpat_", "whsec_")),
    *(("x", f"{tag}{HEX[:32]}") for tag in ("dapi", "acme-tok-", "lin_api_", "secret_")),
    ("x", f"-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n{S}\n-----END PGP PRIVATE KEY BLOCK-----"),
)
"""Samples of an issue: of 244 new spellings 98 leaked, and some were cut in half."""


def pieces(secret: str) -> set[str]:
    return {secret[place : place + 4] for place in range(len(secret) - 3)}


LEFT: tuple[str, ...] = tuple(pieces(S) | pieces(B) | pieces("731942") | pieces(HEX[:32]))


HARMLESS: tuple[tuple[str, ...], ...] = (
    ("python", "train.py", "--max-new-tokens", "128"),
    ("python", "train.py", "--max-tokens=4096"),
    ("python", "train.py", "--num-key-value-heads=8"),
    ("python", "train.py", "--tokenizer", "meta-llama/Llama-3.1-70B-Instruct"),
    ("python", "train.py", "--tokenizer-mode=auto"),
    ("python", "train.py", "--eos-token=</s>"),
    ("python", "train.py", "--pad-token", "<pad>"),
    ("python", "train.py", "--eos-token-id", "2"),
    ("python", "train.py", "--tokens-per-step=8192"),
    ("python", "train.py", "--token-budget", "16384"),
    ("python", "train.py", "--sort-key=name"),
    ("python", "train.py", "--primary-key", "step"),
    ("python", "train.py", "--key-dim=128"),
    ("python", "train.py", "--monkey", "patch"),
    ("python", "train.py", "--keyboard=us"),
    ("python", "train.py", "--author", "someone"),
    ("python", "train.py", "--bypass", "cache"),
    ("python", "train.py", "--single-pass", "train.yaml"),
    ("python", "train.py", "--num-passes=3"),
    ("python", "train.py", "--forward-pass=4"),
    ("python", "train.py", "--compass", "north"),
    ("python", "train.py", "--passthrough=1"),
    ("python", "train.py", "--password-file", "/run/secrets/db"),
    ("python", "train.py", "--token-file=token.txt"),
    ("python", "train.py", "--api-key-env", "OPENAI_API_KEY"),
    ("python", "train.py", "--api-key=$OPENAI_API_KEY"),
    ("python", "train.py", "--api-key", "${OPENAI_API_KEY}"),
    ("python", "train.py", "--use-auth-token", "train.json"),
    ("python", "train.py", "--no-auth", "--port=8000"),
    ("python", "train.py", "--no-auth", "8000"),
    ("python", "train.py", "--auth=none"),
    ("python", "train.py", "--auth-type", "basic"),
    ("python", "train.py", "--secretary=me"),
    ("python", "train.py", "--use-token=false"),
    ("env", "PWD=/data/run", "python", "train.py"),
    ("env", "TOKENIZERS_PARALLELISM=false", "python", "train.py"),
    ("env", "NCCL_DEBUG=INFO", "CUDA_VISIBLE_DEVICES=0,1", "python", "train.py"),
    ("env", "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True,max_split_size_mb:128", "train"),
    ("env", "PATH=/usr/local/cuda-12.4/bin:/usr/bin:/bin", "train"),
    ("torchrun", "--nproc-per-node=8", "--rdzv-endpoint=node1:29500", "train.py"),
    ("python", "-m", "vllm.entrypoints.openai.api_server", "--model", "Qwen/Qwen2.5-72B-Instruct-AWQ"),
    ("python", "train.py", "--checkpoint", "/data/Runs/2026-11-17T01-20-29Z/Step00012000/model.safetensors"),
    ("python", "train.py", "--commit=9f86d081884c7d659a2feaa0c55ad015a3bf4f1b"),
    ("docker", "run", "nvcr.io/nvidia/pytorch:24.05-py3@sha256:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0"),
    ("docker", "run", "-u", "1000:1000", "--gpus", "all", "image"),
    ("ncu", "--kernel-name", "regex:ampere_fp16_s16816gemm_fp16_128x256_ldg8_f2f_stages_64x3_tn"),
    ("ncu", "--kernel-name", "_ZN7cutlass13device_kernelIN5flash24enable_sm90_or_laterINS1_16FlashAttnFwdSm90E"),
    ("ncu", "--metrics", "sm__throughput.avg.pct_of_peak_sustained_elapsed,dram__bytes_read.sum"),
    ("nsys", "profile", "--trace=cuda,nvtx,osrt,cudnn,cublas", "--cuda-graph-trace=node", "--output=/tmp/run"),
    ("nsys", "profile", "--env-var=NSYS_NVTX_PROFILER_REGISTER_ONLY=0", "train"),
    ("ssh", "me@node1.example.com", "train"),
    ("scp", "me@node1:/data/a.sqlite", "."),
    ("git", "clone", "git@github.com:someone/repository.git"),
    ("kubectl", "exec", "trainer-7d9f8b6c5d-x2x9p", "-n", "team-a", "--", "train"),
    ("curl", "https://example.com/data?page=2&sort=key"),
    ("python", "-c", "tokens = tokenizer(text)['input_ids']; n_tokens = len(tokens)"),
    ("openssl", "rsa", "-passin", "file:/run/password.txt"),
    ("x", "--config", '[{"name": "LR", "value": "4127"}, {"key": "NCCL_DEBUG", "value": "INFO"}]'),
    ("docker", "run", "--user", "node:node", "image"),
    ("python", "-c", "import torch; key = torch.randn(4, 4); print(key.shape)"),
    ("python", "train.py", "--config", '{"hidden_size": 4096, "num_key_value_heads": 8, "eos_token": "</s>"}'),
    ("python", "train.py", "--run-id", "123e4567-e89b-12d3-a456-426614174000"),
    ("python", "train.py", "--name=Exp42RunBsz128LrSchedCosineWarmup2000"),
    ("bash", "-c", "for key in a b; do python train.py --sort-by $key --tokens 128; done"),
)


def shown(words: tuple[str, ...]) -> str:
    return "\n".join(without_secrets(words))


def test_of_sixty_spellings_none_is_written_down() -> None:
    assert len(SECRETS) == 60
    assert [words for secret, words in SECRETS if secret in shown(words)] == []
    assert [words for _, words in SECRETS if WITHHELD not in shown(words)] == []


def test_of_seventy_more_none_is() -> None:
    """Written down before the rules were looked at again."""
    assert len(NEW_SECRETS) == 70
    leaks = [words for secret, words in NEW_SECRETS if secret in shown(words)]
    assert leaks == []


def test_none_of_other_programs_is() -> None:
    assert [words for secret, words in OTHERS if secret in shown(words)] == []


@pytest.mark.parametrize("words", STRUCTURES)
def test_no_piece_of_a_secret_is_left_where_its_value_ends(words: tuple[str, ...]) -> None:
    line = shown(words)
    assert WITHHELD in line
    assert [piece for piece in LEFT if piece in line] == []


def test_nothing_in_a_command_of_the_docs_is_hidden() -> None:
    lines = [
        line.strip().removeprefix("$ ")
        for page in (*(ROOT / "docs").rglob("*.md"), ROOT / "README.md")
        for block in re.findall(r"```(?:sh|console|bash)\n(.*?)```", page.read_text(), re.DOTALL)
        for line in block.splitlines()
    ]
    commands = [line.split() for line in dict.fromkeys(lines) if line]
    assert len(commands) > 300
    assert [without_secrets(words) for words in commands if without_secrets(words) != words] == []


@pytest.mark.parametrize(
    "words",
    [
        ("git", "checkout", HEX),
        ("vllm", "serve", "model", "--revision", HEX),
        ("vllm", "serve", f"/hub/models--m/snapshots/{HEX}/"),
        ("bash", "-c", f"git reset --hard {HEX} && python train.py"),
        ("train", f"--trace-id={HEX[:32]}"),
    ],
)
def test_a_commit_or_a_digest_is_no_secret(words: tuple[str, ...]) -> None:
    assert tuple(without_secrets(words)) == words


def test_info_tells_the_command_and_the_environment_without_secrets() -> None:
    private = Private(("python", "train.py", "--api-key", S), None, (("ENV_0", f"HF_TOKEN={S}"), ("ENV_1", "A=1")))
    plain = trace("s0: 0-10 a")
    told = info(replace(plain, origin=replace(plain.origin, private=private)), verbose=True)
    for form in (told.to_text(), told.to_dict()):
        assert S not in str(form)
        assert "A=1" in str(form)


def test_of_64_harmless_commands_nothing_is_hidden() -> None:
    assert len(HARMLESS) == 64
    assert [shown(words) for words in HARMLESS if tuple(without_secrets(words)) != words] == []


NAMES = st.sampled_from(
    (
        "password",
        "dbPassword",
        "API-KEY",
        "apiKeys",
        "access_token",
        "HF_TOKEN",
        "clientSecret",
        "db_pw",
        "jwt",
        "creds",
    )
)
MARKERS = st.tuples(
    st.sampled_from(("vorpal", "Snicker", "jubjub", "mome7")),
    st.sampled_from(("-", "_", ".", "!", "#", "+", "~", " ", " 7", "")),
    st.sampled_from(("blade", "Snack42", "bird_77", "Raths")),
).map("".join)
FORMS = st.sampled_from(
    (
        lambda name, secret: json.dumps({"steps": 4, name: secret, "rank": 8}),
        lambda name, secret: json.dumps({"steps": 4, name: {"x": [secret]}, "rank": 8}, indent=2),
        lambda name, secret: repr({"steps": 4, name: (secret,), "rank": 8}),
        lambda name, secret: json.dumps({"steps": 4, "env": [{"name": name, "value": secret}], "rank": 8}),
        lambda name, secret: f"steps: 4\n{name}: {secret}\nrank: 8",
        lambda name, secret: f"steps: 4\nx:\n  {name}:\n  - {secret}\n  - b\nrank: 8",
        lambda name, secret: f"steps: 4\n{name}: >-\n    {secret}\nrank: 8",
        lambda name, secret: f"[steps]\n{name} = {secret}\nrank = 8",
        lambda name, secret: f"[steps]\n{name}={secret}\nrank=8",
        lambda name, secret: f'steps = 4\n{name} = """\n{secret}\n"""\nrank = 8',
        lambda name, secret: f"<a><steps>4</steps><{name}>{secret}</{name}><rank/></a>",
        lambda name, secret: f'<a><steps/><add key="{name}" value="{secret}"/><rank/></a>',
        lambda name, secret: f"steps; export {name}='{secret}' && train --rank 8",
        lambda name, secret: f"steps --{name} '{secret}' --rank 8",
        lambda name, secret: f"steps | curl -H 'X-{name}: {secret}' http://rank",
    )
)


@given(FORMS, NAMES, MARKERS, st.sampled_from((("x",), ("bash", "-c"), ("ssh", "host"), ("srun", "bash", "-lc"))))
def test_of_any_structure_the_secret_goes_and_the_rest_stays(
    form: Callable[[str, str], str], name: str, secret: str, before: tuple[str, ...]
) -> None:
    words = (*before, form(name, secret), "--after=1")
    left = [piece for piece in pieces(secret) if piece in shown(words)]
    assert left == []
    assert "steps" in shown(words)
    assert "rank" in shown(words)
    assert without_secrets(words)[-1] == "--after=1"


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("x", "--opts", f"api_key={S},model=gpt2"), f"api_key={WITHHELD}"),
        (
            ("bash", "-c", f"x '+a.b.secret=\"{S}\"' --pin-memory true"),
            f"x '+a.b.secret={WITHHELD}' --pin-memory true",
        ),
        (("bash", "-c", f"API_KEYS=('{S}'); train --lr 1"), f"API_KEYS={WITHHELD}; train --lr 1"),
        (
            ("x", "--c", f'{{"auth": {{"type": "x", "token": "{S}"}}}}'),
            f'{{"auth": {WITHHELD}}}',
        ),
        (("x", "--c", f'<add key="apiKey" value="{S}"/>'), f'<add key="apiKey" {WITHHELD}>'),
    ],
)
def test_what_stands_beside_a_secret_is_shown(words: tuple[str, ...], line: str) -> None:
    assert without_secrets(words)[-1] == line


@given(st.lists(st.text(max_size=40), max_size=6))
def test_what_may_be_written_down_may_be_written_down_again(words: list[str]) -> None:
    once = without_secrets(words)
    assert len(once) == len(words)
    assert without_secrets(once) == once


@given(st.text("abcXYZ019!#%^*+.:;?@~ ", min_size=7), st.sampled_from(("--api-key=", "DB_PASSWORD=", "wandb.token=")))
def test_no_part_of_what_follows_the_name_of_a_secret_is_shown(secret: str, name: str) -> None:
    assert without_secrets(["train", name + secret, "4"]) == ["train", name + WITHHELD, "4"]


def test_a_known_secret_is_withheld_wherever_it_stands() -> None:
    assert without_secrets(["train", "--with=hush-hush", "x"], known=["hush-hush", "x"]) == [
        *("train", f"--with={WITHHELD}", "x")
    ]


HOSTILE = (
    *(
        "a=",
        "--a ",
        "a-",
        "a.",
        '"a": "',
        "a:b@",
        "Aa0",
        "http://a",
        "bearer ",
        "'",
        "\\",
        '"',
        "{",
        '{"token":',
        "token=(",
    ),
    *(
        "password: ",
        "password=",
        "<password>",
        "a://b:",
        "name: token ",
        "value: x ",
        "key: |\n ",
        "a\n",
        "bash -c '",
        "<<< ",
    ),
    *("docker login -p ", "echo x | ", 'token=\\"', "login(", "-----BEGIN PRIVATE KEY-----", "[secret]\n"),
)


@pytest.mark.parametrize("word", HOSTILE)
@pytest.mark.parametrize("before", [("train",), ("bash", "-c"), ("python", "-c")])
def test_long_words_take_no_longer_than_they_are_long(word: str, before: tuple[str, ...]) -> None:
    def seconds(letters: int) -> float:
        began = time.process_time()
        without_secrets([*before, word * (letters // len(word))])
        return time.process_time() - began

    assert min(seconds(40_000) for _ in range(2)) < 1 + 8 * seconds(10_000)


def test_an_argument_of_a_megabyte_is_read_in_seconds() -> None:
    lines = "".join(f"  line_{line}: [{line}, 'text {line}']\n" for line in range(40_000))
    began = time.process_time()
    words = without_secrets(["train", f"steps: 4\npassword: {S}\nx:\n{lines}"])
    assert time.process_time() - began < 60  # a tenth of that where nothing else runs
    assert len(words[1]) > 1_000_000
    assert S not in words[1]


@pytest.mark.parametrize(
    "text", ['{"password": "{}', "password='{}", "password: [{}, b", '<a password="{}', "token = {{x: {}"]
)
def test_what_has_no_end_is_withheld_to_the_end_of_the_text(text: str) -> None:
    assert S not in shown(("x", text.replace("{}", S).replace("{{", "{") + ' and "more'))


@pytest.mark.parametrize("via", [(), ("--via=ssh -o X=1 host",), ("--via=kubectl --token hush exec pod --",)])
def test_what_would_be_run_is_printed_without_secrets(via: tuple[str, ...], tmp_path: Path) -> None:
    command = ("--env=HF_TOKEN=hush", "--", "python", "train.py", "--password", "hush", "https://me:hush@host/x")
    for tool in ("nsys", "ncu", "torch"):
        ran = gpuledger("capture", tool, "--dry-run", *via, *command, cwd=tmp_path)
        assert ran.exit_code == 0, ran.stderr
        assert ran.stdout.count(WITHHELD) >= 3
        assert "hush" not in ran.stdout + ran.stderr


def test_others_see_only_what_is_known_to_be_harmless() -> None:
    command = (
        "torchrun --nproc-per-node=8 /home/user/train.py --lr 3e-4 --model me/model --bf16 true A=1 --max-tokens 128"
    )
    assert shareable_command(command.split()) == [
        *("torchrun", "--nproc-per-node=8", "train.py", "--lr", "3e-4", "--model", WITHHELD, "--bf16", "true", "A=1"),
        *("--max-tokens", "128"),
    ]
    words = ("python", "-m", "vllm.entrypoints.api", "--pin", "4821", "mysql", "-phush", "--for=me")
    shared = ["python", "-m", "vllm.entrypoints.api", "--pin", WITHHELD, WITHHELD, WITHHELD, f"--for={WITHHELD}"]
    assert shareable_command(words) == shared
    assert [shareable_value("A", value) for value in ("4k", "30ms", "0,1", "x/y.json")] == [
        "4k",
        "30ms",
        "0,1",
        "y.json",
    ]


@given(st.lists(st.text(max_size=30), max_size=5))
def test_others_see_no_word_but_names_of_options_numbers_and_known_words(words: list[str]) -> None:
    shared = shareable_command(words)
    assert len(shared) == len(words)
    for word, other in zip(words, shared, strict=True):
        assert other == WITHHELD or other in word or other.endswith(f"={WITHHELD}") or word.startswith(other[:1])
    assert shareable_command([S, B, f"/home/{S}", f"http://{S}", f"{S}@host", f"-p{S}"]) == [WITHHELD] * 6


@pytest.mark.parametrize("words", [words for _, words in (*SECRETS, *NEW_SECRETS, *OTHERS)] + list(STRUCTURES))
def test_others_see_no_secret_of_the_tables(words: tuple[str, ...]) -> None:
    shared = "\n".join(shareable_command(words))
    assert [piece for piece in (*LEFT, *pieces(RANDOM), *pieces(HEX), *pieces(B64)) if piece in shared] == []
