"""Secrets in shell scripts (what stands after bash -c), environment values, and decoys that hold no secret at all."""
from __future__ import annotations

from collections.abc import Callable

from casegen.base import Case, Part, Rng, Text, in_ansi, in_double, in_single, backslashed
from casegen.formats import FORMATS, clean
from casegen.names import MODELS, NEIGHBOURS, SET_NEIGHBOURS, named, neighbours
from casegen.secrets_made import HEX, opaque, password, rand, uuid, vendor

Script = Callable[[Rng], Text]
SCRIPTS: dict[str, Script] = {}
FILE_FORMATS = [n for n in FORMATS if n.startswith(("json", "yaml", "toml", "ini", "properties", "dotenv", "xml", "netrc", "git-cred", "curl-conf", "systemd", "dockerfile", "pgpass", "npmrc", "docker", "gcp", "private", "terraform", "kafka", "ssh-config", "url-", "colon", "python-assign"))]
RUN = "python train.py --model gpt2-xl --max-tokens 4127"
RUN_HARMLESS = ["gpt2-xl", "--max-tokens 4127"]


def scr(name: str) -> Callable[[Script], Script]:
    def add(f: Script) -> Script:
        SCRIPTS[name] = f
        return f

    return add


def literal(s: str, rng: Rng) -> tuple[str, str]:
    """A value as a shell word: the whole literal, and the secret as it is spelt in it."""
    ways = ["single", "double", "backslash", "ansi"]
    if all(c.isalnum() or c in "@%+=:,./-_" for c in s):
        ways += ["bare"] * 5
    match rng.choice(ways):
        case "single":
            return f"'{in_single(s)}'", in_single(s)
        case "double":
            return f'"{in_double(s)}"', in_double(s)
        case "ansi":
            return f"$'{in_ansi(s)}'", in_ansi(s)
        case "backslash":
            return backslashed(s), backslashed(s)
        case _:
            return s, s


@scr("assign-before-command")
def _(rng: Rng) -> Text:
    name, s, kind = named(rng, ["scream"], blanks=True, hard=True)
    lit, inner = literal(s.text, rng)
    return Text(f"{rng.choice(['', 'CUDA_VISIBLE_DEVICES=0,1 ', 'NCCL_DEBUG=INFO '])}{name}={lit} {RUN}", [inner], RUN_HARMLESS, kind)


@scr("export")
def _(rng: Rng) -> Text:
    name, s, kind = named(rng, ["scream", "snake"], blanks=True, hard=True)
    lit, inner = literal(s.text, rng)
    word = rng.choice(["export", "export", "declare -x", "typeset -x", "readonly", "local", "set -a;", "export BATCH=7"])
    end = rng.choice([" && ", "; ", "\n"])
    return Text(f"{word} {name}={lit}{end}{RUN}", [inner], RUN_HARMLESS, kind)


@scr("assign-then-use")
def _(rng: Rng) -> Text:
    name, s, kind = named(rng, ["scream", "snake"], blanks=True)
    lit, inner = literal(s.text, rng)
    return Text(f'{name}={lit}; {RUN} --api-key "${name}"', [inner], RUN_HARMLESS, kind)


@scr("default-expansion")
def _(rng: Rng) -> Text:
    name, s, kind = clean(rng, ["scream"])
    op = rng.choice([":-", ":=", "-"])
    return Text(f'export {name}="${{{name}{op}{s.text}}}"; {RUN}', [s.text], RUN_HARMLESS, kind)


@scr("array")
def _(rng: Rng) -> Text:
    a, b = opaque(rng), opaque(rng)
    return Text(f"{rng.choice(['API_KEYS', 'TOKENS', 'passwords'])}=({a.text} '{b.text}'); {RUN}", [a.text, b.text], RUN_HARMLESS, "array")


@scr("heredoc")
def _(rng: Rng) -> Text:
    text = FORMATS[rng.choice(FILE_FORMATS)](rng)
    mark = rng.choice(["EOF", "'EOF'", '"END"', "YAML", "-EOF"])
    end = mark.strip("'\"-")
    body = text.text if text.text.endswith("\n") else text.text + "\n"
    head = rng.choice([f"cat > conf4127.cfg <<{mark}", f"cat <<{mark} > conf4127.cfg", f"kubectl apply -f - -n ns4127 <<{mark}", f"tee conf4127.cfg <<{mark} >/dev/null", f"python - --steps 4127 <<{mark}"])
    return Text(f"{head}\n{body}{end}\n{RUN}", text.secrets, [*text.harmless, *RUN_HARMLESS], text.kind)


@scr("echo-to-file")
def _(rng: Rng) -> Text:
    text = FORMATS[rng.choice(FILE_FORMATS)](rng)
    cmd = rng.choice(["echo", "printf '%s\\n'", "echo -n"])
    new = text.mapped(in_single)
    return Text(f"{cmd} '{new.text}' > ~/.conf4127 && {RUN}", new.secrets, [*new.harmless, *RUN_HARMLESS], text.kind)


@scr("append-line")
def _(rng: Rng) -> Text:
    name, s, kind = clean(rng, ["scream"])
    return Text(f'echo "export {name}={s.text}" >> ~/.bashrc; {RUN}', [s.text], RUN_HARMLESS, kind)


@scr("pipe-stdin")
def _(rng: Rng) -> Text:
    s = rng.choice([password(rng), opaque(rng)])
    lit, inner = literal(s.text, rng)
    form = rng.choice(["echo {} | docker login -u bob --password-stdin nvcr4127.io", "echo {} | sudo -S systemctl restart job4127", "printf '%s' {} | gh auth login --with-token -h gh4127", "echo {} | cryptsetup open /dev/sdb1 v4127 -", "docker login -u bob --password-stdin nvcr4127.io <<< {}",
                       "echo bob:{} | chpasswd; run4127", "echo {} | passwd --stdin u4127", "sudo -S apt4127 install x <<< {}", "echo {} | kinit u4127@CORP", "echo {} | gpg --batch --passphrase-fd 0 -d f4127.gpg", "echo -n {} | base64 | kubectl create secret generic s --from-file=password=/dev/stdin -n n4127"])
    keep = next(w for w in form.replace(";", " ").split() if "4127" in w)
    return Text(form.format(lit), [inner], [keep], s.source)


@scr("two-commands")
def _(rng: Rng) -> Text:
    s, name = vendor(rng, rng.choice(["hf", "wandb", "github", "openai", "databricks"]))
    form = rng.choice(["cd /opt/lab4127 && HF_TOKEN={s} make run | tee log", "source venv4127/bin/activate; wandb login {s}; python t.py", "if true; then export API_KEY={s}; run4127; fi", "for i in 1 2; do curl -H 'X-Api-Key: {s}' http://h4127; done", "(export TOKEN={s}; run4127) &",
                       "set -e\npip install -q torch==2.3.4127\nexport WANDB_API_KEY={s}\n", "test -n '{s}' && export API_KEY='{s}'; run4127", "curl -H \"Authorization: Bearer {s}\" http://h4127/v1 | jq .data", "eval \"export API_KEY={s}\"; run4127", "run4127 --api-key={s} > out.log 2>&1", "run4127 --token={s}; echo done", "run4127 --token {s}|tee x",
                       "exec env API_TOKEN={s} run4127", "nohup run4127 --api-key {s} &", "API_KEY={s}; export API_KEY; run4127", "export TOKEN={s}#x4127\nls", "run4127 --token=$(echo {s})", "TOKEN=`echo {s}` run4127", "#!/bin/bash\n#SBATCH --gres=gpu:8\nexport HF_TOKEN={s}\nsrun run4127"])
    secrets = [s.text]
    text = form.format(s=s.text)
    keep = next((w.strip("();|&\"'") for w in form.replace("{s}", " ").split() if "4127" in w and "#x" not in w), None)
    return Text(text, secrets, [keep] if keep else [], s.source)


@scr("function-and-case")
def _(rng: Rng) -> Text:
    name, s, kind = clean(rng, ["scream"])
    form = rng.choice(["f() {{ {n}='{s}' run4127 \"$@\"; }}; f", "case x in x) {n}='{s}';; esac; run4127", "[ -z \"${n}\" ] && {n}='{s}'; run4127", "while read l; do {n}='{s}' run4127; done < f", "{{ export {n}='{s}'; run4127; }}", "trap 'x' EXIT; {n}='{s}' run4127"])
    return Text(form.format(n=name, s=s.text), [s.text], ["run4127"], kind)


# --- environment values: they go through shown_value(name, value)


def env_case(rng: Rng) -> Case:
    """A value of the environment, secret by its name or by its form; or a harmless one with a name that looks like it."""
    match rng.randrange(6):
        case 0 | 1:
            name, s, kind = named(rng, ["scream"], blanks=True, hard=True)
            return Case([], [s.text], [], f"env/name/{kind}", {name: s.text})
        case 2:
            s, name = vendor(rng)
            return Case([], [s.text], [], f"env/vendor/{s.source}", {name.upper().replace("-", "_").replace(".", "_"): s.text})
        case 3:
            text = FORMATS[rng.choice(["url-userinfo", "url-sas", "url-query", "ado", "azure-connection-string", "libpq-dsn", "jdbc", "url-webhook", "json-flat", "docker-config", "vendor-bare", "private-key", "url-token-as-user", "header-bearer", "dotenv", "npmrc"])](rng)
            name = rng.choice(["DATABASE_URL", "HTTPS_PROXY", "MLFLOW_TRACKING_URI", "PIP_INDEX_URL", "APP_CONFIG", "NOTIFY", "SPRING_APPLICATION_JSON", "RUN_ARGS", "JAVA_OPTS"])
            return Case([], text.secrets, text.harmless, f"env/value/{text.kind}", {name: text.text})
        case 4:
            name, value = rng.choice(HARMLESS_ENV)
            return Case([], [], [value], f"env/harmless/{name}", {name: value})
        case _:
            s = rng.choice([password(rng), opaque(rng)])
            name = rng.choice(["PGPASSWORD", "MYSQL_PWD", "REDISCLI_AUTH", "SSHPASS", "RESTIC_PASSWORD", "BORG_PASSPHRASE", "LDAP_BINDPW", "GF_SECURITY_ADMIN_PASSWORD", "RABBITMQ_DEFAULT_PASS", "MINIO_ROOT_PASSWORD", "CONSUL_HTTP_TOKEN", "TF_VAR_db_password", "JUPYTER_TOKEN", "VLLM_API_KEY",
                               "AWS_SECRET_ACCESS_KEY", "DOCKER_AUTH_CONFIG", "POETRY_HTTP_BASIC_FOO_PASSWORD", "SNOWSQL_PWD", "MSSQL_SA_PASSWORD", "ConnectionStrings__Password", "NEXTAUTH_SECRET", "DJANGO_SECRET_KEY", "RAILS_MASTER_KEY", "SECRET_KEY_BASE", "VAULT_UNSEAL_KEY", "MONGO_INITDB_ROOT_PASSWORD", "NUGET_API_KEY", "GPG_PASSPHRASE"])
            return Case([], [s.text], [], f"env/known/{name}", {name: s.text})


HARMLESS_ENV: list[tuple[str, str]] = [
    ("TOKENIZERS_PARALLELISM", "false"), ("MAX_TOKENS", "4096"), ("HF_HOME", "/data/hf-home-cache"), ("HF_TOKEN_PATH", "/home/user/.cache/hf_tok"), ("SSH_AUTH_SOCK", "/tmp/ssh-XXab12/agent.4127"), ("NCCL_DEBUG", "INFO"),
    ("CUDA_VISIBLE_DEVICES", "0,1,2,3"), ("PYTHONPATH", "/opt/lab/src:/opt/lab/lib"), ("WANDB_PROJECT", "scaling-laws"), ("KEYBOARD_LAYOUT", "us-intl"), ("SLURM_JOB_ID", "48151623"), ("GOOGLE_APPLICATION_CREDENTIALS", "/etc/gcp/adc.json"),
    ("AWS_REGION", "eu-west-1"), ("XAUTHORITY", "/home/user/.Xauthority"), ("PASSES", "4"), ("COMPASS", "north-east"), ("MASTER_ADDR", "10.0.0.4"), ("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"), ("GIT_COMMIT", "9f8e7d6c5b4a39281706f5e4d3c2b1a098765432"),
    ("CONTAINER_IMAGE", "nvcr.io/nvidia/pytorch:24.05-py3"), ("LD_LIBRARY_PATH", "/usr/local/cuda/lib64:/usr/lib"), ("HF_HUB_ENABLE_HF_TRANSFER", "1"), ("XDG_SESSION_TYPE", "wayland"), ("LS_COLORS", "di=01;34:ln=01;36"), ("TRITON_CACHE_DIR", "/tmp/triton-cache"), ("PASSWORD_STORE_DIR", "/home/user/.pass-dir"),
]


# --- decoys: nothing in them is a secret


def decoy(rng: Rng) -> Case:
    """A command without any secret, with names and values near to one."""
    sha, sha256, u = rand(rng, 40, HEX), rand(rng, 64, HEX), uuid(rng)
    n = rng.randrange(10**6, 10**9)
    pool: list[list[str]] = [
        ["git", "checkout", sha], ["docker", "pull", f"nvcr.io/nvidia/pytorch@sha256:{sha256}"], ["docker", "run", "--env-file", ".env.prod", "--gpus", "all", "img:24.05", "python", "train.py"],
        ["docker", "login", "-u", "bob", "--password-stdin", "nvcr.io"], ["docker", "run", "-e", "HF_TOKEN", "-p", "8080:80", "-u", "1000:1000", "img"], ["curl", "-u", "alice", "https://h/v1"], ["curl", "--netrc-file", "/etc/netrc.ml", "-o", "w.bin", "https://h/w.bin?rev=" + sha],
        ["kubectl", "get", "secret", "hf-secret", "-n", "ml"], ["kubectl", "create", "secret", "generic", "db", "--from-file=creds.json"], ["kubectl", "delete", "secret", "regcred"], ["ssh", "-i", "/home/user/.ssh/id_ed25519", "-p", "2222", "ml@node7", "nvidia-smi"],
        ["python", "train.py", "--run-id", u, "--resume", f"/ckpt/{sha[:12]}/step_{n}"], ["python", "tok.py", "--special-tokens", "<pad>,<eos>,<unk>", "--vocab-size", "32000", "--eos-token", "</s>", "--bos-token", "<s>"],
        ["openssl", "dgst", "-sha256", "-sign", "key.pem", "model.bin"], ["openssl", "rsa", "-passin", "file:/run/pw.txt", "-in", "k.pem"], ["gpg", "--passphrase-file", "/run/pw", "--batch", "-d", "f.gpg"], ["gpg", "--recv-keys", rand(rng, 16, "0123456789ABCDEF")],
        ["huggingface-cli", "download", "meta-llama/Llama-3-8B", "--revision", sha], ["wandb", "sync", f"wandb/run-20240511_173002-{rand(rng, 8)}"], ["nsys", "profile", "-t", "cuda,nvtx", "-o", f"report_{n}", "python", "t.py"], ["ncu", "--set", "full", "--kernel-name", "regex:gemm", "-k", "flash_fwd", "-o", "r", "./a.out"],
        ["bash", "-c", f"echo {sha} > rev.txt && python train.py --seed {n}"], ["srun", "-p", "gpu", "-A", "proj-a", "--gres=gpu:8", "python", "t.py"], ["mysql", "-u", "ml", "-p", "runs"], ["psql", "-p", "5433", "-U", "ml", "-d", "runs"], ["scp", "-P", "2222", "f", "h:/d"], ["ssh-keygen", "-t", "ed25519", "-f", "id", "-C", "ml@h"],
        ["python", "-c", "max_tokens = 128; tokenizer = 'gpt2'; pad_token = '<pad>'; key = lambda x: x[0]; print(sorted(d, key=len))"], ["python", "-c", "import os; token = os.environ['HF_TOKEN']; run(token=token, api_key=os.getenv('KEY'))"],
        ["python", "-c", "for k, v in d.items():\n    print(k, v)\nkeys = list(d.keys()); author = 'jane'"], ["python", "-c", "tokens = tokenizer(text)['input_ids']; n_tokens = len(tokens)"],
        ["python", "t.py", "--config", '{"max_tokens": 128, "tokenizer": "gpt2", "key_dim": 64, "pad_token_id": 0, "author": "jane", "pin_memory": true}'],
        ["python", "t.py", "--generation-config", '{"max_new_tokens": 20, "stop_token": "###", "eos_token": "</s>"}'], ["curl", "-d", '{"prompt": "What is a token?", "max_tokens": 7, "temperature": 0}', "-H", "Content-Type: application/json", "http://localhost:8000/v1/completions"],
        ["curl", "-H", "Accept: application/json", "-H", f"If-None-Match: {sha256}", "http://h/v1"], ["aws", "s3", "cp", f"s3://bucket/{u}/w.bin", "."], ["az", "login", "--identity"], ["gcloud", "auth", "application-default", "login"], ["vault", "kv", "get", "-field=value", "secret/ml"],
        ["huggingface-cli", "whoami"], ["jupyter", "lab", "--port", "8889", "--ip", "0.0.0.0"], ["zip", "-r", "out.zip", "data"], ["7z", "x", "in.7z", "-oout"], ["make", "-j16", "PASS=2", "KEYS=all", "test"], ["./build/bin/llama-cli", "-m", "m.gguf", "-p", "Tell me the secret of life", "-n", "128"],
        ["python", "bench.py", "--input-tokens", "512", "--output-tokens", "64", "--tokens-per-second", "--token-budget", "2048"], ["pip", "install", "--hash", f"sha256:{sha256}", "torch==2.3.0"], ["pip", "install", f"git+https://github.com/org/repo.git@{sha}"], ["pip", "install", "-i", "https://pypi.org/simple", "tokenizers", "secretstorage", "passlib", "keyring"],
        ["ray", "start", "--address", "10.0.0.4:6379"], ["tar", "xzf", f"{sha256}.tar.gz"], ["nvidia-smi", "-i", f"GPU-{u}"], ["python", "t.py", f"--checkpoint=/ckpt/{u}/model-00003-of-00030.safetensors"], ["bash", "-c", "docker run -e HF_TOKEN=$HF_TOKEN -e WANDB_API_KEY img python train.py --max-tokens 128"],
        ["sbatch", "--export=ALL", "--key-file", "job.key", "--array=0-7", "job.sh"], ["python", "t.py", "--mask-token", "[MASK]", "--sep_token=[SEP]", "--unk-token", "<unk>"], ["lm_eval", "--model_args", "pretrained=gpt2,dtype=float16,add_bos_token=true,tokenizer=gpt2", "--tasks", "gsm8k"],
        ["python", "auth_bench.py", "--secret-sharing", "shamir", "--num-keys", "1000", "--key-size", "2048"], ["./reduce", "--passes", "3", "--pass-size=1024", "--keys-per-block", "16"], ["sort", "-k", "2", "-t", ",", "f.csv"], ["python", "diff.py", "--placeholder_token=<cat-toy>", "--initializer_token=toy"],
    ]
    argv = rng.choice(pool)
    near = neighbours(rng, 0, 2) if argv[0] == "python" and "-c" not in argv and not argv[-1].startswith("--token") else []
    neutral = {"$HF_TOKEN"}
    harmless = [w for w in [*argv, *near] if not any(x in w for x in neutral)]
    return Case([*argv, *near], [], harmless, f"decoy/{argv[0].rsplit('/', 1)[-1]}")


def decoy_neighbours(rng: Rng) -> Case:
    """Only harmless options, many of them."""
    words: list[str] = []
    for option in rng.sample(NEIGHBOURS, 5):
        words += option
    words += ["--steps=77", *rng.sample(SET_NEIGHBOURS, 3)]
    return Case(["python", "train.py", *words], [], words, "decoy/options")
