"""The few phrases that every rendering for people shares: spans of time, verdicts."""

from datetime import timedelta

from watchdog.core.evidence import Kind
from watchdog.core.look import Look
from watchdog.core.policy import Verdict

_TENTHS_BELOW = 10
_UNITS = (("d", 86_400, 3_600, "h"), ("h", 3_600, 60, "m"), ("m", 60, 1, "s"))


def span(value: timedelta | None) -> str:
    """A span for people, two units at most: `32m 10s`; `-` for what is not known."""
    if value is None:
        return "-"
    seconds = value.total_seconds()
    if seconds < _TENTHS_BELOW:
        return f"{seconds:.1f}".removesuffix(".0") + "s"
    whole = int(seconds)
    for name, size, rest, inner in _UNITS:
        if whole >= size:
            remainder = whole % size // rest
            return f"{whole // size}{name} {remainder:02d}{inner}" if remainder else f"{whole // size}{name}"
    return f"{whole}s"


def nothing_found(look: Look, *, judges: bool) -> str | None:
    """The sentence for a cluster without findings, or None where silence would not mean anything.

    `judges` is False where no budget is configured.
    """
    if not judges or not look.complete or look.judgement.findings:
        return None
    aside = sum(count for reason, count in look.judgement.unjudged.items() if reason != "unusable_key")
    return "Nothing found among those that were judged." if aside else "Nothing found."


def gravest_first(look: Look) -> list[Verdict]:
    """The verdicts of a look in the order in which people should read them: by kind, then the longest first."""
    kinds = list(Kind)
    return sorted(look.decisions.verdicts, key=lambda each: (kinds.index(each.finding.kind), -each.finding.running))


def verdict_words(verdict: Verdict) -> str:
    """What policy makes of a finding, in words."""
    if verdict.rule is None:
        return "shown only"
    if verdict.withheld is not None:
        return f"left alone: {verdict.withheld.replace('_', ' ')}"
    return f"would {verdict.action} (dry run)"
