"""Words of a command that what stands before them makes secrets: options and subcommands of programs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from gpuledger.capture.secret_names import may_not_be_shown, word_set
from gpuledger.regex import regex


def _rows(*rows: tuple[str, str, str]) -> tuple[tuple[frozenset[str], frozenset[str], str], ...]:
    return tuple((word_set(programs), word_set(words), how) for programs, words, how in rows)


_OPTIONS: Final = _rows(
    ("mysql mysqldump mysqladmin mysqlimport mariadb mariadb-dump mycli 7z 7za 7zz rar unrar", "-p= -hp=", ""),
    ("sshpass login twine mongosh mongo mongodump mongorestore mongoimport mongoexport mongostat", "-p", ""),
    ("cqlsh ncftpput supabase conan cypher-shell xmpp sendxmpp", "-p", ""),
    (
        "rdesktop crackmapexec nxc netexec evil-winrm poetry rabbitmqadmin yt-dlp youtube-dl ncftpget",
        "-p",
        "",
    ),
    ("psexec useradd usermod beeline steghide users impala-shell", "-p", ""),
    ("redis-cli valkey-cli keydb-cli redis-benchmark", "-a --pass", ""),
    ("zip unzip zipcloak ssh-keygen sqlcmd bcp tsql mosquitto_pub mosquitto_sub ipmitool", "-P", ""),
    ("ssh-keygen", "-N", ""),
    ("swanlab openssl ipmitool nuget choco ss-local", "-k -K -pass -passin -passout", ""),
    ("ldapsearch ldapadd ldapmodify ldapwhoami ldapdelete ldappasswd beeline", "-w", ""),
    ("snmpwalk snmpget snmpset snmpbulkwalk", "-A -X -c", ""),
    ("doctl flyctl vercel rancher influx codecov anaconda", "-t", ""),
    ("bearer", "-a --auth", ""),
    ("sendemail signtool", "-xp /p", ""),
    ("ldappasswd", "-s", ""),
    ("smbclient rpcclient smbget", "-U", "%"),
    ("curl wget http https xh xhs", "-u -a -U --user --proxy-user --auth", ":"),
    ("gotty ttyd etcdctl transmission-remote jenkins-cli.jar", "-c -n --user -auth", ":"),
    ("curl", "-E --cert --proxy-cert", ":"),
    ("lftp", "-u", ","),
    ("curl", "-b --cookie", "="),
    ("keytool jarsigner", "-storepass -keypass -srcstorepass -deststorepass", ""),
    ("pdftotext pdftoppm pdfinfo", "-upw -opw", ""),
    ("secret secrets variable put-parameter", "-b --body --value --data --string-value", ""),
)
"""Programs, or what they are to do; their options that take a secret (`=`: in the same word); what ends the user."""
_SUBCOMMANDS: Final = _rows(
    ("redis-cli valkey-cli keydb-cli", "auth requirepass masterauth", "0"),
    ("vault bao wandb cargo ngrok", "login unwrap unseal authtoken add-authtoken", "0"),
    ("composer poetry", "http-basic", "1"),
    ("drush wp", "upwd user-password user:password", "1"),
    ("vault bao", "put write patch", "1"),
    ("htpasswd mosquitto_passwd", "-b -bc -cb -nb -bn -nbb -bnb -bb -cbb -bcb -bbn -bbc -nbm -nbs", "1"),
    ("fly flyctl heroku doppler", "set config:set", "0"),
    ("modal net rabbitmqctl filebrowser", "create user use add add_user change_password authenticate_user", "1"),
    ("mc", "set add", "2"),
    ("rclone bw grafana-cli grafana", "obscure unlock reset-admin-password", "0"),
    ("wpa_passphrase smbpasswd bw", "wpa_passphrase smbpasswd login", "1"),
    ("sqlplus sqlldr expdp impdp rman", "sqlplus sqlldr expdp impdp rman", "0"),
    ("openssl ansible-vault travis", "passwd encrypt_string encrypt", "0"),
    ("convertto-securestring", "convertto-securestring", "0"),
    ("mysqladmin nmcli pdftk", "password user_pw owner_pw input_pw", "0"),
)
"""Programs; what they are to do with a secret that follows as a word; how many words come before it."""
_PROGRAMS: Final = frozenset[str]().union(*(programs for programs, _, _ in (*_OPTIONS, *_SUBCOMMANDS)))
_SETTING: Final = word_set("set config setenv setx put SET ENV ARG SetEnv proxy_set_header modify Set-Item")
"""What programs are to do with a name and a value that follow."""
IN_COMMAND: Final = regex(
    rf"(?<!\w)(?:--?\w|<<<|{'|'.join(map(re.escape, (*_PROGRAMS, *_SETTING)))}|echo|printf)", re.I
)
"""What a text has if a secret is in it for its place in a command."""
WHOLE: Final = regex(r"(?:--?env=|-D|-e|\+{1,2}|-{1,2})?(?P<name>[A-Za-z_][\w.-]*)=(?P<value>.*)", re.S)
"""A word that is nothing but a setting with its value, blanks and all."""
_DOTTED: Final = regex(r"[A-Z][A-Z\d_]*(?:\.[A-Z\d_]+)+")
"""A key of a configuration that its value follows as a word."""
_USER: Final = r"(?!\d+:\d+$|(?P<who>[\w-]+):(?P=who)$)[^\s:@/=]+:(?=[^\s/])"
_WHO: Final = r"--?[\w-]*(?:login|auth|user|userpwd|creds?|credentials?)"
_AFTER_USER: Final = regex(rf"--from-literal=[^=]*=|/p(?:ass(?:word)?)?:|{_WHO}={_USER}")
READS_SECRET: Final = regex(r".*(?:-stdin|-fd|with-token|secret).*|-S|chpasswd|passwd|kinit|cryptsetup|login", re.S)
"""What reads a secret from its input."""
_ELSEWHERE: Final = regex(r"(?:file|env|fd):|stdin$")
_ONCE: Final = ("input_pw", "user_pw", "owner_pw", "encrypt_string")
"""What takes one secret; further words are something else."""
_DRAWN: Final = regex(r"(?=\D*\d)(?=.*[A-Za-z])[\w+/=.~-]{16,}")
"""Further values of an option that takes several: `--api-keys A B`."""
_INTERPRETER: Final = regex(r"(?:i?python|pypy|node|ruby|perl|julia|php|deno)[\d.]*")
_SHELL: Final = regex(
    r"(?:ba|da|z|k|a|fi|c|tc)?sh|su|pwsh|powershell|cmd|ssh|eval|s(?:run|batch)|flock|script|wsl"
    r"|tmux|screen|watch|hyperfine|pdsh|clush|parallel(?:-ssh)?"
)
_REMOTE: Final = frozenset(("ssh", "tmux", "watch", "hyperfine", "pdsh", "clush", "screen", "parallel-ssh"))
"""Programs that run any word as a shell's text."""
_TEXT: Final = regex(r"-[a-z]*c|-e|-r|/c|--(?:eval|wrap|command|cmd)")
"""What comes before a text for a shell, or code."""


def roles(words: Sequence[str]) -> Iterator[tuple[int | None, str]]:
    """For each word, from which letter on what stands before it makes it a secret; and its language."""
    before, language, verb, asked, left, many = "", "", False, "", -1, False
    is_assigned = False
    programs = set[str]()
    for word in words:
        is_option = word[:1] == "-"
        is_named = "=" not in before and (verb or is_assigned or before[:1] == "-" or _DOTTED.fullmatch(before))
        begin = _option_secret(before, word, programs) if before or programs else None
        names = (before, *(re.split("[.]|(?<=Env):", before) if verb else ()))
        if begin is None and is_named and not is_option and any(may_not_be_shown(name, word) for name in names):
            begin = 0
        if left == 0 and begin is None and not is_option:
            whole = WHOLE.fullmatch(word)
            begin = whole.start("value") if whole else None if "set" in asked and before[:1] == "-" else 0
            left = -1 if asked in _ONCE else 0
        left -= left > 0 and not is_option
        if begin is None and many and not is_option and _DRAWN.fullmatch(word):
            begin = 0
        many = begin == 0 and (many or (before[:1] == "-" and before[-1:] in "sS"))
        yield begin, language if _TEXT.fullmatch(before) or before == "eval" or programs & _REMOTE else ""
        name = word[-_LONGEST_PROGRAM:].rpartition("/")[2].lower()
        if _INTERPRETER.fullmatch(name) or _SHELL.fullmatch(name):
            language = "code" if _INTERPRETER.fullmatch(name) else "shell"
        elif language == "code" and not is_option and before not in ("-W", "-X"):
            language = ""  # a file or a module, whose own options follow
        verb = verb or word in _SETTING
        if name in _PROGRAMS or name in _REMOTE:
            programs.add(name)
        for owners, verbs, skipped in _SUBCOMMANDS if programs else ():
            if word.lower().partition(".")[0] in verbs and not owners.isdisjoint(programs):
                left, asked = int(skipped), word.lower()
        is_assigned = word == "="
        before = before if is_assigned else word


_LONGEST_PROGRAM: Final = 256
"""Letters of a path that are looked at: a name of a file has no more."""


def _option_secret(before: str, word: str, programs: set[str]) -> int | None:
    """Where the secret of a program's option begins: in the word behind it, or in the same."""
    for owners, options, separator in _OPTIONS if programs else ():
        for option in () if owners.isdisjoint(programs) else options:
            short = option.rstrip("=")
            is_bundle = separator == ":" and re.fullmatch(f"-[sSfLkivgN]*{short[1:]}", before)
            if (before == option and (separator or word[:1] != "-")) or is_bundle:
                start = 0
            elif (
                word.startswith(short)
                and word != short
                and (len(short) == 2 or short != option or word[len(short)] == "=")
            ):
                start = len(short) + (word[len(short)] == "=")
            else:
                continue
            place = word.find(separator, start)
            if (
                place >= 0
                and not _ELSEWHERE.match(word, start)
                and not (separator == ":" and word[start:].replace(":", "").isdigit())
            ):
                return start if separator in ("", "=") or place + 1 == len(word) else place + 1
    if before == "--from-literal":
        return word.find("=") + 1
    part = _AFTER_USER.match(word) or (re.match(_USER, word) if re.fullmatch(_WHO, before) else None)
    return part.end() if part else None
