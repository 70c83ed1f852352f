# Two stages, so that no compiler and no package manager's cache is in the result. BASE must have Python 3.11 or newer.
# For `sslrootcert=system` it must have the system's root certificates as well (on Debian the package ca-certificates).
ARG BASE=docker.io/library/python:3.13-slim

FROM ${BASE} AS build
WORKDIR /src
RUN python3 -m venv /opt/pgwatchdog
COPY requirements/run.txt requirements/run.txt
RUN /opt/pgwatchdog/bin/python -m pip install --no-cache-dir --disable-pip-version-check --require-hashes -r requirements/run.txt
COPY requirements/build.txt requirements/build.txt
RUN python3 -m venv /tmp/build \
    && /tmp/build/bin/python -m pip install --no-cache-dir --disable-pip-version-check --require-hashes -r requirements/build.txt
COPY pyproject.toml README.md LICENSE ./
COPY watchdog watchdog
RUN /tmp/build/bin/python -m hatchling build -t wheel -d /tmp/wheel \
    && /opt/pgwatchdog/bin/python -m pip install --no-cache-dir --disable-pip-version-check --no-deps /tmp/wheel/*.whl

FROM ${BASE}
LABEL org.opencontainers.image.title="pgwatchdog" \
      org.opencontainers.image.description="Watches Postgres for queries that run on after their callers have given up" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="0.1.0"
COPY --from=build /opt/pgwatchdog /opt/pgwatchdog
# The one place that is written to, and only where the configuration puts a ledger there.
RUN install -d -m 0700 -o 65534 -g 65534 /var/lib/pgwatchdog
VOLUME ["/var/lib/pgwatchdog"]
ENV PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 HOME=/tmp
USER 65534:65534
EXPOSE 10187
STOPSIGNAL SIGTERM
ENTRYPOINT ["/opt/pgwatchdog/bin/pgwatchdog"]
CMD ["run"]
