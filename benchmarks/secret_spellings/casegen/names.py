"""Names under which secrets go, in the styles programs use, and harmless options that look much like them."""
from __future__ import annotations

from casegen.base import Rng, Secret
from casegen.secrets_made import opaque, password, rand, DIGITS, vendor

# words of the name -> what value is credible there: p(assword-like), o(paque only)
CONCEPTS: dict[str, str] = {
    "password": "p", "passwd": "p", "passphrase": "p", "pwd": "p", "pass": "p", "pw": "p", "passcode": "p", "secret": "p", "root password": "p", "admin password": "p",
    "token": "o", "api key": "o", "apikey": "o", "api token": "o", "api secret": "o", "secret key": "o", "client secret": "o", "access token": "o",
    "auth token": "o", "auth key": "o", "refresh token": "o", "bearer token": "o", "session token": "o", "id token": "o", "service token": "o", "bot token": "o",
    "access key secret": "o", "secret access key": "o", "private key": "o", "encryption key": "o", "signing key": "o", "signing secret": "o", "webhook secret": "o",
    "account key": "o", "storage key": "o", "master key": "o", "subscription key": "o", "shared secret": "o", "app secret": "o", "consumer secret": "o",
    "credential": "o", "creds": "o", "cred": "o", "pat": "o", "jwt": "o", "jwt secret": "o", "sas token": "o", "sas": "o", "auth": "o", "sig": "o", "signature": "o",
    "psk": "o", "personal access token": "o", "deploy token": "o", "hmac key": "o", "cookie secret": "o", "csrf token": "o", "x api key": "o", "license token": "o",
}
SHORT = {"pass", "pw", "pat", "sas", "sig", "auth", "cred", "creds", "psk", "credential", "signature", "pwd"}  # alone they are too weak a hint: always with a prefix
PREFIXES = ["hf", "openai", "wandb", "db", "postgres", "redis", "s3", "aws", "azure", "gh", "github", "slack", "smtp", "ldap", "my", "service", "registry", "proxy",
            "mlflow", "comet", "neptune", "clearml", "minio", "judge", "remote", "user", "mail", "ftp", "vpn", "wifi", "keystore", "ssl", "mongo", "kafka", "grafana",
            "hub", "teacher", "reward model", "telemetry", "upload", "dataset", "jupyter", "ray", "triton", "registry user", "ci", "prod", "backup"]
LOGIN_PREFIXES = ["db", "postgres", "redis", "smtp", "ldap", "mail", "ftp", "vpn", "user", "registry", "mongo", "proxy"]  # a triton_pass is no password
SUFFIXES = ["", "", "", "", "", "", "1", "2", "prod", "old", "value", "new"]
STYLES = ["snake", "kebab", "camel", "pascal", "scream", "dotted", "flat"]


def styled(words: list[str], style: str) -> str:
    match style:
        case "snake":
            return "_".join(words)
        case "kebab":
            return "-".join(words)
        case "camel":
            return words[0] + "".join(w.capitalize() for w in words[1:])
        case "pascal":
            return "".join(w.capitalize() for w in words)
        case "scream":
            return "_".join(words).upper()
        case "dotted":
            return ".".join([words[0], "_".join(words[1:])]) if len(words) > 1 else words[0]
        case _:
            return "".join(words)


def named(rng: Rng, styles: list[str] | None = None, *, blanks: bool = False, hard: bool = False) -> tuple[str, Secret, str]:
    """A name, a secret that is credible under it, and what kind of name it is."""
    styles = styles or STYLES
    if rng.random() < 0.3:
        secret, name = vendor(rng)
        words = [w for w in name.lower().replace("-", "_").replace(".", "_").split("_") if w]
        if rng.random() < 0.5 and "scream" in styles:
            return name, secret, secret.source
        return styled(words, rng.choice([s for s in styles if s != "flat"] or styles)), secret, secret.source
    if rng.random() < 0.04:
        words, secret = [rng.choice(["user", "card", "device", "sim"]), rng.choice(["pin", "otp", "pin code"])], Secret(rand(rng, 6, DIGITS), "pin", opaque=False)
        return styled(" ".join(words).split(), rng.choice([s for s in styles if s != "flat"] or styles)), secret, "pin"
    concept = rng.choice(list(CONCEPTS))
    words = concept.split()
    if concept in SHORT or rng.random() < 0.5:
        words = rng.choice(LOGIN_PREFIXES if concept == "pass" else PREFIXES).split() + words
    suffix = rng.choice(SUFFIXES)
    style = rng.choice(styles)
    if suffix and style != "flat" and concept not in SHORT:
        words = [*words, suffix]
    if style == "flat" and len(words) > 2:
        style = rng.choice([s for s in styles if s != "flat"] or styles)
    secret = password(rng, blanks=blanks, hard=hard) if CONCEPTS[concept] == "p" and rng.random() < 0.8 else opaque(rng)
    return styled(words, style), secret, f"{concept.replace(' ', '-')}"


MODELS = ["meta-llama/Llama-3-8B", "Qwen/Qwen2.5-7B-Instruct", "mistralai/Mistral-7B-v0.3", "google/gemma-2-9b-it", "deepseek-ai/DeepSeek-V3", "EleutherAI/pythia-1.4b",
          "microsoft/phi-4", "bigscience/bloom-560m", "stabilityai/stable-diffusion-xl-base-1.0"]
# options that stay: (words). Chosen to look like credentials by their names or by their values.
NEIGHBOURS: list[list[str]] = [
    ["--max-tokens", "128"], ["--max_new_tokens=256"], ["--lr", "3e-4"], ["--tokenizer", "hf-internal-testing/llama-tokenizer"], ["--tokenizer-mode", "slow"],
    ["--pad-token-id", "0"], ["--eos_token_id=128009"], ["--num-key-value-heads", "8"], ["--pin-memory", "true"], ["--patience", "3"], ["--passes", "2"],
    ["--tokens-per-batch", "4096"], ["--keypoints", "17"], ["--key-frames", "24"], ["--sort-key", "created_at"], ["--author", "jane"], ["--bypass-cache"],
    ["--compass-angle", "90"], ["--seed", "1234567890"], ["--revision", "5b0f1d8c9a7e4f3b2c1d0e9f8a7b6c5d4e3f2a1b"], ["--commit=9f8e7d6c5b4a39281706f5e4d3c2b1a098765432"],
    ["--output_dir", "/data/runs/2024-05-11_llama3-8b_lr3e-4_bs512"], ["--password-file", "/run/secrets/db.txt"], ["--token-file=/etc/tokens/hf"],
    ["--ssh-key-path", "/home/user/.ssh/id_ed25519"], ["--credentials-file", "/home/user/.config/gcloud/adc.json"], ["--run-id", "run_20240511_173002"],
    ["--image", "nvcr.io/nvidia/pytorch:24.05-py3"], ["--dtype=bfloat16"], ["--tensor-parallel-size", "8"], ["--optimizer.betas=[0.9,0.95]"], ["--data-path", "/mnt/data/c4/en"],
    ["--num_tokens=300000000000"], ["--token-type", "bpe"], ["--master_port", "29500"], ["--max-num-batched-tokens=8192"], ["--special-token-map", "added_tokens.json"],
    ["--jwt-algorithm", "HS256"], ["--auth-type", "basic"], ["--signal", "SIGUSR1"], ["--design", "wide"], ["--monkey-patch"], ["--primary-key", "sample_id"], ["--endpoint", "http://10.0.0.4:8000/v1"],
    ["--wandb-project", "scaling-laws"], ["--report_to", "wandb"], ["--prompt", "What is the capital of France?"], ["--gres=gpu:h100:8"], ["--rope-theta", "500000.0"],
    ["--dataset", "HuggingFaceFW/fineweb-edu"], ["--digest=sha256:3a7bd3e2360a3d29eea436fcfb7e44c735d117c42d1c1835420b6b9942dd4f1b"],
    ["--checkpoint", "gs://bucket-a/ckpt/step_00012000/model-00003-of-00030.safetensors"], ["--hash-algorithm", "sha256"], ["--secure-boot", "off"], ["--max-secs", "600"],
]
SET_NEIGHBOURS = ["trainer.max_steps=5000", "model.num_key_value_heads=8", "++data.tokenizer_name=gpt2-medium", "optim.lr=6e-4", "+trainer.precision=bf16-mixed", "data.max_tokens=2048",
                  "model.pass_through=false", "hydra.run.dir=/tmp/outputs/r1", "loader.pin_memory=true", "model.keypoint_loss=l1"]


def neighbours(rng: Rng, low: int = 0, high: int = 3, *, model: bool = True) -> list[str]:
    """Harmless words of a command line."""
    words: list[str] = ["--model", rng.choice(MODELS)] if model and rng.random() < 0.5 else []
    for option in rng.sample(NEIGHBOURS, rng.randint(low, high)):
        words += option
    return words
