"""Many profiles at once: whoever does the work, and whatever befalls them, the report is the same."""

from __future__ import annotations

import gc
import gzip
import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from gpuledger import GpuledgerError, MissingPackage, open_trace
from gpuledger.analyse.ranks.fixing import OPERATIONS, fixing
from gpuledger.analyse.ranks.job import job as put_together
from gpuledger.analyse.ranks.packed import PackedTable
from gpuledger.analyse.ranks.rank import rank_summary
from gpuledger.analyse.ranks.rank_times import Lateness, lateness, stragglers
from gpuledger.cli.main import verb_named
from gpuledger.errors import ToolFailed, UnreadableProfile
from gpuledger.jobs import cluster, run
from gpuledger.jobs.run import Failed, Profile, failure, job_profiles, profiles_text
from gpuledger.limits import DEFAULT_LIMITS
from gpuledger.present.document import Shades
from gpuledger.present.views.compare.fleet import fleet_answer
from gpuledger.present.writers.text import shade_lines
from gpuledger.selection import Selection
from gpuledger.stages import Nobody
from gpuledger.system import resources
from gpuledger.verbs.fleet import progress_bar
from gpuledger.version import own_version
from support.command import ROOT, gpuledger
from support.pages.schemas import schema_of
from support.programs.own_processes import Watched
from support.traces.rank_traces import generator

DLRM = ROOT.parent / "shared/corpus/torch/facebookresearch+param__et_replay__tests__inputs__dlrm_kineto.tar.gz"
RANKS, STEPS, LATE = 4, 5, 2
own_summary = run.summarize_rank


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fleet") / "ranks"
    generator().write_job(folder, ranks=RANKS, events=6 * 24 * 8 * STEPS, steps=STEPS, late=LATE, packed=True)
    return folder


def printed(*arguments: str | Path) -> str:
    """What the command prints, in this process."""
    ran = CliRunner().invoke(verb_named("fleet"), [str(each) for each in arguments], catch_exceptions=False)
    assert ran.exit_code == 0
    return ran.stdout


@pytest.fixture(scope="module")
def serial(ranks: Path) -> str:
    return printed(ranks, "--workers=0", "--format=json")


# Examples


def test_two_workers_print_what_one_process_prints_and_take_no_connections(ranks: Path, serial: str) -> None:
    """Whoever could connect to one of our processes could have it run something."""
    before = sorted((path.name, path.stat().st_mtime_ns) for path in ranks.parent.rglob("*"))
    with Watched() as seen:
        ran = gpuledger("fleet", ranks, "--workers=2", "--format=json")
    assert (ran.exit_code, ran.stdout, ran.stderr) == (0, serial, "")
    assert seen.most >= 3  # the command and its workers
    assert seen.sockets == set()
    assert sorted((path.name, path.stat().st_mtime_ns) for path in ranks.parent.rglob("*")) == before


def test_the_late_rank_is_the_one_that_was_made_late(ranks: Path) -> None:
    made = run.fleet([str(ranks)], Selection(), count=0, operations=OPERATIONS)
    late, fixed = lateness(made.job), fixing(made.job)
    assert isinstance(late, Lateness)
    assert np.shape(late.late_ns) == (RANKS, STEPS)
    assert np.argmax(late.late_ns, axis=0).tolist() == [LATE] * STEPS
    [straggler] = stragglers(made.job, late, fixed)
    assert straggler.rank == f"rank {LATE}"
    assert straggler.caused_share == 1
    assert straggler.compute_change == pytest.approx(0.15, abs=0.02)  # it was made to compute 15 % longer
    assert straggler.saves_share == pytest.approx(0.13, abs=0.01)  # a step of kernels that takes 1.15 times as long
    assert fleet_answer("ranks", made).stragglers == (straggler,)


def test_json_is_what_the_schema_says(serial: str) -> None:
    document = json.loads(serial)
    schema_of("fleet").validate(document)
    assert (document["profiles"], document["analyzed"], document["world_size"]) == (RANKS, RANKS, RANKS)
    assert [row["saves_ns"] > 0 for row in document["ranks"]] == [rank == LATE for rank in range(RANKS)]
    [fix] = document["fixes"]
    assert (fix["fixed"], fix["kind"], fix["cause"]) == (f"rank {LATE}", "rank", "compute")
    assert fix["alone_ns"] == fix["then_ns"] == document["ranks"][LATE]["saves_ns"]
    [skew] = [finding for finding in document["findings"] if finding["code"] == "COMM-SKEW"]
    [last] = [number for number, said in enumerate(skew["evidence"]) if "arrives last at" in said]
    assert skew["evidence_data"][last]["count"] == document["stragglers"][0]["late"]
    assert np.shape(document["late"]["late_ns"]) == (RANKS, STEPS)


def test_a_running_cluster_gives_the_same(ranks: Path, serial: str) -> None:
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as running:
        assert printed(ranks, f"--scheduler={running.scheduler_address}", "--format=json") == serial


@pytest.fixture(scope="module")
def certified(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Settings of Dask for a cluster with TLS, with a certificate of its own."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl to make a certificate with")
    key, cert = (tmp_path_factory.mktemp("tls") / name for name in ("key.pem", "cert.pem"))
    words = "req -x509 -nodes -days 2 -subj /CN=test -newkey ec -pkeyopt ec_paramgen_curve:prime256v1"
    subprocess.run(["openssl", *words.split(), "-keyout", key, "-out", cert], check=True, capture_output=True)
    roles = ("scheduler", "worker", "client")
    tls = {f"{role}.{name}": str(path) for role in roles for name, path in (("key", key), ("cert", cert))}
    return {f"distributed.comm.tls.{name}": value for name, value in (tls | {"ca-file": str(cert)}).items()}


def test_a_cluster_with_tls_is_used_with_the_certificates_of_dask(certified: dict[str, str]) -> None:
    distributed, dask = pytest.importorskip("distributed"), pytest.importorskip("dask")
    with (
        dask.config.set(certified),
        distributed.LocalCluster(
            n_workers=1, processes=False, dashboard_address=None, protocol="tls://", security=distributed.Security()
        ) as running,
    ):
        address = running.scheduler_address
        assert address.startswith("tls://")
        with cluster.cluster_at(address) as client:
            assert cluster.spread(client, abs, [-1, 2], lost=lambda item, _: item) == [1, 2]
        with (
            dask.config.set(dict.fromkeys(certified)),
            pytest.raises(ToolFailed, match="answers there") as refused,
            cluster.cluster_at(address),
        ):
            pass
        assert "distributed.comm.tls" in refused.value.hint
        with (
            dask.config.set({"distributed.comm.require-encryption": True}),
            pytest.raises(ToolFailed, match="answers there") as refused,
            cluster.cluster_at(address.replace("tls://", "tcp://")),
        ):
            pass
        assert "encryption required" in refused.value.found


@pytest.mark.skipif(not DLRM.exists(), reason="no third-party profiles beside the checkout")
def test_the_dlrm_job_from_its_archive() -> None:
    once = printed(DLRM, "--workers=0", "--format=json")
    assert printed(DLRM, "--workers=2", "--format=json") == once
    document = json.loads(once)
    assert (document["profiles"], len(document["ranks"]), document["failed"]) == (8, 8, [])
    assert [row["matched"] for row in document["ranks"]] == [row["seen"] for row in document["ranks"]] == [8] * 8
    assert document["stragglers"][0]["rank"] == "rank 7"
    assert document["fixes"] == []  # of the one step that was recorded, its beginning is what they wait for


# What may befall a profile or a worker


def test_a_broken_profile_is_named_and_the_rest_goes_on(ranks: Path, tmp_path: Path) -> None:
    shutil.copytree(ranks, tmp_path / "job")
    (tmp_path / "job" / "rank0001.pt.trace.json.gz").write_bytes(b"")
    (tmp_path / "job" / "rank0003.pt.trace.json.gz").write_bytes(gzip.compress(b'{"traceEvents": []}'))
    (tmp_path / "job" / "notes.txt").write_text("nothing to see")
    document = json.loads(printed(tmp_path / "job", "--workers=0", "--format=json"))
    assert [each["profile"] for each in document["failed"]] == [f"rank000{n}.pt.trace.json.gz" for n in (1, 3)]
    assert document["failed"][0]["sentence"] == "the file is empty"
    assert (document["profiles"], len(document["ranks"])) == (4, 2)
    assert any(note["code"] == "rank-missing" for note in document["health"])
    text = printed(tmp_path / "job", "--workers=0")
    assert "Failed: rank0001.pt.trace.json.gz: the file is empty." in text


def marked(what: str) -> bool:
    """Whether this is the first time that anybody comes here."""
    try:
        (Path(os.environ["FLEET_MARKS"]) / what).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def dies_once(profile: Profile, **options: object) -> run.ProfileOutcome:
    if "rank0002" in profile.name and marked("died"):
        os.kill(os.getpid(), signal.SIGKILL)
    return own_summary(profile, **options)  # type: ignore[arg-type]


def dies_always(profile: Profile, **options: object) -> run.ProfileOutcome:
    if "rank0002" in profile.name:
        os.kill(os.getpid(), signal.SIGKILL)
    return own_summary(profile, **options)  # type: ignore[arg-type]


def sleeps(profile: Profile, **options: object) -> run.ProfileOutcome:
    marked("sleeping")
    time.sleep(60)
    return own_summary(profile, **options)  # type: ignore[arg-type]


def test_a_worker_killed_in_the_middle_changes_nothing(
    ranks: Path, serial: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLEET_MARKS", str(tmp_path))
    monkeypatch.setattr(run, "summarize_rank", dies_once)
    assert printed(ranks, "--workers=2", "--format=json") == serial
    assert (tmp_path / "died").exists()


def test_a_profile_that_kills_its_workers_is_named(ranks: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "summarize_rank", dies_always)
    document = json.loads(printed(ranks, "--workers=2", "--format=json"))
    assert len(document["ranks"]) == RANKS - 1
    [failed] = document["failed"]
    assert failed["profile"].startswith("rank0002")
    assert failed["sentence"].startswith("4 workers died over it")


def test_interrupting_ends_the_workers(ranks: Path, tmp_path: Path) -> None:
    psutil = pytest.importorskip("psutil")
    code = "from gpuledger.cli.main import main; from gpuledger.jobs import run; import test_fleet; "
    code += "run.summarize_rank = test_fleet.sleeps; main()"
    path = os.pathsep.join([str(Path(__file__).parent), str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")])
    started = subprocess.Popen(
        [sys.executable, "-c", code, "fleet", str(ranks), "--workers=2"],
        env=os.environ | {"FLEET_MARKS": str(tmp_path), "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    deadline = time.monotonic() + 60
    while not (tmp_path / "sleeping").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    children = psutil.Process(started.pid).children(recursive=True)
    os.killpg(started.pid, signal.SIGINT)  # as a terminal does: to all of them
    out, err = started.communicate(timeout=60)
    assert (started.returncode, out, err.strip()) == (130, b"", b"interrupted")
    assert len(children) >= 2
    assert not psutil.wait_procs(children, timeout=10)[1]


# Hostile input


@pytest.mark.parametrize("given", ["empty", "empty/*.json", "missing", "broken"])
def test_nothing_to_read_is_said_in_one_sentence(given: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken").mkdir()
    for number in range(8):
        (tmp_path / "broken" / f"rank{number}.json").write_text("{" * number)
    ran = gpuledger("fleet", given, "--workers=0", cwd=tmp_path)
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert ran.stderr.startswith(f"error: {given}: ")
    assert "Traceback" not in ran.stderr
    if given == "broken":
        assert "not one of 8 profiles could be analysed" in ran.stderr
        assert "       and 3 more" in ran.stderr


def test_workers_and_scheduler_exclude_each_other(ranks: Path) -> None:
    assert gpuledger("fleet", ranks, "--workers=2", "--scheduler=tcp://127.0.0.1:1").exit_code == 2


def test_no_scheduler_is_said_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "_CONNECT_S", 1)
    for address in ("tcp://127.0.0.1:1", "nowhere", "ftp://x"):
        with pytest.raises(ToolFailed, match="no Dask scheduler answers there"), cluster.cluster_at(address):
            pass


class Fetched:
    """A result on a cluster: its worker died with it so many times, then it is there."""

    status = "finished"

    def __init__(self, deaths: int, value: int) -> None:
        self.deaths, self.value = deaths, value

    def cancelled(self) -> bool:
        return False

    def result(self, timeout: float) -> int:
        self.deaths -= 1
        if self.deaths >= 0:
            raise TimeoutError
        return self.value

    def release(self) -> None:
        pass


class Cluster:
    """A cluster with a worker at first, and these results."""

    status = "running"

    def __init__(self, futures: list[Fetched]) -> None:
        self.futures = futures
        self.workers = iter([{"one": 1}])

    def map(self, *_: object, pure: bool) -> list[Fetched]:
        return self.futures

    def scheduler_info(self) -> dict[str, object]:
        return {"workers": next(self.workers, {})}


def test_no_result_of_a_cluster_is_waited_for_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Cluster([Fetched(0, 7), Fetched(3, 8), Fetched(10**9, 9)])
    results = cluster.spread(client, abs, [1, 2, 3], lost=lambda item, reason: (item, reason))
    assert results == [7, 8, (3, "no worker could take it: TimeoutError:")]
    monkeypatch.setattr(cluster, "_WITHOUT_WORKERS_S", 1)
    waiting = Fetched(0, 7)
    waiting.status = "pending"
    with pytest.raises(ToolFailed, match="the Dask cluster has lost its workers"):
        cluster.spread(Cluster([waiting]), abs, [1], lost=lambda item, _: item)


def test_only_a_cluster_needs_dask(ranks: Path, serial: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(MissingPackage) as refused:
        run.fleet([str(ranks)], Selection(), scheduler="tcp://127.0.0.1:1")
    assert "pip install 'gpuledger[fleet]'" in refused.value.hint
    assert printed(ranks, "--format=json") == serial


def test_local_workers_load_no_dask(ranks: Path) -> None:
    code = "import sys; from gpuledger.jobs import run; from gpuledger.ledger.steps import Selection\n"
    code += "if __name__ == '__main__':\n"
    code += "    run.fleet([sys.argv[1]], Selection(), count=2)\n"
    code += "    sys.exit('distributed' in sys.modules or 'dask' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code, ranks], check=False, timeout=120).returncode == 0


# Which profiles


@pytest.fixture
def tree(ranks: Path, tmp_path: Path) -> Path:
    """A folder with everything in it."""
    top = tmp_path / "job"
    source = next(iter(sorted(ranks.iterdir())))
    for name in (
        "b/rank10.json.gz",
        "b/rank2.json.gz",
        "a/run.nsys-rep",
        "a/run.sqlite",
        "a/.hidden.json",
        "a/log.txt",
    ):
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, top / name)
    (top / "a/log.txt").write_text("epoch 1")
    (top / "c_pqtdir").mkdir()
    (top / "c_pqtdir" / "StringIds.parquet").touch()
    with tarfile.open(top / "more.tar.gz", "w:gz") as archive:
        archive.add(source, "x/rank5.json.gz")
    return top


def names(given: list[str]) -> list[str]:
    return [each.name for each in job_profiles(given)[0]]


def test_folders_archives_and_exports_are_found_at_any_depth(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = ["a/run.sqlite", "b/rank2.json.gz", "b/rank10.json.gz", "c_pqtdir", "more.tar.gz::x/rank5.json.gz"]
    assert names([str(tree)]) == expected
    assert names([str(tree), str(tree / "b"), str(tree / "**/*.gz")]) == expected
    monkeypatch.chdir(tree)
    assert names(["*"]) == expected
    assert names(["b/*"]) == ["rank2.json.gz", "rank10.json.gz"]
    assert names(["more.tar.gz::x/rank5.json.gz"]) == ["more.tar.gz::x/rank5.json.gz"]
    assert all(Path(each.address).is_absolute() for each in job_profiles(["."])[0])


def test_what_is_asked_for_by_name_counts_whatever_it_is(tree: Path) -> None:
    profiles, broken = job_profiles([str(tree / "a/log.txt"), str(tree / "b")])
    assert [each.name for each in profiles] == ["a/log.txt", "b/rank2.json.gz", "b/rank10.json.gz"]
    assert not broken


def test_a_damaged_archive_is_named(tree: Path) -> None:
    (tree / "more.tar.gz").write_bytes(b"PK\x03\x04 and no more")
    assert [each.profile for each in job_profiles([str(tree)])[1]] == ["more.tar.gz"]


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (UnreadableProfile("rank1.json: the file is empty"), "the file is empty"),
        (GpuledgerError("no range matches 'x'"), "no range matches 'x'"),
        (MemoryError(), "not enough memory"),
        (ValueError("a\nb"), "internal error: ValueError: a b"),
    ],
)
def test_failures_are_one_sentence(error: Exception, sentence: str) -> None:
    assert failure("node1/rank1.json", error) == Failed("node1/rank1.json", sentence)


# Parts


def test_nothing_of_a_profile_stays_with_the_worker(ranks: Path, decode: Path, unpacked: Callable[[str], Path]) -> None:
    """What refers to itself is only looked for now and then: a worker had several profiles at a time in memory."""
    for path in (ranks / "rank0000.pt.trace.json.gz", decode, unpacked("graph.sqlite")):
        for debug in (0, gc.DEBUG_SAVEALL):  # the first time modules are loaded
            gc.collect()
            gc.set_debug(debug)
            gc.disable()
            try:
                outcome = run.summarize_rank(
                    Profile(str(path), path.name), Selection(), DEFAULT_LIMITS, own_version(), 1_000
                )
                gc.collect()
                left = {type(thing).__name__ for thing in gc.garbage}
            finally:
                gc.enable()
                gc.set_debug(0)
                gc.garbage.clear()
        assert not [part for part in outcome if isinstance(part, Failed)]
        assert not left & {"Trace", "Rows", "Activities", "Host", "Device"}


def test_only_what_is_needed_is_read(ranks: Path, decode: Path) -> None:
    for path in (ranks / "rank0000.pt.trace.json.gz", decode):
        whole, part = open_trace(path), open_trace(path, only=run.NEEDED)
        made = [put_together([rank_summary(trace, "x", Selection(), operations=OPERATIONS)]) for trace in (whole, part)]
        answers = [fleet_answer("x", run.Fleet(job, 1, 1, ())).to_dict() for job in made]
        assert answers[0] == answers[1]
        works = [each.ranks[0].work for each in made]
        assert isinstance(works[0], PackedTable)
        assert pickle.dumps(works[0]) == pickle.dumps(works[1])


def test_workers_fit_cores_and_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resources, "usable_cores", lambda: 16)
    for free, profiles, largest, count in (
        (64, 100, 1, 16),
        (64, 3, 1, 3),
        (9, 100, 1, 4),
        (1, 100, 1, 1),
        (64, 9, 30, 2),
    ):
        monkeypatch.setattr(resources, "free_memory_bytes", lambda free=free: free << 30)
        assert run.worker_count(profiles, largest << 30) == count


def test_the_bar_counts_profiles() -> None:
    told: list[tuple[str, int]] = []

    class Noting(Nobody):
        def __call__(self, table: str, rows: int) -> None:
            told.append((table, rows))

    draw = progress_bar(Noting())
    draw(0, 0)
    draw(1, 4)
    assert told == [("the folder", 0), ("█████··············· 1 of 4 profiles", 0)]
    assert profiles_text(3, 1) == "2 of 3 profiles"


@pytest.mark.parametrize(("count", "steps"), [(1, 1), (8, 3), (32, 100), (500, 3000)])
def test_the_map_fits_a_terminal_whatever_the_job(count: int, steps: int) -> None:
    late = np.random.default_rng(1).integers(0, 900_000, (count, steps))
    late[count // 2, steps // 2] = 100_000_000
    labels = [f"rank {at}" for at in range(count)]
    drawn = shade_lines(Shades("", "", labels, range(steps), late), 80, str)
    assert max(map(len, drawn)) <= 80
    assert next(line.split("  ")[1] for line in drawn if "█" in line) == f"rank {count // 2}"
    assert len(drawn) <= 5  # all others look the same
    late[:, 0] = 25_000_000 * (np.arange(count) % 5)
    drawn = shade_lines(Shades("", "", labels, range(steps), late), 80, str)
    assert len(drawn) <= 34
    assert max(map(len, drawn)) <= 80


@pytest.fixture(autouse=True)
def _no_worker_is_left() -> Iterator[None]:
    """Whatever a test does, no process of its own survives it."""
    yield
    psutil = pytest.importorskip("psutil")
    left = [each for each in psutil.Process().children(recursive=True) if "spawn_main" in " ".join(each.cmdline())]
    assert not psutil.wait_procs(left, timeout=10)[1]
