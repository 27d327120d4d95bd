"""Secret values: vendor tokens in their right form, random keys, passwords as people choose them."""
from __future__ import annotations

import base64
import json
import string
from collections.abc import Callable

from casegen.base import Rng, Secret

LOWER, UPPER, DIGITS = string.ascii_lowercase, string.ascii_uppercase, string.digits
ALNUM = LOWER + UPPER + DIGITS
HEX = DIGITS + "abcdef"
B64 = ALNUM + "+/"
URL64 = ALNUM + "-_"
B32 = UPPER + "234567"


def rand(rng: Rng, n: int, alphabet: str = ALNUM) -> str:
    """Random characters; never without a letter and a digit where the alphabet has both and n allows it."""
    while True:
        s = "".join(rng.choice(alphabet) for _ in range(n))
        if n < 8 or not (set(alphabet) & set(DIGITS)) or (any(c.isdigit() for c in s) and any(c.isalpha() for c in s)) or alphabet == DIGITS:
            return s


def uuid(rng: Rng) -> str:
    h = rand(rng, 32, HEX)
    return f"{h[:8]}-{h[8:12]}-4{h[13:16]}-a{h[17:20]}-{h[20:]}"


def jwt(rng: Rng) -> str:
    def part(data: dict[str, object]) -> str:
        return base64.urlsafe_b64encode(json.dumps(data).encode()).decode().rstrip("=")

    head = part({"alg": rng.choice(["HS256", "RS256", "ES256"]), "typ": "JWT"})
    return f"{head}.{part({'sub': rand(rng, 10, DIGITS), 'iat': rng.randrange(10**9, 2 * 10**9)})}.{rand(rng, 43, URL64)}"


# service: (token, is its own form enough to know it?, names it usually goes under)
Maker = Callable[[Rng], str]
VENDORS: dict[str, tuple[Maker, bool, list[str]]] = {
    "github": (lambda r: r.choice(["ghp_", "gho_", "ghs_", "ghu_"]) + rand(r, 36), True, ["GITHUB_TOKEN", "GH_TOKEN", "github_pat"]),
    "github-fine": (lambda r: "github_pat_" + rand(r, 22) + "_" + rand(r, 59), True, ["GH_PAT", "github-token"]),
    "gitlab": (lambda r: "glpat-" + rand(r, 20, URL64), True, ["GITLAB_TOKEN", "CI_JOB_TOKEN", "private-token"]),
    "gitlab-runner": (lambda r: "glrt-" + rand(r, 20, URL64), True, ["registration-token"]),
    "slack-bot": (lambda r: f"xoxb-{rand(r, 12, DIGITS)}-{rand(r, 13, DIGITS)}-{rand(r, 24)}", True, ["SLACK_BOT_TOKEN", "slack_token"]),
    "slack-app": (lambda r: f"xapp-1-A{rand(r, 10, UPPER + DIGITS)}-{rand(r, 13, DIGITS)}-{rand(r, 64, HEX)}", True, ["SLACK_APP_TOKEN"]),
    "stripe": (lambda r: r.choice(["sk_live_", "sk_test_", "rk_live_"]) + rand(r, 24), True, ["STRIPE_SECRET_KEY", "stripe_api_key"]),
    "stripe-webhook": (lambda r: "whsec_" + rand(r, 32), True, ["STRIPE_WEBHOOK_SECRET"]),
    "databricks": (lambda r: "dapi" + rand(r, 32, HEX), True, ["DATABRICKS_TOKEN"]),
    "docker": (lambda r: "dckr_pat_" + rand(r, 27, URL64), True, ["DOCKER_PASSWORD", "DOCKERHUB_TOKEN"]),
    "google-api": (lambda r: "AIza" + rand(r, 35, URL64), True, ["GOOGLE_API_KEY", "gemini_api_key"]),
    "google-oauth": (lambda r: "ya29." + rand(r, 120, URL64), True, ["GOOGLE_OAUTH_ACCESS_TOKEN"]),
    "google-client": (lambda r: "GOCSPX-" + rand(r, 28, URL64), True, ["GOOGLE_CLIENT_SECRET", "client_secret"]),
    "aws-secret": (lambda r: rand(r, 40, B64), False, ["AWS_SECRET_ACCESS_KEY", "aws_secret_access_key", "s3.secret-key"]),
    "aws-session": (lambda r: "IQoJb3JpZ2luX2Vj" + rand(r, 180, B64) + "==", False, ["AWS_SESSION_TOKEN"]),
    "azure-client": (lambda r: rand(r, 3) + "8Q~" + rand(r, 34, ALNUM + "-_~."), False, ["AZURE_CLIENT_SECRET", "ARM_CLIENT_SECRET"]),
    "azure-storage": (lambda r: rand(r, 86, B64) + "==", False, ["AZURE_STORAGE_KEY", "AccountKey", "account-key"]),
    "azure-openai": (lambda r: rand(r, 32, HEX), False, ["AZURE_OPENAI_API_KEY"]),
    "atlassian": (lambda r: "ATATT3xFfGF0" + rand(r, 160, URL64) + "=" + rand(r, 8, "0123456789ABCDEF"), True, ["JIRA_API_TOKEN", "CONFLUENCE_TOKEN"]),
    "shopify": (lambda r: r.choice(["shpat_", "shpss_", "shppa_"]) + rand(r, 32, HEX), True, ["SHOPIFY_ACCESS_TOKEN"]),
    "notion": (lambda r: r.choice(["secret_" + rand(r, 43), "ntn_" + rand(r, 46)]), True, ["NOTION_TOKEN", "notion_api_key"]),
    "linear": (lambda r: "lin_api_" + rand(r, 40), True, ["LINEAR_API_KEY"]),
    "square": (lambda r: "EAAA" + rand(r, 60, URL64), False, ["SQUARE_ACCESS_TOKEN"]),
    "square-secret": (lambda r: "sq0csp-" + rand(r, 43, URL64), True, ["SQUARE_APP_SECRET"]),
    "twilio": (lambda r: rand(r, 32, HEX), False, ["TWILIO_AUTH_TOKEN", "twilio.auth_token"]),
    "twilio-key": (lambda r: "SK" + rand(r, 32, HEX), False, ["TWILIO_API_SECRET"]),
    "sendgrid": (lambda r: f"SG.{rand(r, 22, URL64)}.{rand(r, 43, URL64)}", True, ["SENDGRID_API_KEY"]),
    "mailgun": (lambda r: "key-" + rand(r, 32, HEX), False, ["MAILGUN_API_KEY"]),
    "mailchimp": (lambda r: rand(r, 32, HEX) + "-us" + str(r.randrange(1, 22)), False, ["MAILCHIMP_API_KEY"]),
    "npm": (lambda r: "npm_" + rand(r, 36), True, ["NPM_TOKEN", "NODE_AUTH_TOKEN"]),
    "pypi": (lambda r: "pypi-AgEIcHlwaS5vcmc" + rand(r, 140, URL64), True, ["TWINE_PASSWORD", "UV_PUBLISH_TOKEN", "PYPI_TOKEN"]),
    "hf": (lambda r: "hf_" + rand(r, 34, LOWER + UPPER), True, ["HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "hf_token", "hub-token", "use_auth_token"]),
    "openai": (lambda r: r.choice(["sk-" + rand(r, 48), "sk-proj-" + rand(r, 20, URL64) + "T3BlbkFJ" + rand(r, 20, URL64)]), True, ["OPENAI_API_KEY", "openai-api-key"]),
    "anthropic": (lambda r: "sk-ant-api03-" + rand(r, 93, URL64) + "AA", True, ["ANTHROPIC_API_KEY"]),
    "openrouter": (lambda r: "sk-or-v1-" + rand(r, 64, HEX), True, ["OPENROUTER_API_KEY"]),
    "wandb": (lambda r: rand(r, 40, HEX), False, ["WANDB_API_KEY", "wandb_key", "wandb.api_key"]),
    "cohere": (lambda r: rand(r, 40), False, ["COHERE_API_KEY", "CO_API_KEY"]),
    "mistral": (lambda r: rand(r, 32), False, ["MISTRAL_API_KEY"]),
    "together": (lambda r: rand(r, 64, HEX), False, ["TOGETHER_API_KEY"]),
    "groq": (lambda r: "gsk_" + rand(r, 52), True, ["GROQ_API_KEY"]),
    "replicate": (lambda r: "r8_" + rand(r, 37), True, ["REPLICATE_API_TOKEN"]),
    "perplexity": (lambda r: "pplx-" + rand(r, 48), True, ["PERPLEXITY_API_KEY"]),
    "fireworks": (lambda r: "fw_" + rand(r, 24), False, ["FIREWORKS_API_KEY"]),
    "xai": (lambda r: "xai-" + rand(r, 80), True, ["XAI_API_KEY"]),
    "nvidia-ngc": (lambda r: "nvapi-" + rand(r, 64, URL64), True, ["NGC_API_KEY", "NVIDIA_API_KEY", "NGC_CLI_API_KEY"]),
    "runpod": (lambda r: "rpa_" + rand(r, 46, UPPER + DIGITS), False, ["RUNPOD_API_KEY"]),
    "lambda-cloud": (lambda r: f"secret_{rand(r, 20)}.{rand(r, 32)}", False, ["LAMBDA_API_KEY"]),
    "modal": (lambda r: "as-" + rand(r, 22), False, ["MODAL_TOKEN_SECRET"]),
    "civitai": (lambda r: rand(r, 32, HEX), False, ["CIVITAI_API_TOKEN"]),
    "digitalocean": (lambda r: "dop_v1_" + rand(r, 64, HEX), True, ["DIGITALOCEAN_TOKEN", "DIGITALOCEAN_ACCESS_TOKEN"]),
    "heroku": (uuid, False, ["HEROKU_API_KEY", "heroku-api-key"]),
    "vault": (lambda r: "hvs." + rand(r, 90, URL64), True, ["VAULT_TOKEN", "vault-token"]),
    "vault-old": (lambda r: "s." + rand(r, 24), False, ["VAULT_DEV_ROOT_TOKEN_ID", "VAULT_TOKEN"]),
    "telegram": (lambda r: f"{rand(r, 10, DIGITS)}:AA{rand(r, 33, URL64)}", True, ["TELEGRAM_BOT_TOKEN", "tg-token"]),
    "discord": (lambda r: f"MT{rand(r, 24)}.{rand(r, 6, URL64)}.{rand(r, 38, URL64)}", False, ["DISCORD_TOKEN", "DISCORD_BOT_TOKEN"]),
    "datadog": (lambda r: rand(r, 32, HEX), False, ["DD_API_KEY", "DATADOG_API_KEY"]),
    "datadog-app": (lambda r: rand(r, 40, HEX), False, ["DD_APP_KEY", "DATADOG_APP_KEY"]),
    "newrelic": (lambda r: "NRAK-" + rand(r, 27, UPPER + DIGITS), True, ["NEW_RELIC_API_KEY"]),
    "newrelic-ingest": (lambda r: rand(r, 36, HEX) + "NRAL", False, ["NEW_RELIC_LICENSE_KEY"]),
    "sentry": (lambda r: "sntrys_" + rand(r, 100, URL64), True, ["SENTRY_AUTH_TOKEN"]),
    "grafana": (lambda r: f"glsa_{rand(r, 32)}_{rand(r, 8, HEX)}", True, ["GRAFANA_TOKEN", "GRAFANA_API_KEY"]),
    "grafana-cloud": (lambda r: "glc_" + rand(r, 100, B64), True, ["GRAFANA_CLOUD_API_KEY"]),
    "doppler": (lambda r: "dp.st.prd." + rand(r, 40), True, ["DOPPLER_TOKEN"]),
    "pulumi": (lambda r: "pul-" + rand(r, 40, HEX), True, ["PULUMI_ACCESS_TOKEN"]),
    "terraform-cloud": (lambda r: rand(r, 14) + ".atlasv1." + rand(r, 67), True, ["TFE_TOKEN", "TF_TOKEN_app_terraform_io"]),
    "netlify": (lambda r: r.choice(["nfp_" + rand(r, 36), rand(r, 43, URL64)]), False, ["NETLIFY_AUTH_TOKEN"]),
    "vercel": (lambda r: rand(r, 24), False, ["VERCEL_TOKEN"]),
    "supabase": (lambda r: "sbp_" + rand(r, 40, HEX), True, ["SUPABASE_ACCESS_TOKEN"]),
    "supabase-jwt": (jwt, True, ["SUPABASE_SERVICE_ROLE_KEY", "SUPABASE_KEY"]),
    "planetscale": (lambda r: "pscale_tkn_" + rand(r, 43, URL64), True, ["PLANETSCALE_SERVICE_TOKEN"]),
    "fly": (lambda r: "FlyV1 fm2_" + rand(r, 100, B64), True, ["FLY_API_TOKEN"]),
    "tailscale": (lambda r: f"tskey-auth-k{rand(r, 11)}CNTRL-{rand(r, 32)}", True, ["TS_AUTHKEY", "TAILSCALE_AUTHKEY"]),
    "ngrok": (lambda r: rand(r, 27) + "_" + rand(r, 21), False, ["NGROK_AUTHTOKEN"]),
    "kaggle": (lambda r: rand(r, 32, HEX), False, ["KAGGLE_KEY"]),
    "comet": (lambda r: rand(r, 25), False, ["COMET_API_KEY"]),
    "neptune": (lambda r: base64.b64encode(json.dumps({"api_address": "https://app.neptune.ai", "api_key": uuid(r)}).encode()).decode(), False, ["NEPTUNE_API_TOKEN"]),
    "clearml": (lambda r: rand(r, 50), False, ["CLEARML_API_SECRET_KEY", "CLEARML_API_ACCESS_KEY"]),
    "mlflow": (lambda r: rand(r, 20, ALNUM + "!#%&*"), False, ["MLFLOW_TRACKING_PASSWORD"]),
    "cloudflare": (lambda r: rand(r, 40, URL64), False, ["CLOUDFLARE_API_TOKEN", "CF_API_TOKEN"]),
    "circleci": (lambda r: "CCIPAT_" + rand(r, 22) + "_" + rand(r, 40, HEX), True, ["CIRCLECI_TOKEN"]),
    "buildkite": (lambda r: "bkua_" + rand(r, 40, HEX), True, ["BUILDKITE_API_TOKEN"]),
    "figma": (lambda r: "figd_" + rand(r, 43, URL64), True, ["FIGMA_TOKEN"]),
    "airtable": (lambda r: "pat" + rand(r, 14) + "." + rand(r, 64, HEX), True, ["AIRTABLE_API_KEY"]),
    "asana": (lambda r: "1/" + rand(r, 16, DIGITS) + ":" + rand(r, 32, HEX), False, ["ASANA_ACCESS_TOKEN"]),
    "dropbox": (lambda r: "sl." + rand(r, 135, URL64), False, ["DROPBOX_ACCESS_TOKEN"]),
    "artifactory": (lambda r: "AKCp" + rand(r, 69), True, ["ARTIFACTORY_API_KEY", "JFROG_API_KEY"]),
    "snyk": (uuid, False, ["SNYK_TOKEN"]),
    "sonar": (lambda r: "squ_" + rand(r, 40, HEX), True, ["SONAR_TOKEN"]),
    "elastic": (lambda r: base64.b64encode(f"{rand(r, 20, URL64)}:{rand(r, 22, URL64)}".encode()).decode(), False, ["ELASTIC_API_KEY"]),
    "pagerduty": (lambda r: "u+" + rand(r, 18, URL64), False, ["PAGERDUTY_TOKEN"]),
    "pinecone": (lambda r: "pcsk_" + rand(r, 70, ALNUM + "_"), True, ["PINECONE_API_KEY"]),
    "langsmith": (lambda r: f"lsv2_pt_{rand(r, 32, HEX)}_{rand(r, 10, HEX)}", True, ["LANGCHAIN_API_KEY", "LANGSMITH_API_KEY"]),
    "rubygems": (lambda r: "rubygems_" + rand(r, 48, HEX), True, ["GEM_HOST_API_KEY"]),
    "cargo": (lambda r: "cio" + rand(r, 32), False, ["CARGO_REGISTRY_TOKEN"]),
    "alibaba": (lambda r: rand(r, 30), False, ["ALIBABA_CLOUD_ACCESS_KEY_SECRET"]),
    "tencent": (lambda r: rand(r, 32), False, ["TENCENTCLOUD_SECRET_KEY"]),
    "modelscope": (lambda r: "ms-" + uuid(r), False, ["MODELSCOPE_API_TOKEN"]),
    "dashscope": (lambda r: "sk-" + rand(r, 32, HEX), True, ["DASHSCOPE_API_KEY", "DEEPSEEK_API_KEY"]),
    "swanlab": (lambda r: rand(r, 21), False, ["SWANLAB_API_KEY"]),
    "onepassword": (lambda r: "ops_eyJ" + rand(r, 200, URL64), True, ["OP_SERVICE_ACCOUNT_TOKEN"]),
    "fernet": (lambda r: rand(r, 43, URL64) + "=", False, ["AIRFLOW__CORE__FERNET_KEY", "FERNET_KEY"]),
    "jwt": (jwt, True, ["JWT", "ACCESS_TOKEN", "id_token", "bearer_token"]),
    "facebook": (lambda r: "EAACEdEose0cBA" + rand(r, 120), False, ["FB_ACCESS_TOKEN"]),
    "zoom": (lambda r: rand(r, 32), False, ["ZOOM_CLIENT_SECRET"]),
    "age": (lambda r: "AGE-SECRET-KEY-1" + rand(r, 58, UPPER + DIGITS), True, ["SOPS_AGE_KEY"]),
}

WORDLIKE = ["hunter2", "letmein99", "Sommer2024", "qwerty123", "trustno1", "dragonfly", "s3cur3me", "MyDogRex", "swordfish", "welkom01",
            "Passw0rd", "changeme", "tigger77", "Geheim2023", "opensesame", "winterfell", "n1ghtOwl", "abc12345", "monkeybars", "Zomer-2025"]
PHRASES = ["correct horse battery staple", "my cat sleeps at noon", "Vier gelbe Enten", "under the old bridge 7", "open the pod bay", "tea, earl grey, hot"]
PUNCT = "!@#%^&*_+~?.-"
HARD_PUNCT = "!@#$%^&*()[]{}|;:,<>?/`~"
UNICODE = ["Übermut!42", "пароль-весна9", "señor-niño#7", "密码安全2024", "naïve-café_1", "Smørrebrød?9", "zażółć77gęślą", "🔑 kluis 42x"]


def password(rng: Rng, *, blanks: bool = False, hard: bool = False) -> Secret:
    """A password as people and password managers make them."""
    kinds = ["wordlike", "wordlike", "random", "punct", "unicode"]
    if blanks:
        kinds += ["phrase", "phrase"]
    if hard:
        kinds += ["quotes", "hard"]
    match rng.choice(kinds):
        case "wordlike":
            return Secret(rng.choice(WORDLIKE), "word", opaque=False)
        case "random":
            return Secret(rand(rng, rng.randrange(12, 28)), "random")
        case "punct":
            s = rand(rng, 6) + rng.choice(PUNCT) + rand(rng, 5) + rng.choice(PUNCT) + rand(rng, 3)
            return Secret(s, "punct")
        case "unicode":
            return Secret(rng.choice([u for u in UNICODE if blanks or " " not in u]), "unicode", opaque=False)
        case "phrase":
            return Secret(rng.choice(PHRASES), "phrase", opaque=False)
        case "quotes":
            return Secret(rng.choice(['o"neil', "it's", "a'b\"c", "back\\slash"]) + rand(rng, 8), "quotes")
        case _:
            return Secret(rand(rng, 5) + "".join(rng.choice(HARD_PUNCT) for _ in range(3)) + rand(rng, 7), "hard")


def vendor(rng: Rng, service: str | None = None) -> tuple[Secret, str]:
    """A vendor's token and a name it usually goes under."""
    service = service or rng.choice(list(VENDORS))
    make, speaks, names = VENDORS[service]
    return Secret(make(rng), f"vendor:{service}", speaks=speaks), rng.choice(names)


def opaque(rng: Rng) -> Secret:
    """A random key with nothing to know it by."""
    match rng.randrange(6):
        case 0:
            return Secret(rand(rng, rng.choice([32, 40, 64]), HEX), "hex")
        case 1:
            return Secret(rand(rng, rng.choice([22, 43]), URL64) + rng.choice(["", "="]), "url64")
        case 2:
            return Secret(rand(rng, rng.choice([30, 42]), B64) + "==", "base64")
        case 3:
            return Secret(uuid(rng), "uuid")
        case 4:
            return Secret(rand(rng, rng.choice([16, 26]), B32), "base32")
        case _:
            return Secret(rand(rng, rng.randrange(16, 40)), "alnum")


def pem(rng: Rng) -> tuple[str, list[str]]:
    """A private key block, and the secret lines in it."""
    label = rng.choice(["PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY", "OPENSSH PRIVATE KEY", "ENCRYPTED PRIVATE KEY", "PGP PRIVATE KEY BLOCK", "DSA PRIVATE KEY"])
    width = 70 if "OPENSSH" in label else 64
    lines = [rand(rng, width, B64) for _ in range(rng.randrange(2, 6))] + [rand(rng, rng.randrange(20, 50), B64) + "=="]
    head = "\nVersion: GnuPG v2\n" if "PGP" in label else ""
    foot = "\n=" + rand(rng, 4, B64) if "PGP" in label else ""
    return f"-----BEGIN {label}-----{head}\n" + "\n".join(lines) + f"{foot}\n-----END {label}-----", lines
