-- Sets our own default_transaction_isolation, by a plain SET, because set_config() would take a snapshot: on a hot standby
-- with a serializable default that fails.
SET default_transaction_isolation = 'read committed'
