"""Runs the looks: each cluster has a task of its own, which takes one look after another.

It reaches servers, sockets and the ledger only through the protocols in `ports`, and knows no driver.
"""
