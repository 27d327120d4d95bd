"""Notations in which a name and a secret stand in a text: JSON, YAML, URLs, code, headers, …"""
from __future__ import annotations

import base64
import json
import urllib.parse
from collections.abc import Callable

from casegen.base import Rng, Secret, Text
from casegen.names import MODELS, named
from casegen.secrets_made import B64, HEX, UPPER, DIGITS, URL64, opaque, password, pem, rand, uuid, vendor, jwt

Format = Callable[[Rng], Text]
FORMATS: dict[str, Format] = {}


def fmt(name: str) -> Callable[[Format], Format]:
    def add(f: Format) -> Format:
        FORMATS[name] = f
        return f

    return add


def clean(rng: Rng, styles: list[str]) -> tuple[str, Secret, str]:
    """A name and a value that needs no quoting in most notations."""
    while True:
        name, secret, kind = named(rng, styles)
        if not set(secret.text) & set(" '\"\\`$;,&<>(){}[]|#*?!:%@~"):
            return name, secret, kind


def js(s: str, ascii_only: bool = False) -> str:
    return json.dumps(s, ensure_ascii=ascii_only)


# --- JSON and its relatives


@fmt("json-flat")
def _(rng: Rng) -> Text:
    name, s, kind = named(rng, blanks=True, hard=True)
    lit = js(s.text, rng.random() < 0.3)
    model = rng.choice(MODELS)
    sep = rng.choice([": ", ":", " : "])
    items = [f'"model"{sep}"{model}"', f'"{name}"{sep}{lit}', f'"max_tokens"{sep}4127', f'"stream"{sep}true']
    rng.shuffle(items)
    return Text("{" + rng.choice([", ", ","]).join(items) + "}", [lit[1:-1]], [model, "4127"], kind)


@fmt("json-nested")
def _(rng: Rng) -> Text:
    name, s, kind = named(rng, blanks=True, hard=True)
    model = rng.choice(MODELS)
    data = {"run": {"model": model, "seed": 31337, rng.choice(["auth", "store", "backend"]): {"endpoint": "http://10.1.2.3:9000", name: s.text}}, "tags": ["baseline", "v2"]}
    text = json.dumps(data, ensure_ascii=False, indent=rng.choice([None, None, 2]))
    return Text(text, [js(s.text)[1:-1]], [model, "31337", "baseline", "10.1.2.3:9000"], kind)


@fmt("json-list")
def _(rng: Rng) -> Text:
    a, b = opaque(rng), opaque(rng)
    name = rng.choice(["api_keys", "apiKeys", "tokens", "passwords", "secrets", "access_tokens", "API_KEYS"])
    text = json.dumps({"model": "gpt2-xl", name: [a.text, b.text], "batch": 4127})
    return Text(text, [a.text, b.text], ["gpt2-xl", "4127"], name)


@fmt("json-name-value")
def _(rng: Rng) -> Text:
    name, s, kind = named(rng, ["scream"], blanks=True)
    k, v = rng.choice([("name", "value"), ("key", "value"), ("Name", "Value")])
    items = [{k: "NCCL_DEBUG", v: "INFO-LEVEL"}, {k: name, v: s.text}, {k: "BATCH", v: "4127"}]
    return Text(json.dumps({"env": items}, ensure_ascii=False), [js(s.text, False)[1:-1]], ["INFO-LEVEL", "4127", "NCCL_DEBUG"], kind)


@fmt("json-value-first")
def _(rng: Rng) -> Text:
    name, s, kind = named(rng, ["scream"])
    return Text(json.dumps([{"value": s.text, "name": name}, {"value": "4127", "name": "BATCH"}], ensure_ascii=False), [js(s.text, False)[1:-1]], ["4127", "BATCH"], kind)


@fmt("json-in-json")
def _(rng: Rng) -> Text:
    name, s, kind = clean(rng, ["snake", "camel"])
    inner = json.dumps({"host": "db7.internal", name: s.text}, ensure_ascii=False)
    return Text(json.dumps({"config": inner, "steps": 4127}, ensure_ascii=False), [s.text], ["db7.internal", "4127"], kind)


@fmt("python-dict")
def _(rng: Rng) -> Text:
    name, s, kind = clean(rng, ["snake", "scream", "camel"])
    p = rng.choice(["", "b"])
    return Text(f"{{'model': 'gpt2-xl', '{name}': {p}'{s.text}', 'max_tokens': 4127}}", [s.text], ["gpt2-xl", "4127"], kind)


@fmt("python-tuples")
def _(rng: Rng) -> Text:
    name, s, kind = clean(rng, ["snake", "scream"])
    a, b = rng.choice([("(", ")"), ("[", "]")])
    return Text(f"[('steps', 4127), {a}'{name}', '{s.text}'{b}]", [s.text], ["4127"], kind)


@fmt("json5")
def _(rng: Rng) -> Text:
    name, s, kind = clean(rng, ["camel", "snake"])
    return Text(f"{{model: 'gpt2-xl', {name}: '{s.text}', steps: 4127,}}", [s.text], ["gpt2-xl", "4127"], kind)


# --- YAML


@fmt("yaml-block")
def _(rng: Rng) -> Text:
    name, s, kind = named(rng, ["snake", "kebab", "camel", "scream"], blanks=True)
    q = rng.choice(["'", '"', ""]) if not set(s.text) & set("'\"\\#:%!&*@{}[],~?|-`") else '"'
    if set(s.text) & set('"\\'):
        q = "'" if "'" not in s.text else q
    text = f"model: gpt2-xl\nauth:\n  user: alice\n  {name}: {q}{s.text}{q}\n  retries: 4127\n"
    return Text(text, [s.text], ["gpt2-xl", "4127"], kind)


@fmt("yaml-flow")
def _(rng: Rng) -> Text:
    name, s, kind = clean(rng, ["snake", "kebab", "camel"])
    q = rng.choice(["'", '"', ""])
    return Text(f"{{model: gpt2-xl, {name}: {q}{s.text}{q}, steps: 4127}}", [s.text], ["gpt2-xl", "4127"], kind)


@fmt("yaml-list")
def _(rng: Rng) -> Text:
    a, b = opaque(rng), opaque(rng)
    name = rng.choice(["api_keys", "tokens", "passwords", "authTokens", "secrets"])
    text = rng.choice([f"steps: 4127\n{name}:\n  - {a.text}\n  - {b.text}\nmodel: gpt2-xl\n", f"steps: 4127\n{name}:\n- \"{a.text}\"\n- \"{b.text}\"\nmodel: gpt2-xl\n",
                       f"steps: 4127\n{name}: [{a.text}, {b.text}]\nmodel: gpt2-xl\n"])
    return Text(text, [a.text, b.text], ["4127", "gpt2-xl"], name)


@fmt("yaml-block-scalar")
def _(rng: Rng) -> Text:
    ind = rng.choice(["|", "|-", ">-", ">", "|+"])
    if rng.random() < 0.5:
        name, s, kind = clean(rng, ["snake", "kebab", "camel"])
        return Text(f"steps: 4127\n{name}: {ind}\n  {s.text}\nmodel: gpt2-xl\n", [s.text], ["4127", "gpt2-xl"], kind)
    block, lines = pem(rng)
    body = "\n".join("    " + x for x in block.splitlines())
    return Text(f"steps: 4127\ntls:\n  {rng.choice(['private_key', 'privateKey', 'tls.key', 'key'])}: {ind[0]}\n{body}\nmodel: gpt2-xl\n", lines, ["4127", "gpt2-xl"], "pem")


@fmt("yaml-k8s-env")
def _(rng: Rng) -> Text:
    name, s, kind = clean(rng, ["scream"])
    q = rng.choice(['"', "", "'"])
    return Text(f"env:\n- name: NCCL_DEBUG\n  value: INFO-LEVEL\n- name: {name}\n  value: {q}{s.text}{q}\n- name: BATCH\n  value: \"4127\"\n", [s.text], ["INFO-LEVEL", "4127", "BATCH"], kind)


@fmt("yaml-k8s-secret")
def _(rng: Rng) -> Text:
    name, s, kind = clean(rng, ["scream", "kebab", "snake"])
    if rng.random() < 0.5:
        value, field = base64.b64encode(s.text.encode()).decode(), "data"
    else:
        value, field = s.text, "stringData"
    return Text(f"apiVersion: v1\nkind: Secret\nmetadata:\n  name: hf-store\n  namespace: team-ml7\ntype: Opaque\n{field}:\n  {name}: {value}\n", [value], ["team-ml7", "Opaque"], kind)


# --- other file formats


@fmt("toml")
def _(rng: Rng) -> Text:
    name, s, kind = named(rng, ["snake", "kebab"], blanks=True)
    lit = js(s.text) if rng.random() < 0.6 or "'" in s.text else f"'{s.text}'"
    return Text(f"[server]\nport = 4127\n{name} = {lit}\nmodel = \"gpt2-xl\"\n", [lit[1:-1]], ["4127", "gpt2-xl"], kind)


@fmt("toml-inline")
def _(rng: Rng) -> Text:
    name, s, kind = clean(rng, ["snake", "kebab"])
    return Text(f'server = {{ port = 4127, {name} = "{s.text}", model = "gpt2-xl" }}', [s.text], ["4127", "gpt2-xl"], kind)


@fmt("ini")
def _(rng: Rng) -> Text:
    name, s, kind = named(rng, ["snake", "flat", "kebab"], blanks=True)
    eq = rng.choice([" = ", "=", " : ", "  =  "])
    return Text(f"[default]\nregion{eq}eu-west-1\n{name}{eq}{s.text}\noutput{eq}json-lines\n", [s.text], ["eu-west-1", "json-lines"], kind)


@fmt("properties")
def _(rng: Rng) -> Text:
    name, s, kind = clean(rng, ["dotted", "kebab", "camel"])
    eq = rng.choice(["=", ": ", " = "])
    return Text(f"spring.datasource.url{eq}db7.internal\nspring.datasource.{name}{eq}{s.text}\nspring.pool.size{eq}4127\n", [s.text], ["db7.internal", "4127"], kind)


@fmt("dotenv")
def _(rng: Rng) -> Text:
    name, s, kind = clean(rng, ["scream"])
    q = rng.choice(["", '"', "'"])
    e = rng.choice(["", "export "])
    return Text(f"{e}BATCH=4127\n{e}{name}={q}{s.text}{q}\n{e}MODEL=gpt2-xl\n", [s.text], ["4127", "gpt2-xl"], kind)


@fmt("xml-element")
def _(rng: Rng) -> Text:
    name, s, kind = clean(rng, ["camel", "pascal", "snake", "kebab", "flat"])
    gap = rng.choice(["", "\n  "])
    return Text(f"<server><id>nexus-4127</id>{gap}<{name}>{s.text}</{name}>{gap}<model>gpt2-xl</model></server>", [s.text], ["nexus-4127", "gpt2-xl"], kind)


@fmt("xml-attribute")
def _(rng: Rng) -> Text:
    name, s, kind = clean(rng, ["camel", "snake", "kebab", "flat"])
    q = rng.choice(['"', "'"])
    return Text(f"<connection host={q}db7.internal{q} {name}={q}{s.text}{q} port={q}4127{q}/>", [s.text], ["db7.internal", "4127"], kind)


@fmt("xml-add-key")
def _(rng: Rng) -> Text:
    name, s, kind = clean(rng, ["pascal", "camel"])
    k = rng.choice(["key", "name"])
    return Text(f'<appSettings><add {k}="BatchSize" value="4127"/><add {k}="{name}" value="{s.text}"/></appSettings>', [s.text], ["4127", "BatchSize"], kind)


@fmt("netrc")
def _(rng: Rng) -> Text:
    s = vendor(rng, rng.choice(["wandb", "github", "hf", "gitlab"]))[0]
    sep = rng.choice([" ", "\n  "])
    return Text(f"machine api.wandb.ai{sep}login user{sep}password {s.text}\n", [s.text], ["api.wandb.ai"], s.source)


@fmt("pgpass")
def _(rng: Rng) -> Text:
    s = opaque(rng)
    return Text(f"db7.internal:5432:runs:ml:{s.text}\n", [s.text], ["db7.internal"], "pgpass")


@fmt("npmrc")
def _(rng: Rng) -> Text:
    s = vendor(rng, "npm")[0] if rng.random() < 0.5 else opaque(rng)
    return Text(f"//registry.npmjs.org/:{rng.choice(['_authToken', '_password', '_auth'])}={s.text}\n", [s.text], ["registry.npmjs.org"], s.source)


@fmt("docker-config")
def _(rng: Rng) -> Text:
    s = base64.b64encode(f"bob:{opaque(rng).text}".encode()).decode()
    return Text(json.dumps({"auths": {"nvcr.io": {"auth": s}}}), [s], ["nvcr.io"], "docker-config")


@fmt("gcp-service-account")
def _(rng: Rng) -> Text:
    block, lines = pem(rng)
    key = rand(rng, 40, HEX)
    text = json.dumps({"type": "service_account", "project_id": "ml-4127", "private_key_id": key, "private_key": block + "\n"})
    return Text(text, lines, ["service_account", "ml-4127"], "pem")


@fmt("private-key")
def _(rng: Rng) -> Text:
    block, lines = pem(rng)
    return Text(block, lines, [], "pem")


# --- headers


@fmt("header-bearer")
def _(rng: Rng) -> Text:
    s = rng.choice([vendor(rng)[0], opaque(rng), Secret(jwt(rng), "jwt")])
    word = rng.choice(["Bearer", "Bearer", "bearer", "Token", "token"])
    return Text(f"{rng.choice(['Authorization', 'authorization', 'Proxy-Authorization'])}:{rng.choice([' ', '', ' '])}{word} {s.text}", [s.text], [], s.source)


@fmt("header-basic")
def _(rng: Rng) -> Text:
    s = base64.b64encode(f"alice:{password(rng).text}".encode()).decode()
    return Text(f"Authorization: Basic {s}", [s], [], "basic")


@fmt("header-digest")
def _(rng: Rng) -> Text:
    s = rand(rng, 32, HEX)
    return Text(f'Authorization: Digest username="mufasa", realm="models", nonce="dcd98b", uri="/v1/x", response="{s}", qop=auth', [s], [], "digest")


@fmt("header-aws4")
def _(rng: Rng) -> Text:
    s = rand(rng, 64, HEX)
    return Text(f"Authorization: AWS4-HMAC-SHA256 Credential=AKIA{rand(rng, 16, UPPER)}/20240511/us-east-1/s3/aws4_request, SignedHeaders=host;x-amz-date, Signature={s}", [s], [], "aws4")


@fmt("header-api-key")
def _(rng: Rng) -> Text:
    s = rng.choice([vendor(rng)[0], opaque(rng)])
    h = rng.choice(["X-Api-Key", "x-api-key", "api-key", "X-Auth-Token", "PRIVATE-TOKEN", "X-Vault-Token", "Ocp-Apim-Subscription-Key", "X-Goog-Api-Key", "DD-API-KEY", "X-Hub-Signature",
                    "JOB-TOKEN", "X-Amz-Security-Token", "apikey", "X-Figma-Token", "xi-api-key", "X-Access-Token", "X-Secret", "X-CSRF-Token", "Circle-Token"])
    return Text(f"{h}:{rng.choice([' ', '', ' '])}{s.text}", [s.text], [], s.source)


@fmt("header-cookie")
def _(rng: Rng) -> Text:
    s = rng.choice([Secret(jwt(rng), "jwt"), opaque(rng)])
    name = rng.choice(["session", "sessionid", "JSESSIONID", "auth_token", "connect.sid", "_gitlab_session", "access_token"])
    return Text(f"Cookie: {rng.choice(['', 'theme=dark; '])}{name}={s.text}{rng.choice(['', '; lang=en'])}", [s.text], [], "cookie")


# --- URLs


@fmt("url-userinfo")
def _(rng: Rng) -> Text:
    s = password(rng) if rng.random() < 0.5 else opaque(rng)
    value = urllib.parse.quote(s.text, safe="") if rng.random() < 0.6 or set(s.text) & set("/@?#:% +") else s.text
    scheme = rng.choice(["https", "http", "ftp", "postgresql", "mysql", "redis", "rediss", "amqp", "amqps", "mongodb", "mongodb+srv", "socks5", "smtp", "nats", "clickhouse", "mssql+pyodbc",
                         "postgresql+psycopg2", "sftp", "ldap", "git+https", "trino", "snowflake", "rtsp"])
    user = "" if scheme.startswith("redis") and rng.random() < 0.6 else rng.choice(["alice", "svc-train", "oauth2", "__token__", "x-access-token", "user%40corp"])
    tail = rng.choice(["db7.internal:5432/runs", "host4127.example.com/path/x", "mirror4127.example.org:8443/simple"])
    return Text(f"{scheme}://{user}:{value}@{tail}", [value], [tail], f"{scheme}-{s.source}")


@fmt("url-token-as-user")
def _(rng: Rng) -> Text:
    s = vendor(rng, rng.choice(["github", "gitlab", "github-fine", "hf"]))[0]
    tail = rng.choice(["github.com/org/model-zoo.git", "gitlab.example.com/ml/lab4127.git"])
    return Text(f"https://{s.text}@{tail}", [s.text], [tail], s.source)


@fmt("url-query")
def _(rng: Rng) -> Text:
    name = rng.choice(["token", "api_key", "apikey", "access_token", "key", "auth", "sig", "signature", "secret", "password", "client_secret", "private_token", "api-key", "code", "jwt", "auth_token"])
    s = Secret(vendor(rng, "google-api")[0].text, "vendor:google-api", speaks=True) if name == "key" else Secret(rand(rng, rng.choice([24, 32, 40]), URL64), "url64")
    if name == "code":
        name = "access_token"
    at = rng.randrange(2)
    query = [f"model=gpt2-xl", "limit=4127"]
    query.insert(at, f"{name}={s.text}")
    frag = rng.choice(["", "", "#top"])
    return Text(f"{rng.choice(['https', 'wss', 'http'])}://api.example.com/v1/items?{'&'.join(query)}{frag}", [s.text], ["api.example.com", "gpt2-xl", "4127"], name)


@fmt("url-sas")
def _(rng: Rng) -> Text:
    s = urllib.parse.quote(rand(rng, 43, B64) + "=", safe="")
    return Text(f"https://acct4127.blob.core.windows.net/data/shard-01.tar?sv=2022-11-02&ss=b&srt=co&sp=rl&se=2030-01-01T00%3A00%3A00Z&sig={s}", [s], ["acct4127.blob.core.windows.net"], "sas")


@fmt("url-s3-presigned")
def _(rng: Rng) -> Text:
    s = rand(rng, 64, HEX)
    token = urllib.parse.quote("IQoJb3JpZ2luX2Vj" + rand(rng, 60, B64), safe="")
    return Text(f"https://bucket4127.s3.amazonaws.com/w.bin?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Date=20240511T000000Z&X-Amz-Expires=3600&X-Amz-Security-Token={token}&X-Amz-Signature={s}",
                [s, token], ["bucket4127.s3.amazonaws.com"], "s3")


@fmt("url-gcs-signed")
def _(rng: Rng) -> Text:
    s = rand(rng, 256, HEX)
    return Text(f"https://storage.googleapis.com/bucket4127/w.bin?X-Goog-Algorithm=GOOG4-RSA-SHA256&X-Goog-Expires=900&X-Goog-Signature={s}", [s], ["bucket4127/w.bin"], "gcs")


@fmt("url-cloudfront")
def _(rng: Rng) -> Text:
    s = rand(rng, 170, URL64) + "__"
    return Text(f"https://d4127.cloudfront.net/w.bin?Expires=1893456000&Signature={s}&Key-Pair-Id=K{rand(rng, 13, UPPER)}", [s], ["d4127.cloudfront.net"], "cloudfront")


@fmt("url-webhook")
def _(rng: Rng) -> Text:
    kind = rng.choice(["slack", "discord", "teams", "telegram", "zapier", "feishu", "google-chat"])
    n = rand(rng, 9, UPPER + DIGITS)
    match kind:
        case "slack":
            s = rand(rng, 24)
            u = f"https://hooks.slack.com/services/T{n}/B{n}/{s}"
        case "discord":
            s = rand(rng, 68, URL64)
            u = f"https://discord.com/api/webhooks/{rand(rng, 18, DIGITS)}/{s}"
        case "teams":
            s = rand(rng, 32, HEX)
            u = f"https://corp.webhook.office.com/webhookb2/{uuid(rng)}@{uuid(rng)}/IncomingWebhook/{s}/{uuid(rng)}"
        case "telegram":
            s = vendor(rng, "telegram")[0].text
            u = f"https://api.telegram.org/bot{s}/sendMessage"
        case "zapier":
            s = rand(rng, 20)
            u = f"https://hooks.zapier.com/hooks/catch/1234567/{s}/?api_key={s}"
        case "feishu":
            s = uuid(rng)
            u = f"https://open.feishu.cn/open-apis/bot/v2/hook/{s}"
        case _:
            s = rand(rng, 40, URL64)
            u = f"https://chat.googleapis.com/v1/spaces/AAAA/messages?key=AIza{rand(rng, 35)}&token={s}"
    return Text(u, [s], [], kind)


@fmt("url-sentry-dsn")
def _(rng: Rng) -> Text:
    s = rand(rng, 32, HEX)
    return Text(f"https://{rand(rng, 32, HEX)}:{s}@o4127.ingest.sentry.io/42", [s], ["o4127.ingest.sentry.io"], "sentry")


# --- connection strings


@fmt("ado")
def _(rng: Rng) -> Text:
    _, s, kind = clean(rng, ["snake"])
    pw = rng.choice(["Password", "Pwd", "PWD", "password"])
    return Text(f"Server=tcp:db7.internal,1433;Initial Catalog=runs4127;User ID=sa;{pw}={s.text};Encrypt=True;", [s.text], ["db7.internal", "runs4127"], kind)


@fmt("odbc")
def _(rng: Rng) -> Text:
    s = password(rng)
    return Text(f"DRIVER={{ODBC Driver 18 for SQL Server}};SERVER=db7.internal;UID=sa;PWD={{{s.text}}};", [s.text], ["db7.internal"], s.source)


@fmt("azure-connection-string")
def _(rng: Rng) -> Text:
    s = rand(rng, 86, B64) + "=="
    if rng.random() < 0.5:
        return Text(f"DefaultEndpointsProtocol=https;AccountName=acct4127;AccountKey={s};EndpointSuffix=core.windows.net", [s], ["acct4127", "core.windows.net"], "storage")
    s = rand(rng, 43, B64) + "="
    return Text(f"Endpoint=sb://ns4127.servicebus.windows.net/;SharedAccessKeyName=Root;SharedAccessKey={s};EntityPath=q", [s], ["ns4127.servicebus.windows.net"], "servicebus")


@fmt("jdbc")
def _(rng: Rng) -> Text:
    _, s, kind = clean(rng, ["snake"])
    form = rng.choice(["jdbc:postgresql://db7.internal:5432/runs?user=ml&password={}&ssl=true", "jdbc:mysql://db7.internal/runs?password={}&user=ml", "jdbc:sqlserver://db7.internal:1433;user=sa;password={};encrypt=true",
                       "jdbc:oracle:thin:scott/{}@//db7.internal:1521/orcl", "jdbc:databricks://db7.internal:443;AuthMech=3;UID=token;PWD={}"])
    return Text(form.format(s.text), [s.text], ["db7.internal"], kind)


@fmt("libpq-dsn")
def _(rng: Rng) -> Text:
    s = password(rng, blanks=True)
    lit = f"'{s.text}'" if " " in s.text else s.text
    return Text(f"host=db7.internal port=4127 dbname=runs user=ml password={lit} sslmode=require", [s.text], ["db7.internal", "4127"], s.source)


@fmt("kafka-jaas")
def _(rng: Rng) -> Text:
    _, s, kind = clean(rng, ["snake"])
    return Text(f'sasl.mechanism=PLAIN\nsasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username="ml" password="{s.text}";\n', [s.text], ["PlainLoginModule"], kind)


# --- code


@fmt("python-assign")
def _(rng: Rng) -> Text:
    name, s, kind = named(rng, ["snake", "scream"], blanks=True)
    if "'" in s.text or "\\" in s.text:
        lit = js(s.text)
    else:
        lit = rng.choice([f"'{s.text}'", js(s.text)])
    form = rng.choice(["import train; {n} = {v}; train.run(steps=4127)", "{n}: str = {v}\nprint(4127)", "import os; os.environ['{N}'] = {v}; print(4127)", "import os\nos.environ[\"{N}\"]={v}\nrun(4127)",
                       "run({n}={v}, steps=4127)", "client = Client(url='http://x', {n} = {v}, steps=4127)", "import os; os.environ.setdefault('{N}', {v}); print(4127)", "os.putenv('{N}', {v}); print(4127)",
                       "cfg = dict(steps=4127, {n}={v})", "cfg = {{'{n}': {v}, 'steps': 4127}}", "cfg['{n}'] = {v}; cfg['steps'] = 4127", "self.{n} = {v}; self.steps = 4127", "setattr(cfg, '{n}', {v}); run(4127)",
                       "h = {{'Authorization': f'Bearer {{t}}', '{n}': {v}}}; n = 4127", "os.environ.update({{'{N}': {v}}}); run(4127)", "{n} = ({v}); steps = 4127", "{n} = r{v}; steps = 4127", "def f({n}: str = {v}) -> int: return 4127",
                       "os.environ.update({N}={v}); run(4127)", "{n} = os.getenv('{N}', {v}); run(4127)", "from x import login; login(user='bob', {n}={v}); run(4127)"])
    if "r{v}" in form and "\\" in lit:
        form = "{n} = {v}; steps = 4127"
    n = name.lower()
    return Text(form.format(n=n, N=name.upper(), v=lit), [lit[1:-1]], ["4127"], kind)


@fmt("python-calls")
def _(rng: Rng) -> Text:
    service, form = rng.choice([("hf", "from huggingface_hub import login; login('{s}')"), ("hf", "from huggingface_hub import HfApi; HfApi(token='{s}').whoami()"), ("wandb", "import wandb; wandb.login(key='{s}')"),
                                ("openai", "import openai; openai.api_key = '{s}'"), ("openai", "from openai import OpenAI; OpenAI(base_url='http://h4127/v1', api_key=\"{s}\")"), ("comet", "import comet_ml; comet_ml.init(api_key='{s}')"),
                                ("neptune", "import neptune; neptune.init_run(project='a/b', api_token='{s}')"), ("slack-bot", "from slack_sdk import WebClient; WebClient(token='{s}')"),
                                ("hf", "AutoModel.from_pretrained('gpt2-xl', token='{s}')"), ("hf", "m = AutoModel.from_pretrained('gpt2-xl', use_auth_token='{s}')"), ("jwt", "requests.get(u, headers={{'Authorization': 'Bearer {s}'}})"),
                                ("wandb", "requests.get(u, auth=('api', '{s}'))"), ("aws-secret", "boto3.client('s3', aws_access_key_id='AKIAQQQQQQQQQQQQQQQQ', aws_secret_access_key='{s}')"),
                                ("github", "headers = {{\"Authorization\": f\"token {s}\"}}"), ("mlflow", "psycopg2.connect(host='db7', user='ml', password='{s}')"), ("clearml", "Task.set_credentials(api_host='http://h4127', key='AAAA', secret='{s}')")])
    s = vendor(rng, service)[0]
    text = form.format(s=s.text)
    return Text(text, [s.text], [h for h in ("gpt2-xl", "h4127") if h in text], s.source)


@fmt("js-code")
def _(rng: Rng) -> Text:
    name, s, kind = clean(rng, ["camel", "scream"])
    q = rng.choice(["'", '"', "`"])
    form = rng.choice(["const {n} = {v}; run(4127)", "process.env.{n} = {v}; run(4127)", "fetch(u, {{headers: {{'x-api-key': {v}}}, steps: 4127}})", "let {n}={v},steps=4127", "new Client({{{n}: {v}, steps: 4127}})", "process.env['{n}']={v};run(4127)"])
    return Text(form.format(n=name, v=f"{q}{s.text}{q}"), [s.text], ["4127"], kind)


@fmt("powershell")
def _(rng: Rng) -> Text:
    name, s, kind = clean(rng, ["scream", "camel"])
    form = rng.choice(["$env:{n} = '{s}'; python train.py --steps 4127", "$env:{n}=\"{s}\"; python train.py --steps 4127", "Set-Item Env:{n} '{s}'; run 4127", "ConvertTo-SecureString '{s}' -AsPlainText -Force; run 4127"])
    return Text(form.format(n=name, s=s.text), [s.text], ["4127"], kind)


@fmt("sql")
def _(rng: Rng) -> Text:
    s = password(rng)
    form = rng.choice(["CREATE USER ml IDENTIFIED BY '{}';", "ALTER USER ml WITH PASSWORD '{}';", "CREATE ROLE ml LOGIN PASSWORD '{}' VALID UNTIL '2030-01-01';", "SET PASSWORD FOR 'ml'@'%' = '{}';", "ALTER LOGIN sa WITH PASSWORD = '{}';"])
    return Text(form.format(s.text), [s.text], [], s.source)


@fmt("vendor-bare")
def _(rng: Rng) -> Text:
    """A vendor's token with nothing beside it, in prose or as a value under a harmless name."""
    while True:
        s = vendor(rng)[0]
        if s.speaks:
            break
    form = rng.choice(["{}", "use {} for the run", "note={}", "hello,{},world", "<{}>", "x={};y=4127"])
    return Text(form.format(s.text), [s.text], [], s.source)


@fmt("terraform-hcl")
def _(rng: Rng) -> Text:
    name, s, kind = clean(rng, ["snake"])
    return Text(f'region = "eu-west-1"\n{name} = "{s.text}"\nnodes = 4127\n', [s.text], ["eu-west-1", "4127"], kind)


@fmt("form-body")
def _(rng: Rng) -> Text:
    name, s, kind = clean(rng, ["snake", "camel"])
    value = urllib.parse.quote(s.text, safe="")
    return Text(f"grant_type=client_credentials&{name}={value}&scope=read4127", [value], ["client_credentials", "read4127"], kind)


@fmt("ssh-config-and-wpa")
def _(rng: Rng) -> Text:
    s = password(rng)
    return Text(f'network={{\n  ssid="lab4127"\n  psk="{s.text}"\n}}\n', [s.text], ["lab4127"], s.source)


@fmt("colon-prose")
def _(rng: Rng) -> Text:
    s = rng.choice([password(rng), opaque(rng)])
    word = rng.choice(["password", "Password", "api key", "token", "passphrase", "secret", "API key"])
    if word in ("token", "api key", "API key") and not s.opaque:
        s = opaque(rng)
    return Text(f"host db7.internal {word}: {s.text}", [s.text], ["db7.internal"], s.source)


# --- more notations


@fmt("json-headers")
def _(rng: Rng) -> Text:
    s = rng.choice([vendor(rng)[0], opaque(rng)])
    key, value = rng.choice([("Authorization", "Bearer {}"), ("authorization", "bearer {}"), ("X-Api-Key", "{}"), ("api-key", "{}"), ("Authorization", "Token {}"), ("Cookie", "session={}")])
    return Text(json.dumps({"url": "http://h4127/v1", "headers": {"Accept": "text/plain-x", key: value.format(s.text)}}), [s.text], ["h4127", "text/plain-x"], s.source)


@fmt("other-http-request")
def _(rng: Rng) -> Text:
    s = rng.choice([vendor(rng)[0], opaque(rng)])
    return Text(f"GET /v1/models4127 HTTP/1.1\r\nHost: db7.internal\r\nAuthorization: Bearer {s.text}\r\nAccept: text/plain-x\r\n\r\n", [s.text], ["models4127", "db7.internal", "text/plain-x"], s.source)


@fmt("hash-rocket")
def _(rng: Rng) -> Text:
    name, s, kind = clean(rng, ["snake", "camel"])
    q = rng.choice(["'", '"'])
    form = rng.choice(["['host' => 'db7.internal', '{n}' => {q}{s}{q}, 'port' => 4127]", "{{:host => 'db7.internal', :{n} => {q}{s}{q}, :port => 4127}}", "{{host: 'db7.internal', {n}: {q}{s}{q}, port: 4127}}"])
    return Text(form.format(n=name, q=q, s=s.text), [s.text], ["db7.internal", "4127"], kind)


@fmt("go-or-ruby-setenv")
def _(rng: Rng) -> Text:
    name, s, kind = clean(rng, ["scream"])
    form = rng.choice(['os.Setenv("{n}", "{s}"); run4127()', "ENV['{n}'] = '{s}'; run4127()", '$ENV{{{n}}} = "{s}"; run4127();', 'Sys.setenv({n}="{s}"); run4127()', "putenv('{n}={s}'); run4127();", "setenv('{n}', '{s}', 1); run4127()", 'std::env::set_var("{n}", "{s}"); run4127();'])
    return Text(form.format(n=name, s=s.text), [s.text], ["run4127"], kind)


@fmt("dockerfile")
def _(rng: Rng) -> Text:
    name, s, kind = clean(rng, ["scream"])
    form = rng.choice(["ENV {n}={s}", "ENV {n} {s}", "ARG {n}={s}", 'ENV {n}="{s}"', "ENV BATCH=88 {n}={s}"])
    return Text(f"FROM img4127:24.05\n{form.format(n=name, s=s.text)}\nCMD [\"run4127\"]\n", [s.text], ["img4127:24.05", "run4127"], kind)


@fmt("yaml-compose-list")
def _(rng: Rng) -> Text:
    name, s, kind = clean(rng, ["scream"])
    q = rng.choice(["", '"', "'"])
    return Text(f"services:\n  api4127:\n    image: gpt2-xl\n    environment:\n      - BATCH=4127\n      - {q}{name}={s.text}{q}\n    ports: ['8000:8000']\n", [s.text], ["api4127", "gpt2-xl", "BATCH=4127"], kind)


@fmt("yaml-quoted-key")
def _(rng: Rng) -> Text:
    name, s, kind = clean(rng, ["snake", "kebab"])
    key = rng.choice([f'"{name}"', f"'{name}'", f"? {name}\n"])  # the last is YAML's long form: the value on a line of its own
    return Text(f'steps: 4127\n{key}: "{s.text}"\nmodel: gpt2-xl\n', [s.text], ["4127", "gpt2-xl"], kind)


@fmt("yaml-next-line")
def _(rng: Rng) -> Text:
    name, s, kind = clean(rng, ["snake", "kebab", "camel"])
    return Text(f"steps: 4127\n{name}:\n  \"{s.text}\"\nmodel: gpt2-xl\n", [s.text], ["4127", "gpt2-xl"], kind)


@fmt("yaml-comment")
def _(rng: Rng) -> Text:
    name, s, kind = clean(rng, ["snake", "kebab"])
    return Text(f"steps: 4127\n{name}: {s.text}  # rotated 2024-05\n# {name}: {s.text}\nmodel: gpt2-xl\n", [s.text], ["4127", "gpt2-xl"], kind)


@fmt("systemd-unit")
def _(rng: Rng) -> Text:
    name, s, kind = clean(rng, ["scream"])
    form = rng.choice(['Environment="{n}={s}"', "Environment={n}={s}", 'Environment="BATCH=88" "{n}={s}"'])
    return Text(f"[Service]\n{form.format(n=name, s=s.text)}\nExecStart=/opt/run4127\n", [s.text], ["/opt/run4127"], kind)


@fmt("git-credentials")
def _(rng: Rng) -> Text:
    s = vendor(rng, rng.choice(["github", "gitlab"]))[0] if rng.random() < 0.6 else Secret(rand(rng, 30), "alnum")
    form = rng.choice(["https://bob:{}@gl4127.example.com\n", "protocol=https\nhost=gl4127.example.com\nusername=bob\npassword={}\n"])
    return Text(form.format(s.text), [s.text], ["gl4127.example.com"], s.source)


@fmt("curl-config")
def _(rng: Rng) -> Text:
    s = opaque(rng)
    form = rng.choice(['url = "https://h4127/v1"\nuser = "alice:{}"\n', 'url = "https://h4127/v1"\nheader = "Authorization: Bearer {}"\n', 'url = "https://h4127/v1"\noauth2-bearer = "{}"\n'])
    return Text(form.format(s.text), [s.text], ["https://h4127/v1"], s.source)


@fmt("lisp-and-lua")
def _(rng: Rng) -> Text:
    name, s, kind = clean(rng, ["kebab", "snake"])
    form = rng.choice(['(setq steps 4127 {n} "{s}")', '{{ steps = 4127, {m} = "{s}" }}', '["{n}"] = "{s}", steps = 4127', "(:steps 4127 :{n} \"{s}\")"])
    return Text(form.format(n=name, m=name.replace("-", "_"), s=s.text), [s.text], ["4127"], kind)


@fmt("json-deep-list")
def _(rng: Rng) -> Text:
    name, s, kind = clean(rng, ["snake", "camel"])
    text = json.dumps({"servers": [{"url": "http://h4127", "auth": {"type": "basic-x", name: s.text}}, {"url": "http://h9081"}]}, ensure_ascii=False, separators=rng.choice([(",", ":"), (", ", ": ")]))
    return Text(text, [s.text], ["h4127", "h9081", "basic-x"], kind)


@fmt("json-escaped-twice")
def _(rng: Rng) -> Text:
    name, s, kind = clean(rng, ["snake"])
    inner = json.dumps(json.dumps({"a": {name: s.text}, "steps": 4127}, ensure_ascii=False), ensure_ascii=False)
    return Text(json.dumps({"payload": inner}, ensure_ascii=False), [s.text], ["4127"], kind)


@fmt("url-fragment-token")
def _(rng: Rng) -> Text:
    s = jwt(rng)
    return Text(f"https://app4127.example.com/cb#access_token={s}&state=x", [s], ["app4127.example.com"], "jwt")


@fmt("url-encoded-in-url")
def _(rng: Rng) -> Text:
    s = rand(rng, 30)
    inner = urllib.parse.quote(f"https://h9081/x?token={s}", safe="")
    return Text(f"https://h4127.example.com/go?next={inner}", [s], ["h4127.example.com"], "alnum")
