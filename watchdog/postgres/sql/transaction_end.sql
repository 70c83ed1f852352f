-- Ends that transaction, also where its statement failed.
ROLLBACK
