"""The figures of the second part: the table of docs/truth.md, and what happened too rarely to show anything."""

from collections import Counter
from collections.abc import Mapping

from truth.acts_truth import LEAVERS, TEMPTING, ActsTruth


def too_few(truth: ActsTruth, *, share: float) -> list[str]:
    """What has not happened to this share of the callers: a cancel, a temptation, or a stubborn run that is left alone.

    Nothing is expected of `renaming`, which may never be hit.
    """
    kinds = Counter(caller.kind for caller in truth.played.callers.values())
    seen = truth.cancelled_kinds() + truth.tempted()
    wanted = {*LEAVERS, *TEMPTING} - {"renaming"}
    few = [f"{kind}: {seen[kind]} of {kinds[kind]}" for kind in sorted(wanted) if seen[kind] < share * kinds[kind]]
    left_alone = truth.outcomes()["ineffective"] + truth.outcomes()["ended_late"]
    return few + ([f"left alone: {left_alone}"] if left_alone < share * kinds["stubborn"] else [])


def acts_table(truth: ActsTruth) -> str:
    """The result as Markdown."""
    wrong = {words: len(found) for words, found in truth.contradictions().items()}
    played, cancels = truth.played, len(truth.cancels)
    aimed = cancels - wrong["a cancelled caller had given up"]
    explained = cancels - len(truth.unexplained)
    may = truth.outcomes()
    told = may.total() - may["unknown"]
    kinds = Counter(caller.kind for caller in played.callers.values())
    results = Counter("no answer" if row["result"] is None else str(row["result"]) for row in played.ledger)
    lines = [
        ("callers", _counts(kinds)),
        ("kills and reloads of the daemon", f"{len(played.kills)} and {len(played.reloads)}"),
        ("cancels in the server's log", f"{cancels} ({_counts(truth.cancelled_kinds())})"),
        ("of a caller who had given up: precision", _share(aimed, cancels)),
        ("with an intent of its own in the ledger", _share(explained, cancels)),
        ("handed on to another server by postgres_fdw", str(len(truth.handed_on))),
        ("acts in the ledger, by answer", _counts(results)),
        ("outcomes", _counts(may)),
        ("outcomes that are what the caller saw", _share(told - wrong["an outcome is what the caller saw"], told)),
        ("unknown though the daemon was not killed", str(wrong["unknown is only what a killed daemon has left"])),
        ("commands that protections have kept from a cancel", _counts(truth.tempted())),
        ("callers who wait and were disturbed", str(wrong["who waits for an answer gets it"])),
        ("contradictions of any kind", str(sum(wrong.values()))),
    ]
    return "| measured | result |\n|---|---|\n" + "".join(f"| {name} | {value} |\n" for name, value in lines)


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.4f} ({part} of {whole})" if whole else "nothing to measure"
