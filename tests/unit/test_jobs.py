from datetime import UTC, datetime

import pytest
from support.builders import rule

from watchdog.core.judging.jobs import (
    JobClaim,
    JobKey,
    JobRule,
    NoKey,
    PatternError,
    parse_pattern,
    read_name,
)


@pytest.mark.parametrize(
    ("pattern", "name", "key"),
    [
        ("scan:{job}:{window}", "scan:threads:2026-11", JobKey("threads", "2026-11")),
        ("scan:{job}:{window}", "scan:threads:2026:11", JobKey("threads", "2026:11")),
        ("{job}/{window}", "digest/w1", JobKey("digest", "w1")),
        ("{window}--{job}", "w-1--digest", JobKey("digest", "w-1")),
        ("cron {job}", "cron nightly report", JobKey("nightly report", "")),
        ("[{job}]({window})", "[a.b](c)", JobKey("a.b", "c")),
    ],
)
def test_a_pattern_reads_its_fields_and_the_last_takes_the_rest(pattern: str, name: str, key: JobKey) -> None:
    assert parse_pattern(pattern).read(name) == (key, None)


@pytest.mark.parametrize(
    "name",
    [
        "scan:threads",
        "scan:threads:",
        "scan::w1",
        "scan:",
        "scan:" + "x" * 58,
        "scan:" + "x" * 40 + ":" + "y" * 17,
        "scan:t?dlich:w1",
    ],
)
def test_a_name_that_is_cut_ambiguous_or_incomplete_is_unusable_and_never_guessed(name: str) -> None:
    assert parse_pattern("scan:{job}:{window}").read(name) is NoKey.UNUSABLE


@pytest.mark.parametrize("size", [60, 61, 62, 63])
def test_d11_a_name_that_may_have_been_cut_is_no_key(size: int) -> None:
    """At 63 bytes, or before a character of several bytes that did not fit: two names can have become one."""
    name = "scan:" + "x" * 40 + ":" + "y" * (size - 46)
    assert len(name) == size
    assert parse_pattern("scan:{job}:{window}").read(name) is NoKey.UNUSABLE


def test_a_name_of_59_bytes_is_whole() -> None:
    name = "scan:" + "x" * 40 + ":" + "y" * 13
    assert len(name) == 59
    assert parse_pattern("scan:{job}:{window}").read(name) == (JobKey("x" * 40, "y" * 13), None)


@pytest.mark.parametrize("name", ["", "psql", "PostgreSQL JDBC Driver", "Scan:a:b", "pg_dump"])
def test_a_name_that_does_not_look_like_a_key_is_none(name: str) -> None:
    assert parse_pattern("scan:{job}:{window}").read(name) is NoKey.NOT_A_KEY


@pytest.mark.parametrize(
    ("pattern", "complaint"),
    [
        ("scan:{window}", "no {job}"),
        ("{job}{window}", "separator"),
        ("{job}:{hour}", "unknown field"),
        ("{job}:{job}", "twice"),
        ("", "no {job}"),
    ],
)
def test_a_pattern_that_cannot_work_says_why(pattern: str, complaint: str) -> None:
    with pytest.raises(PatternError, match=complaint):
        parse_pattern(pattern)


def test_the_first_rule_that_fits_reads_the_name() -> None:
    first, second = rule(pattern="scan:{job}:{window}"), rule(pattern="{job}:{window}")
    claim = read_name("scan:a:b", rules=(first, second))
    assert isinstance(claim, JobClaim)
    assert (claim.rule, claim.key) == (first, JobKey("a", "b"))
    other = read_name("nightly:b", rules=(first, second))
    assert isinstance(other, JobClaim)
    assert other.rule is second


def test_an_unusable_name_stays_unusable_when_no_other_rule_can_read_it() -> None:
    assert read_name("scan:a", rules=(rule(), rule(pattern="cron/{job}"))) is NoKey.UNUSABLE


def test_a_jobs_own_budget_comes_before_the_one_for_all() -> None:
    jobs = rule(budgets={"threads": 10, "*": 20})
    assert [found[0] for job in ("threads", "digest") if (found := jobs.budget_spec(job))] == ["threads", "*"]
    assert rule(budgets={"threads": 10}).budget_spec("digest") is None


def test_a_deadline_is_read_as_seconds_since_1970() -> None:
    read = parse_pattern("scan:{job}:{window}:{deadline}").read("scan:a:w1:1764489600.5")
    assert read == (JobKey("a", "w1"), datetime(2025, 11, 30, 8, 0, 0, 500_000, tzinfo=UTC))


@pytest.mark.parametrize("text", ["soon", "", "nan", "inf", "1e30", "-5", "12", "99999999999"])
def test_a_deadline_that_is_none_makes_the_key_unusable(text: str) -> None:
    assert parse_pattern("scan:{job}:{window}:{deadline}").read(f"scan:a:w1:{text}") is NoKey.UNUSABLE


def test_a_name_that_a_pooler_made_too_long_is_read_as_far_as_it_is_whole() -> None:
    name = ("scan:threads:" + "x" * 25 + " - 10.100.200.100:54321")[:63]
    claim = read_name(name, rules=(JobRule(pattern=parse_pattern("scan:{job}:{window}")),))
    assert isinstance(claim, JobClaim)
    assert claim.key == JobKey("threads", "x" * 25)
