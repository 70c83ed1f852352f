"""The daemon's HTTP interface: metrics, findings and a page. No other package imports prometheus_client.

The package queries no database. Every response is made from the last completed looks.
"""
