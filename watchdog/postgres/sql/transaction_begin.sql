-- Begins a transaction in which a first statement can be run whatever is stored as default_transaction_isolation. On a
-- hot standby a serializable default makes every statement fail that takes a snapshot; BEGIN takes none. The setting
-- ends with the transaction, so nothing is left behind in a pooler's session.
BEGIN ISOLATION LEVEL READ COMMITTED, NOT DEFERRABLE
