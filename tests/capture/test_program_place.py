"""Words put before a program: behind what hands on to it, and in the text of a shell, with all else left as it is."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuledger.capture.command_text import Edit, UnreadableText, edited, program_place, simple_commands, text_place
from gpuledger.capture.launchers import launched, main_program, prefix_words, shells_behind
from gpuledger.capture.manifest import Witness
from gpuledger.capture.nsys import Wishes, nsys_command
from gpuledger.capture.torch_command import Schedule, torch_command
from gpuledger.capture.window import opens_window
from gpuledger.errors import GpuledgerError


def sources(text: str) -> list[list[str]]:
    return [[word.source for word in command.words] for command in simple_commands(text)]


@pytest.mark.parametrize(
    ("text", "commands"),
    [
        ("a b && c|d;e&f", [["a", "b"], ["c"], ["d"], ["e"], ["f"]]),
        ("cd x\n# a comment; no\nA=1 B='2 3' ./run \\\n --x", [["cd", "x"], ["A=1", "B='2 3'", "./run", "--x"]]),
        ("if [ -f a ]; then b; else c; fi", [["[", "-f", "a", "]"], ["b"], ["c"]]),
        ("for i in 1 2; do run $i; done > log", [["run", "$i"]]),
        ("run a > log 2>&1 b < in &> out", [["run", "a", "b"]]),
        (
            'x "$(a; b)" ${c:-d e} `f; g` "h\\"i" $\'j\\\'k\'',
            [["x", '"$(a; b)"', "${c:-d e}", "`f; g`", '"h\\"i"', "$'j\\'k'"]],
        ),
        ("serve() { ./a; }; (serve) && { b; }", [["./a"], ["serve"], ["b"]]),
        ("[[ -f a && -f b ]] && c; d=(1 2) e", [["[[", "-f", "a", "-f", "b", "]]"], ["c"], ["d=(1 2)", "e"]]),
        ("diff <(a) <(b c)", [["diff", "<(a)", "<(b c)"]]),
        ("case $x in a) b;; esac", [["b"]]),
        ("! time a", [["a"]]),
    ],
)
def test_a_text_is_taken_apart(text: str, commands: list[list[str]]) -> None:
    assert sources(text) == commands


@pytest.mark.parametrize("text", ["a 'b", 'a "b', "a $(b", "cat <<X\nb\nX", "(( a ))", "a `b"])
def test_what_cannot_be_read_for_certain_is_refused(text: str) -> None:
    with pytest.raises(UnreadableText):
        simple_commands(text)


@pytest.mark.timeout(20)
def test_a_bracket_after_a_redirection_both_ways_ends() -> None:
    """It was taken for a process substitution, whose word has no letters: for ever."""
    assert sources("cat <>(a)") == [["a"]]


words = st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0")), min_size=1, max_size=4)


@given(st.lists(words, min_size=1, max_size=3))
def test_what_was_quoted_is_found_word_for_word(commands: list[list[str]]) -> None:
    text = " && ".join(shlex.join(["./run", *command]) for command in commands)
    assert [[shlex.split(word)[0] for word in command] for command in sources(text)] == [
        ["./run", *c] for c in commands
    ]


@given(st.text("ab \n;&|<>()[]{}'\"$`\\#=", max_size=12))
def test_any_text_is_read_or_refused_and_words_stand_where_they_are_said_to(text: str) -> None:
    try:
        commands = simple_commands(text)
    except UnreadableText:
        return
    for command in commands:
        assert all(text[word.begin : word.end] == word.source for word in command.words)
        assert command.words[-1].end <= command.end <= len(text)


@pytest.mark.parametrize(
    ("command", "place"),
    [
        ("bash -lc TEXT", 2),
        ("/bin/sh -euo pipefail -c TEXT x", 4),
        ("bash --login -c TEXT", 3),
        ("bash script.sh -c x", None),
        ("bash -c", None),
        ("./a -c x", None),
    ],
)
def test_the_text_of_a_shell_is_known(command: str, place: int | None) -> None:
    assert text_place(command.split()) == place


@pytest.mark.parametrize(
    ("command", "program"),
    [
        ("env -i -u X A=1 B=2 ./a C=3", "./a C=3"),
        ("timeout -k 5 60 nohup ./a", "./a"),
        ("numactl -N 0 --membind=0 ./a", "./a"),
        ("taskset -c 0-3 ./a -c", "./a -c"),
        ("./env.sh A=1", "./env.sh A=1"),
    ],
)
def test_what_hands_on_to_a_program_is_skipped(command: str, program: str) -> None:
    assert " ".join(command.split()[program_place(command.split()).begin :]) == program


PRELUDE = "set -euo pipefail\ncd /workspace\nsource .venv/bin/activate\nexport A=1\n"
RANKS = "torchrun --nproc_per_node=8 --master_port=$PORT -m pkg.serve \\\n  --mode decode > log 2>&1"


def test_ranks_behind_a_prelude_are_recorded_one_by_one() -> None:
    wishes = Wishes(("multi",))
    flags, argv = nsys_command("nsys", "out/report", wishes, ("bash", "-lc", PRELUDE + RANKS))
    before, _, after = argv[2].partition("nsys profile ")
    assert argv[:2] == ("bash", "-lc")
    assert before == f"{PRELUDE}torchrun --nproc_per_node=8 --master_port=$PORT  --no-python "
    assert after.startswith("'--output=out/report_%q{RANK}' ")
    assert after.endswith(" python -u -m pkg.serve \\\n  --mode decode > log 2>&1")
    assert flags[0].why == "one report per rank"


def test_a_program_behind_a_prelude_is_recorded_with_torch() -> None:
    def text(command: str) -> str:
        return torch_command(("bash", "-c", command), Schedule(), "out", runner="/r")[2]

    assert (
        text("cd a; CUDA=0 exec python -u x.py 'a b' &") == "cd a; CUDA=0 exec python -u /r --out=out -- x.py 'a b' &"
    )
    assert text('python "$HERE/x.py"') == 'python /r --out=out -- "$HERE/x.py"'
    assert text("gpuledger bench moe") == "python /r --out=out -- -m gpuledger bench moe"
    assert text("/v/bin/torchrun x.py") == "/v/bin/torchrun --no-python /v/bin/python -u /r --out=out -- x.py"
    assert text("python -c 1; srun -n 2 python x.py") == "python -c 1; srun -n 2 python /r --out=out -- x.py"


def test_our_own_benches_are_recorded_with_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = ("env", "A=1", "gpuledger", "bench", "moe")
    monkeypatch.setenv("PATH", str(tmp_path))
    ours = ("/r", "--out=out", "--", "-m", "gpuledger", "bench", "moe")
    assert torch_command(command, Schedule(), "out", runner="/r") == ("env", "A=1", sys.executable, *ours)
    for name in ("gpuledger", "python"):
        (tmp_path / name).touch(mode=0o755)
    assert torch_command(command, Schedule(), "out", runner="/r") == ("env", "A=1", "python", *ours)
    behind = torch_command(("srun", "bash", "-c", "python x.py"), Schedule(), "out", runner="/r")
    assert behind == ("srun", "bash", "-c", "python /r --out=out -- x.py")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("python a.py; python b.py", "starts 2 programs that could be recorded"),
        ("cat <<X\nX\npython a.py", "holds a here-document"),
        ("torchrun $ARGS x.py", "whether $ARGS is the program or options cannot be known"),
        ("./a", "the text for bash starts no Python program"),
    ],
)
def test_what_could_be_meant_otherwise_is_refused(text: str, says: str) -> None:
    with pytest.raises(GpuledgerError) as refused:
        torch_command(("bash", "-c", text), Schedule(), "out")
    assert says in refused.value.claim


@given(words)
def test_words_before_a_program_change_nothing_else(arguments: list[str]) -> None:
    def before(program: tuple[str, ...], in_text: bool) -> tuple[Edit, ...]:
        return (Edit(0, 0, ("a b", "--")),)

    command = ("./run", *arguments)
    assert edited(("env", "A=1", *command), before) == ("env", "A=1", "a b", "--", *command)
    changed = edited(("sh", "-c", shlex.join(command)), before)
    assert changed is not None
    assert shlex.split(changed[2]) == ["a b", "--", *command]


def test_the_environment_is_looked_at_right_before_the_program() -> None:
    witness = Witness("/f", ("A",), {"A": "1 2"})
    assert witness.before(("env", "B=1", "./a", "x")) == ("env", "B=1", *witness.words, "./a", "x")
    look = shlex.join(witness.words)
    for text, changed, program in (
        ("x; B=1 exec ./a y >log & wait", f"x; B=1 exec ./a y >log & {{ {look} || exit; wait; }}", "wait"),
        (
            "B=1 exec env C=2 python a.py >log &",
            f"{{ B=1 env C=2 {look} || exit; B=1 exec env C=2 python a.py >log; }} &",
            "python a.py",
        ),
        ("a || b", f"a || {{ {look} || exit; b; }}", "b"),
    ):
        assert witness.before(("sh", "-c", text)) == ("sh", "-c", changed)
        assert " ".join(main_program(("sh", "-c", text)).words) == program
    unread = ("sh", "-c", "cat <<X\nX\n")
    assert witness.before(unread) == (*witness.words, *unread)


@pytest.mark.parametrize("shell", ["sh", "bash"])
@pytest.mark.parametrize("value", ["1", "", "a b'\"$HOME `x`\n\\ é"])
def test_a_program_starts_only_with_what_was_set(shell: str, value: str, tmp_path: Path) -> None:
    witness = Witness(str(tmp_path / "seen"), ("TOY_*",), {"TOY_A": value})
    text = witness.before((shell, "-c", "f=1; export f; true && echo ran"))
    for environment, said in (
        ({"TOY_A": value, "TOY_B": "x"}, "ran\n"),
        ({"TOY_A": "other"}, ""),
        ({"TOY_B": "x"}, ""),
    ):
        path = {"PATH": "/usr/bin:/bin"}
        ran = subprocess.run(text, env=environment | path, capture_output=True, text=True, check=False)
        seen = witness.read((tmp_path / "seen").read_text())
        assert (ran.stdout, ran.returncode == 0) == (said, bool(said))
        assert (seen.variables, bool(seen.lost)) == (environment, not said)


def test_a_window_is_found_in_a_text() -> None:
    assert opens_window(("bash", "-lc", "cd x; python b.py --cuda-profiler; echo"))
    assert opens_window(("./a", "--cuda-profiler=1"))
    assert not opens_window(("bash", "-lc", "python b.py --cuda-profilers"))


def test_nothing_here_is_asked_about_a_launcher_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("torchrun", "python"):
        (tmp_path / name).touch(mode=0o755)
    monkeypatch.setenv("PATH", f"/usr/bin:{tmp_path}")
    found = launched(("torchrun", "x.py"), is_here=False)
    assert found is not None
    assert found.program == ("python", "-u", "x.py")


@pytest.mark.parametrize(
    "via",
    [
        *("ssh -t host", "ssh host -tt", "ssh -p 22 -At host", "ssh -o RequestTTY=force h", "ssh -oRequestTTY=yes h"),
        *(
            "kubectl exec -it POD --",
            "kubectl -n t exec POD -i -t --",
            "kubectl exec --tty POD --",
            "oc exec -ti POD --",
        ),
        *("docker exec -it c", "ssh h docker exec -it c", "kubectl exec POD -- ssh -t h"),
    ],
)
def test_a_terminal_is_refused_with_the_reason(via: str) -> None:
    with pytest.raises(GpuledgerError) as refused:
        prefix_words(via)
    assert "for a terminal" in refused.value.claim
    assert "a terminal changes line ends" in (refused.value.found or "")


@pytest.mark.parametrize(
    ("via", "shells"),
    [
        *(("ssh -l tt -i t host", 1), ("ssh -J t ssh", 1), ("ssh a ssh b", 2), ("sshpass -p t ssh h", 1)),
        *(("kubectl exec -nteam -c tt POD --", 0), ("kubectl exec -i POD --", 0), ("docker exec -u t c", 0)),
        *(("ssh h kubectl exec POD --", 1), ("kubectl exec POD -- ssh h", 1), ("ssh -oTest=t h sudo -t", 1)),
    ],
)
def test_a_prefix_is_known_by_the_shells_behind_it(via: str, shells: int) -> None:
    assert shells_behind(prefix_words(via)) == shells
