"""What the daemon shows: metrics, findings and a page. The only importer of prometheus_client.

Nothing in here asks a database: everything is answered from the last completed looks.
"""
