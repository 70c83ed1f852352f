"""Helpers that the tests share: builders of values, servers, processes, and a proxy that causes network faults."""
