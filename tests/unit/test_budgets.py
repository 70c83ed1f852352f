import tempfile
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from support.builders import backend, book, census, judge_settings, rule, seconds, snapshot

from watchdog.core.judging.budgets import Budget, BudgetBook
from watchdog.core.judging.evidence import Kind
from watchdog.core.judging.jobs import BudgetSpec, JobClaim, JobRule, read_name
from watchdog.core.judging.judge import Memory, judge
from watchdog.core.observed.activity import Clock
from watchdog.settings.load import load_file
from watchdog.settings.tree import Settings
from watchdog.web.labels import Bound, LabelLimiter


def claim_by(jobs: JobRule, *, name: str = "scan:threads:w1") -> JobClaim:
    claim = read_name(name, rules=(jobs,))
    assert isinstance(claim, JobClaim)
    return claim


def source(budget: Budget | None) -> str | None:
    return None if budget is None else budget.source


def test_a_role_has_its_budget_and_a_stranger_the_default_or_none() -> None:
    assert source(book().budget("web_app", claim=None)) == "role:web_app"
    assert source(book().budget("somebody", claim=None)) is None
    assert source(book(default=60).budget("somebody", claim=None)) == "default"
    assert source(book(default=60).budget("unknown", claim=None)) == "default"


def test_provider_roles_are_left_out_of_the_default_but_not_of_a_budget_of_their_own() -> None:
    assert book(default=60).budget("rdsadmin", claim=None) is None
    assert source(book(roles={"rdsadmin": 5}).budget("rdsadmin", claim=None)) == "role:rdsadmin"


def test_a_jobs_budget_replaces_the_roles_only_for_roles_that_its_rule_names() -> None:
    bound = rule(roles=frozenset({"web_app"}), budgets={"threads": 840})
    assert source(book(bound).budget("web_app", claim=claim_by(bound))) == "job:threads"
    assert source(book(bound, roles={"other": 30}).budget("other", claim=claim_by(bound))) == "role:other"


def test_elsewhere_the_smaller_counts_because_a_name_is_only_a_claim() -> None:
    free = rule(budgets={"*": 20})
    assert source(book(free).budget("web_app", claim=claim_by(free))) == "job:*"
    generous = rule(budgets={"*": 3600})
    assert source(book(generous).budget("web_app", claim=claim_by(generous))) == "role:web_app"


def test_a_job_has_a_budget_also_where_its_role_has_none() -> None:
    free = rule(budgets={"*": 20})
    assert source(book(free, roles={}).budget("somebody", claim=claim_by(free))) == "job:*"


def test_keyed_rows_count_by_the_run_clock_and_others_by_the_statement_unless_the_budget_says() -> None:
    plain = book()
    assert plain.budget("web_app", claim=None).clock is Clock.STATEMENT  # type: ignore[union-attr]  # it has one
    assert plain.budget("web_app", claim=claim_by(plain.jobs[0])).clock is Clock.RUN  # type: ignore[union-attr]
    said = BudgetBook(roles={"web_app": BudgetSpec(limit=seconds(30), clock=Clock.RUN)})
    assert said.budget("web_app", claim=None).clock is Clock.RUN  # type: ignore[union-attr]


def test_grace_and_holding_come_from_the_budget_or_from_the_book() -> None:
    budgets = BudgetBook(
        grace=seconds(5),
        roles={
            "a": BudgetSpec(limit=seconds(30)),
            "b": BudgetSpec(limit=seconds(30), grace=seconds(1), holding=seconds(60)),
        },
    )
    a, b = budgets.budget("a", claim=None), budgets.budget("b", claim=None)
    assert a is not None
    assert b is not None
    assert (a.crossing, a.holding) == (seconds(35), seconds(30))
    assert (b.crossing, b.holding) == (seconds(31), seconds(60))


def test_the_smallest_crossing_looks_at_roles_jobs_and_default() -> None:
    assert book(rule(budgets={"*": 2}), default=60).smallest_crossing == timedelta(seconds=7)
    assert BudgetBook().smallest_crossing is None
    assert BudgetBook().empty
    assert not book().empty


def test_d11_a_role_that_is_said_to_have_no_budget_has_none_and_is_no_blind_spot() -> None:
    settings = load_text(
        "budgets: {default: 30s, roles: {queue_worker: none, web_app: {budget: none, detached: true}}}"
    )
    assert settings.book.exempt == frozenset({"queue_worker", "web_app"})
    assert settings.book.sources() == {"default": seconds(30)}
    assert [settings.book.is_detached(name, claim=None) for name in ("queue_worker", "web_app")] == [False, True]
    rows = (backend(pid=1, role="queue_worker", query=9999), backend(pid=2, role="other", query=9999))
    judged, _ = judge(
        snapshot(*rows), settings=judge_settings(settings.book), census=census(), memory=Memory(), tick=True
    )
    assert [(each.backend.pid, each.kind) for each in judged.findings] == [(2, Kind.ORPHAN)]
    assert judged.unjudged["no_budget"] == 0


def test_a_role_that_is_not_mentioned_is_a_blind_spot() -> None:
    judged, _ = judge(
        snapshot(backend(role="stranger")), settings=judge_settings(), census=census(), memory=Memory(), tick=True
    )
    assert judged.unjudged["no_budget"] == 1


LEASED = """
budgets:
  roles: {"v-web-*": 2s, "v-web-batch-*": 60s, v-web-root: none, "v-*": 5s}
  jobs: [{roles: ["v-web-*"], copies: 1, retry_gap: 1s, budgets: {"thread-*": 10s, thread-9: 20s, "*": 30s}}]
labels: {roles: ["v-web-*", other], max_roles: 2}
"""


def test_d05_a_role_of_every_lease_has_the_budget_of_its_pattern() -> None:
    """Rule: a name means the same in every place of the file; a literal counts first, then the more exact."""
    told = load_text(LEASED).book
    roles = ("v-web-k2h9", "v-web-batch-1", "v-web-root", "v-job-1", "w-1")
    assert [source(told.budget(each, claim=None)) for each in roles] == [
        "role:v-web-*",
        "role:v-web-batch-*",
        None,
        "role:v-*",
        None,
    ]
    assert [told.is_exempt(each) for each in roles] == [False, False, True, False, False]
    [jobs] = told.jobs
    assert [jobs.binds(each) for each in roles] == [True, True, True, False, False]
    by_job = [told.budget("v-web-k2h9", claim=claim_by(jobs, name=f"scan:{job}:w")) for job in ("thread-1", "thread-9")]
    assert [source(each) for each in by_job] == ["job:thread-*", "job:thread-9"]
    assert source(told.budget("v-job-1", claim=claim_by(jobs, name="scan:x:w"))) == "role:v-*"


def test_d05_the_roles_of_a_pattern_are_judged_bound_and_pooled_and_share_one_label() -> None:
    settings = load_text(LEASED, cluster="pooled: {roles: ['v-job-*']}")
    name = "scan:thread-1:w1"
    rows = (
        backend(pid=1, role="v-web-a", query=11.1, name=name),
        backend(pid=2, role="v-web-b", query=3.0),
        backend(pid=3, role="v-job-c", query=3.0, name=name),
    )
    [cluster] = settings.clusters
    judging = judge_settings(replace(settings.book, grace=seconds(1)), pooled=cluster.pooled_roles)
    judged, _ = judge(snapshot(*rows), settings=judging, census=census(), memory=Memory(), tick=True)
    assert [(each.backend.pid, each.kind, each.bound) for each in judged.findings] == [
        (1, Kind.ORPHAN, True),
        (2, Kind.ORPHAN, False),
    ]
    assert [case.job for case in judged.cases if case.backend.pid == 3] == [""]
    limiter = LabelLimiter(Bound(settings.labels.roles, settings.labels.max_roles))
    leased = [f"v-web-{n}" for n in range(50)]
    limiter.begin_look([*leased, "app", "etl", "late"])
    assert {limiter.fold(each) for each in leased} == {"v-web-*"}
    assert [limiter.fold(each) for each in ("app", "etl", "late", "v-web-root")] == [
        "app",
        "etl",
        "other",
        "v-web-*",
    ]
    assert limiter.folded == {"late"}


def load_text(text: str, *, cluster: str = "") -> Settings:
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(f'clusters: [{{name: main, dsn: "host=db1", {cluster}}}]\n{text}\n')
        file.flush()
        return load_file(Path(file.name), env={}, check_dsn=lambda _: None, check_url=lambda _: None)
