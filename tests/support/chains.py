"""The published caller chain: a scheduler, two functions with a lifetime of 15 min, and a query of 32.5 min."""

from datetime import timedelta

from watchdog.core.chain.chain import Chain, Layer


def minutes(amount: float) -> timedelta:
    return timedelta(minutes=amount)


QUERY = minutes(32.5)
END = minutes(15)
WRAPPER = Layer(name="wrapper", lifetime=END)
IMPATIENT = Layer(name="wrapper", attempts=5, timeout=minutes(14), lifetime=END)
WORKER = Layer(name="worker", lifetime=END)

AS_DEPLOYED = Chain((Layer(name="scheduler"), WRAPPER, WORKER), QUERY)
READ_TIMEOUT = Chain((Layer(name="scheduler"), IMPATIENT, WORKER), QUERY)
SCHEDULER_RETRIES = Chain((Layer(name="scheduler", attempts=7), IMPATIENT, WORKER), QUERY)
HANDED_DOWN = Chain((Layer(name="scheduler", attempts=3), WRAPPER, WORKER), QUERY, statement_timeout=minutes(14))
PRESETS = {
    "as deployed": AS_DEPLOYED,
    "read timeout": READ_TIMEOUT,
    "scheduler retries": SCHEDULER_RETRIES,
    "handed down": HANDED_DOWN,
}
