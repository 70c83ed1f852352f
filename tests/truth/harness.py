"""Runs the workload under a watching daemon and compares what was said with what was true."""

import asyncio
import json
import os
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from pathlib import Path

from support.servers import TestServer
from support.watching import Recorder, daemon_on

from truth.workload import BUDGETS, COPIES_GAP, GRACE, Arguments, Run
from watchdog.core.judging.evidence import Evidence, Kind
from watchdog.core.present.look import Look

REACH = 0.15
"""Seconds past its crossing for which a run must go on before a look can be expected to have seen it."""

EDGE = 0.1
"""Seconds around the begin and the end of a run in which the server and its caller may differ about it."""

PREPARE = """
    CREATE ROLE noise LOGIN PASSWORD '{password}';
    CREATE TABLE busy WITH (autovacuum_vacuum_threshold = 10, autovacuum_vacuum_scale_factor = 0)
        AS SELECT n FROM generate_series(1, 20000) AS n;
    GRANT ALL ON busy TO noise;
    ALTER SYSTEM SET autovacuum_naptime = '1s'
"""
BATCHES = (
    "CREATE PROCEDURE batches() LANGUAGE plpgsql AS $$ BEGIN"
    " FOR i IN 1..30 LOOP PERFORM pg_sleep(0.1); COMMIT; END LOOP; END $$"
)


@dataclass(slots=True)
class Detection:
    """When a run was first called an orphan, by the server's clock, and on what evidence up to its end."""

    at: float
    past_crossing: float
    evidence: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Truth:
    """Everything that was measured. Times are seconds."""

    runs: list[Run]
    detections: dict[int, Detection]
    strangers: int
    copies: Counter[str]
    load: float
    until: float
    said_running: float
    said_orphaned: float

    @property
    def running(self) -> float:
        """Seconds that the callers' queries worked, up to the last look."""
        return sum(max(0.0, min(run.ended, self.until) - run.began) for run in self.runs)

    @property
    def orphaned(self) -> float:
        """The part of it past the end of the budgets."""
        return sum(max(0.0, min(run.ended, self.until) - run.began - BUDGETS[run.role]) for run in self.runs)

    def population(self, *, wrong: bool) -> list[tuple[int, Run]]:
        """The runs whose budget is right, or those of callers that wait longer than it says."""
        return [(i, run) for i, run in enumerate(self.runs) if (run.kind == "wrong") == wrong]

    @property
    def false_orphans(self) -> list[Run]:
        """Called an orphan although somebody still waited at that moment; callers with a wrong budget apart."""
        return [
            run
            for i, run in self.population(wrong=False)
            if i in self.detections and not _abandoned(run, self.detections[i].at)
        ]

    @property
    def true_orphans(self) -> int:
        """Called an orphan, and nobody waited."""
        return sum(i in self.detections for i, _ in self.population(wrong=False)) - len(self.false_orphans)

    @property
    def knowable(self) -> list[int]:
        """The runs that time can know: abandoned, and still running a moment past budget and grace."""
        return [
            i
            for i, run in self.population(wrong=False)
            if run.left is not None and run.ended - run.began >= _crossing(run) + REACH
        ]

    @property
    def missed(self) -> list[Run]:
        """Those of them that were not called orphans."""
        return [self.runs[i] for i in self.knowable if i not in self.detections]

    @property
    def retried(self) -> list[int]:
        """The orphans whose next attempt stood for two looks beside them: what `superseded` can know."""
        found = []
        for i, run in self.population(wrong=False):
            later = [
                r
                for r in self.runs
                if r.kind == "retry" and (r.role, r.name) == (run.role, run.name) and r.attempt > run.attempt
            ]
            together = max(
                (min(run.ended, r.ended) - r.began for r in later if r.began - run.began >= COPIES_GAP), default=0.0
            )
            if run.kind == "retry" and i in self.detections and together > 2 * 2.0 + EDGE:
                found.append(i)
        return found

    def lags(self, *, since: str) -> list[float]:
        """Lags to the finding, sorted: since the crossing, or since the caller gave up."""
        found = []
        for i, run in self.population(wrong=False):
            detection = self.detections.get(i)
            if detection is not None and run.left is not None:
                found.append(detection.past_crossing if since == "crossing" else detection.at - run.left)
        return sorted(found)


async def measure(server: TestServer, *, folder: Path, callers: int, seconds: float, seed: int, noise: bool) -> Truth:
    """Play the workload on `server` under an ordinary daemon."""
    server.run(PREPARE.format(password=server.embedded.password))
    with server.admin() as admin:
        admin.execute(BATCHES.encode())
        admin.execute("GRANT EXECUTE ON PROCEDURE batches TO noise")
        admin.execute("SELECT pg_reload_conf()")
    recorder = Recorder()
    arguments = Arguments(server.embedded.port, server.embedded.password, callers, seconds, seed, noise)
    async with daemon_on(folder, _configuration(server.dsn()), sinks=(recorder,)):
        await recorder.until(lambda seen: seen.looks())
        before, begun = _busy(), time.monotonic()
        workload = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "truth.workload",
            json.dumps(asdict(arguments)),
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
        )
        output, _ = await workload.communicate()
        load = (_busy() - before) / (time.monotonic() - begun)
    assert workload.returncode == 0
    runs = [Run(**json.loads(line)) for line in output.decode().splitlines()]
    return _compared(runs, recorder.looks(), load=load)


def table(truth: Truth) -> str:
    """The result as Markdown."""
    wrong = truth.population(wrong=True)
    called = [run for i, run in wrong if i in truth.detections]
    superseded = sum(str(Evidence.SUPERSEDED) in truth.detections[i].evidence for i in truth.retried)
    falsely = [
        r
        for i, r in enumerate(truth.runs)
        if i in truth.detections and "superseded" in truth.detections[i].evidence and r.kind not in {"retry", "overlap"}
    ]
    rows = [
        ("callers' queries", f"{len(truth.runs)} ({_kinds(truth.runs)})"),
        (
            "over_budget: precision",
            _share(truth.true_orphans, truth.true_orphans + len(truth.false_orphans) + truth.strangers),
        ),
        (
            "over_budget: recall of what it can know",
            _share(len(truth.knowable) - len(truth.missed), len(truth.knowable)),
        ),
        ("superseded: recall of what it can know", _share(superseded, len(truth.retried))),
        ("superseded: said where nobody retried", str(len(falsely))),
        ("noise called an orphan", str(truth.strangers)),
        ("lag from the crossing, p50 / p99 / max", _spread(truth.lags(since="crossing"), unit="ms")),
        ("lag from the giving-up, p50 / p99 / max", _spread(truth.lags(since="left"), unit="s")),
        ("copies per key: looks at a key that agree", _share(truth.copies["agree"], truth.copies.total())),
        ("running seconds, said / true", f"{truth.said_running:.0f} / {truth.running:.0f}"),
        ("orphan seconds, said / true", f"{truth.said_orphaned:.0f} / {truth.orphaned:.0f}"),
        (
            "callers whose budget is wrong (they wait longer)",
            f"{len(wrong)}, of them called orphans while waiting {_waiting(truth, wrong)} of {len(called)}",
        ),
        ("load of the cores", f"{truth.load:.0%}"),
    ]
    return "| measured | result |\n|---|---|\n" + "".join(f"| {name} | {value} |\n" for name, value in rows)


def _configuration(dsn: str) -> str:
    budgets = {
        "grace": f"{int(GRACE * 1000)}ms",
        "roles": {
            # What is compared here is what time alone knows: sockets would tell the deaths of clients long before.
            **{role: {"budget": f"{limit:g}s", "detached": True} for role, limit in BUDGETS.items()},
            "noise": {"budget": "8s", "holding": "1min"},
        },
        "jobs": [{"pattern": "scan:{job}:{window}", "copies": 1, "retry_gap": f"{COPIES_GAP:g}s"}],
    }
    clusters = [{"name": "main", "dsn": dsn}]
    return json.dumps({"poll": {"interval": "2s"}, "clusters": clusters, "budgets": budgets})


def _compared(runs: list[Run], looks: Sequence[Look], *, load: float) -> Truth:
    detections: dict[int, Detection] = {}
    strangers: set[tuple[int, object]] = set()
    by_pid: dict[int, list[int]] = defaultdict(list)
    for i, run in enumerate(runs):
        by_pid[run.pid].append(i)
    for look in looks:
        for finding in look.judgement.findings:
            if finding.kind is not Kind.ORPHAN:
                continue
            start = finding.run.start.timestamp()
            match = next((i for i in by_pid[finding.backend.pid] if abs(runs[i].began - start) < 1.0), None)
            if match is None:
                strangers.add((finding.backend.pid, finding.run.start))
                continue
            budget = finding.budget
            assert budget is not None
            past = (finding.running - budget.crossing).total_seconds()
            detections.setdefault(match, Detection(look.snapshot.at.timestamp(), past)).evidence |= set(
                finding.evidence
            )
    return Truth(
        runs=runs,
        detections=detections,
        strangers=len(strangers),
        copies=_copies(runs, looks),
        load=load,
        until=looks[-1].snapshot.at.timestamp(),
        said_running=_seconds(look.judgement.increments.running for look in looks),
        said_orphaned=_seconds(look.judgement.increments.orphaned for look in looks),
    )


def _seconds(accruals: Iterable[Mapping[tuple[str, str], timedelta]]) -> float:
    return sum(span.total_seconds() for each in accruals for (role, _), span in each.items() if role in BUDGETS)


def _copies(runs: Iterable[Run], looks: Sequence[Look]) -> Counter[str]:
    """For each look and key: does the number of copies agree with the callers', up to those just at an edge?"""
    keyed = [run for run in runs if run.name.startswith("scan:")]
    result: Counter[str] = Counter()
    for look in looks:
        at = look.snapshot.at.timestamp()
        said = {(key.role, f"scan:{key.job}:{key.window}"): len(group) for key, group in look.judgement.copies.items()}
        least: Counter[tuple[str, str]] = Counter()
        most: Counter[tuple[str, str]] = Counter()
        for run in keyed:
            if run.began + EDGE <= at <= run.ended - EDGE:
                least[run.role, run.name] += 1
            if run.began - EDGE <= at <= run.ended + EDGE:
                most[run.role, run.name] += 1
        for key in said.keys() | most.keys():
            result["agree" if least[key] <= said.get(key, 0) <= most[key] else "differ"] += 1
    return result


def _abandoned(run: Run, at: float) -> bool:
    return run.left is not None and run.left <= at


def _crossing(run: Run) -> float:
    return BUDGETS[run.role] + GRACE


def _waiting(truth: Truth, wrong: Iterable[tuple[int, Run]]) -> int:
    return sum(i in truth.detections and not _abandoned(run, truth.detections[i].at) for i, run in wrong)


def _busy() -> float:
    """Busy core-seconds so far, divided by the number of cores."""
    fields = [int(each) for each in Path("/proc/stat").read_text().splitlines()[0].split()[1:]]
    cores = sum(line.startswith("cpu") for line in Path("/proc/stat").read_text().splitlines()) - 1
    return (sum(fields[:3]) + sum(fields[5:8])) / 100 / cores


def _kinds(runs: Iterable[Run]) -> str:
    return ", ".join(f"{kind} {count}" for kind, count in sorted(Counter(run.kind for run in runs).items()))


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.4f} ({part} of {whole})" if whole else "nothing to measure"


def _spread(values: Sequence[float], *, unit: str) -> str:
    if not values:
        return "nothing to measure"
    scale = 1000 if unit == "ms" else 1
    picked = (percentile(values, 0.5), percentile(values, 0.99), values[-1])
    return f"{' / '.join(f'{value * scale:.1f}' for value in picked)} {unit}"


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which `share` of the sorted values lie."""
    return values[min(len(values) - 1, int(share * len(values)))]
