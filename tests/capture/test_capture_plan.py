"""What a capture would run: presets, the seeds' own commands, launchers of ranks, warnings, names of files."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from gpuledger.capture.launchers import launch_of
from gpuledger.capture.nsys import (
    BASE,
    LEAST_FREE_BYTES,
    PRESETS,
    Wishes,
    check_traces,
    complete_wishes,
    doubts,
    flags_for,
    nsys_command,
    preset_flags,
    value_of,
    with_settings,
)
from gpuledger.capture.output_files import place_for
from gpuledger.cli.main import cli
from gpuledger.errors import GpuledgerError, OutputRefused


def dry(*arguments: str) -> list[str]:
    """The first command that --dry-run prints, read back as a shell reads it."""
    runner = CliRunner(env={"COLUMNS": None})  # on one line, as where it is piped
    done = runner.invoke(cli, ["capture", *arguments[:1], "--dry-run", *arguments[1:]])
    assert done.exit_code == 0, (done.stderr, done.exception)
    return shlex.split(done.stdout.splitlines()[0])


def options(argv: list[str]) -> dict[str, str]:
    """The flags of the tool, whoever stands before it."""
    at = next(at for at, word in enumerate(argv) if word in ("nsys", "ncu"))
    flags = {}
    for word in argv[at + 1 + (argv[at] == "nsys") :]:
        if not word.startswith("--"):
            break
        flags[word.split("=")[0]] = word.partition("=")[2]
    return flags


FREQUENCY = "gpu-metrics-frequency"
USUAL = ["--force-overwrite=true", "--sample=none", "--cpuctxsw=none"]
SEEDS = re.findall(
    r"^\| `.*?` \| `(.*?)` \| (usual )?`(.*?)` \| `?(.*?)`? \|$", Path(__file__).with_name("seeds.md").read_text(), re.M
)


@pytest.mark.parametrize(("ours", "usual", "flags", "never"), SEEDS, ids=range(len(SEEDS)))
def test_the_seeds_commands_are_met(
    ours: str, usual: str, flags: str, never: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    argv = dry(*shlex.split(ours))
    got = options(argv)
    assert {*flags.split(), *(USUAL if usual else ())} <= {f"{name}={value}" for name, value in got.items()}
    assert not set(never.split()) & set(got)
    program = shlex.split(ours)[shlex.split(ours).index("--") + 1 :]
    assert argv[-len(program) :] == program
    assert list(tmp_path.iterdir()) == []


def test_the_seeds_metrics_are_put_right(tmp_path: Path) -> None:
    metrics = "sm__throughput.avg.pct_of_peak_sustained,dram__throughput.avg.pct_of_peak_sustained"
    done = CliRunner().invoke(cli, ["capture", "ncu", f"--metrics={metrics}", "--dry-run", "--", "./bench"])
    assert isinstance(done.exception, GpuledgerError)
    assert "did you mean sm__throughput.avg.pct_of_peak_sustained_elapsed?" in done.exception.claim


def test_ncu_waits_for_the_window_of_a_program_that_opens_one() -> None:
    assert options(dry("ncu", "--", "./bench", "--cuda-profiler"))["--profile-from-start"] == "no"
    assert "--profile-from-start" not in options(dry("ncu", "--", "./bench", "--cuda-profilers"))


def test_the_runbooks_duration_is_warned_about() -> None:
    wishes = Wishes(("launch",), trace="cuda,cublas,osrt", duration=15)
    loading, ranges = doubts(wishes, flags_for(wishes), ["torchrun", "x.py"], None)
    assert "records loading" in loading
    assert "ranges are lost" in ranges


@pytest.mark.parametrize(
    ("wishes", "command", "says"),
    [
        (Wishes(("steady",)), ["./a"], "calls cudaProfilerStart"),
        (Wishes(("launch",), settings=("sample=system-wide",)), ["./a"], "--sample=system-wide writes gigabytes"),
        (Wishes(("launch",), settings=("cpuctxsw=process-tree",)), ["./a"], "--cpuctxsw=process-tree writes gigabytes"),
        (Wishes(("launch",)), ["./a", "--cuda-graph"], "the kernels inside stay unseen"),
        (Wishes(("launch",), trace="nvtx,osrt"), ["./a"], "no kernel will be recorded"),
    ],
)
def test_a_doubtful_capture_is_warned_about(wishes: Wishes, command: list[str], says: str) -> None:
    [warning] = doubts(wishes, flags_for(wishes), command, None)
    assert says in warning


@pytest.mark.parametrize(
    ("wishes", "command"),
    [
        (Wishes(("launch",)), ["./a"]),
        (Wishes(("steady",)), ["./a", "--cuda-profiler"]),
        (Wishes(("graph",)), ["./a", "--cuda-graph"]),
        (Wishes(("server",), delay=60, duration=20), ["./a"]),
        (Wishes(("steady",), duration=20), ["./a", "--cuda-profiler"]),
    ],
)
def test_a_sound_capture_is_not(wishes: Wishes, command: list[str]) -> None:
    assert doubts(wishes, flags_for(wishes), command, None) == ()


def test_a_full_disk_is_warned_about(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wishes = Wishes(("launch",))
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=LEAST_FREE_BYTES - 1))
    [warning] = doubts(wishes, flags_for(wishes), ["./a"], tmp_path)
    assert "2.00 GB are free" in warning
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=LEAST_FREE_BYTES))
    assert doubts(wishes, flags_for(wishes), ["./a"], tmp_path) == ()


def test_the_preset_follows_the_command() -> None:
    assert complete_wishes(Wishes(), ["python", "x.py", "--cuda-profiler"]).presets == ("steady",)
    assert complete_wishes(Wishes(), ["python", "x.py"]).presets == ("launch",)
    assert complete_wishes(Wishes(("memory",)), ["python", "x.py", "--cuda-profiler"]).presets == ("memory",)


def test_a_server_needs_its_times_or_a_session() -> None:
    for wishes in (Wishes(("server",)), Wishes(("server",), duration=5), Wishes(("server",), delay=5)):
        with pytest.raises(GpuledgerError, match="needs --delay and --duration"):
            complete_wishes(wishes, ["./serve"])
    assert complete_wishes(Wishes(("server",), session="web"), ["./serve"])
    with pytest.raises(GpuledgerError, match="records nothing yet"):
        complete_wishes(Wishes(("server",), session="web", duration=3), ["./serve"])


@given(st.lists(st.sampled_from(sorted(PRESETS)), unique=True))
def test_joined_presets_keep_every_flag_once_and_the_last_word(names: list[str]) -> None:
    flags = preset_flags(names)
    assert len({flag.name for flag in flags}) == len(flags)
    assert {flag.name for flag in BASE} <= {flag.name for flag in flags}
    assert all(flag.why for flag in flags)
    for name in names:
        for flag in PRESETS[name]:
            if flag.name == "trace":
                assert set(flag.value.split(",")) <= set(value_of(flags, "trace").split(","))
            elif flag.name == "cuda-graph-trace":
                assert value_of(flags, "cuda-graph-trace") == "node"


def test_settings_replace_and_add_flags() -> None:
    flags = with_settings(BASE, ["cuda-graph-trace=node", "--gpu-metrics-devices=all"])
    assert value_of(flags, "cuda-graph-trace") == "node"
    assert value_of(flags, "gpu-metrics-devices") == "all"
    assert value_of(flags, "sample") == "none"


@pytest.mark.parametrize("setting", ["sample", "=x", "Sample=none", "-x=1", "output=x", "session-new=a", "a b=c", ""])
def test_a_setting_that_is_none_is_refused(setting: str) -> None:
    with pytest.raises(GpuledgerError):
        with_settings(BASE, [setting])


def test_a_misspelt_trace_is_refused_and_an_unknown_one_is_not() -> None:
    with pytest.raises(GpuledgerError, match="did you mean nvtx"):
        check_traces("cuda,nvxt")
    with pytest.raises(GpuledgerError, match="names nothing"):
        check_traces(" ,")
    assert check_traces("cuda, nvtx,cuda,zz9") == "cuda,nvtx,zz9"


def test_every_flag_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for presets in (*PRESETS, "steady,graph"):
        times = ["--delay=1", "--duration=2"] if presets == "server" else []
        command = ["torchrun", "x.py"] if presets == "multi" else ["./profiler"]
        argv = dry("nsys", f"--preset={presets}", *times, "--", *command)
        asked = ["capture", "nsys", "--explain", f"--preset={presets}", *times, "--", *command]
        done = CliRunner(env={"COLUMNS": None}).invoke(cli, asked)
        explained = [line for line in done.stdout.splitlines() if not line.startswith(" ")]
        assert [line.partition("=")[0] for line in explained] == list(options(argv))
        assert done.stdout.count("\n    ") == len(explained)


TORCHRUN = "torchrun --nproc_per_node=8 --master_port 29530"


@pytest.mark.parametrize(
    ("command", "head", "program", "variable"),
    [
        (f"{TORCHRUN} -m nmoe.serve --mode decode", TORCHRUN, "python -u -m nmoe.serve --mode decode", "RANK"),
        (f"{TORCHRUN} train.py -m 3", TORCHRUN, "python -u train.py -m 3", "RANK"),
        (f"{TORCHRUN} --standalone --no-python ./a -x", f"{TORCHRUN} --standalone", "./a -x", "RANK"),
        (
            "python3 -m torch.distributed.run --nnodes 2 train.py",
            "python3 -m torch.distributed.run --nnodes 2",
            "python3 -u train.py",
            "RANK",
        ),
        (
            "mpirun -np 4 -x PATH --mca btl self python a.py",
            "mpirun -np 4 -x PATH --mca btl self",
            "python a.py",
            "OMPI_COMM_WORLD_RANK",
        ),
        ("mpiexec.hydra -n 2 -genv A 1 ./a", "mpiexec.hydra -n 2 -genv A 1", "./a", "PMI_RANK"),
        ("srun -n 8 --gpus-per-task=1 -- ./a -n 3", "srun -n 8 --gpus-per-task=1 --", "./a -n 3", "SLURM_PROCID"),
    ],
)
def test_a_launcher_is_told_from_what_it_starts(command: str, head: str, program: str, variable: str) -> None:
    found = launch_of(command.split())
    assert found is not None
    assert (" ".join(found.head), " ".join(found.program), found.rank_variable) == (head, program, variable)


def test_one_report_per_rank_puts_nsys_behind_the_launcher() -> None:
    argv = nsys_command("nsys", "out/run", Wishes(("multi",)), f"{TORCHRUN} train.py --lr 1".split())[1]
    line = " ".join(argv)
    assert line.startswith(f"{TORCHRUN} --no-python nsys profile --output=out/run_%q{{RANK}} --force-overwrite=true ")
    assert line.endswith(" python -u train.py --lr 1")
    wishes = Wishes(("multi",), rank_variable="MY_RANK")
    assert "--output=run_%q{MY_RANK}" in nsys_command("nsys", "run", wishes, ["srun", "./a"])[1]


@pytest.mark.parametrize("command", ["./a", "python train.py", "python -m train", "bash -c ./a", "env A=1 ./a"])
def test_without_a_launcher_there_are_no_ranks(command: str) -> None:
    with pytest.raises(GpuledgerError, match="no launcher of ranks"):
        nsys_command("nsys", "run", Wishes(("multi",)), command.split())


@pytest.mark.parametrize("command", ["torchrun", "torchrun --nnodes 2", "srun -n 3", "mpirun -n 2 --"])
def test_a_launcher_without_a_program_is_refused(command: str) -> None:
    with pytest.raises(GpuledgerError, match="no program to run"):
        launch_of(command.split())


def test_what_cannot_be_rewritten_is_refused() -> None:
    for command in ("mpirun -n 1 ./a : -n 1 ./b", "torchrun --run-path x.py"):
        with pytest.raises(GpuledgerError):
            launch_of(command.split())


@given(st.lists(st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"])), max_size=5))
def test_the_users_words_come_last_and_unchanged(words: list[str]) -> None:
    wishes = Wishes(("launch",))
    argv = nsys_command("nsys", "a b%c", wishes, ["prog", *words])[1]
    assert list(argv[len(argv) - len(words) - 1 :]) == ["prog", *words]
    assert "--output=a b%%c" in argv


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("python bench/moe.py --x 1", "moe"),
        ("python -u -m pkg.bench.decode 3", "decode"),
        ("./target/release/bench-1f", "bench-1f"),
        ("python -c print(1)", "python"),
        ("torchrun --nproc-per-node=2 train.py", "train"),
        ("python3.11 -m torch.distributed.run train.py", "train"),
        ("/opt/a$b", "a_b"),
        ("env A=1 timeout 60 python -m pkg.serve", "serve"),
    ],
)
def test_a_profile_is_named_for_the_program(
    command: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = command.split()
    assert place_for(None, words, "nsys", force=False).name == name
    (tmp_path / f"{name}.nsys-rep").touch()
    assert place_for(None, words, "nsys", force=False).name == f"{name}-2"
    assert place_for(None, words, "nsys", force=True).name == name


def test_a_chosen_name_is_never_overwritten(tmp_path: Path) -> None:
    wanted = str(tmp_path / "my run.nsys-rep")
    place = place_for(wanted, ["./a"], "nsys", force=False)
    assert (place.name, place.folder) == ("my run", tmp_path)
    for ending in (".nsys-rep", ".sqlite", ".capture.json", "_3.nsys-rep"):
        taken = tmp_path / f"my run{ending}"
        taken.touch()
        with pytest.raises(OutputRefused, match="exists already"):
            place_for(wanted, ["./a"], "nsys", force=False)
        assert place_for(wanted, ["./a"], "nsys", force=True) == place
        taken.unlink()


@pytest.mark.parametrize("wanted", ["", ".", "..", "folder/", ".nsys-rep"])
def test_a_name_that_is_none_is_refused(wanted: str) -> None:
    with pytest.raises(OutputRefused):
        place_for(wanted, ["./a"], "nsys", force=False)


def test_reports_of_ranks_come_in_order(tmp_path: Path) -> None:
    place = place_for(str(tmp_path / "r[1]"), ["./a"], "nsys", force=False)
    for name in ("r[1]_10.nsys-rep", "r[1]_2.nsys-rep", "r[1].nsys-rep", "r1_0.nsys-rep", "r[1]_x.nsys-rep"):
        (tmp_path / name).touch()
    assert [path.name for path in place.reports()] == ["r[1].nsys-rep", "r[1]_2.nsys-rep", "r[1]_10.nsys-rep"]


def test_samples_of_the_gpu_are_asked_for_by_name() -> None:
    plain, sampled = (value_of(flags_for(Wishes(("launch",), gpu_metrics=asked)), FREQUENCY) for asked in (False, True))
    assert (plain, sampled) == ("", "20000")
    slower = flags_for(Wishes(("launch",), settings=(f"{FREQUENCY}=10000",), gpu_metrics=True))
    assert value_of(slower, FREQUENCY) == "10000"
    with pytest.raises(GpuledgerError, match="--session with --gpu-metrics"):
        complete_wishes(Wishes(("server",), session="s", gpu_metrics=True), ["./serve"])
