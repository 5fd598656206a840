"""PostgreSQL as the back end of a delayed queue: many processes on many machines.

| module | what it holds |
| --- | --- |
| ``back_end`` | how a storage is opened |
| ``storage`` | the class that joins the others |
| ``messages_sql``, ``take_sql`` | the statements of messages, and the one that takes due messages |
| ``ticks_sql``, ``schema_sql`` | the statements of schedules; the tables |
| ``statements`` | how a statement is run |
| ``offer``, ``offer_batch`` | messages are stored, one by one and many at a time |
| ``take``, ``take_within_limits`` | due messages are taken, without and with limits of how many are in flight |
| ``ticks`` | the messages of schedules |
| ``pool``, ``connection`` | the connections; one connection |
| ``listen`` | the connection that waits for the offers of other processes |
| ``direct_libpq``, ``binary_arrays`` | the statements that run for every message, sent to libpq without a cursor |
| ``scan_floor`` | where a poll begins, so that it reads few rows that are dead |
| ``migrate`` | the tables are made and brought up to date |
"""
