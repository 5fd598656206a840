"""PostgreSQL as the back end of a delayed queue, for many processes on many machines.

| module | what it holds |
| --- | --- |
| ``storage`` | the class that joins the others |
| ``messages_sql``, ``take_sql`` | the statements of messages, and the one that takes due messages |
| ``ticks_sql``, ``schema_sql`` | the statements of schedules; the tables |
| ``statements`` | runs statements |
| ``offer``, ``offer_batch`` | store messages, one by one and many at a time |
| ``take`` | takes due messages, without and with in-flight limits |
| ``ticks`` | stores the messages of schedules |
| ``pool``, ``connection`` | the connections; one connection |
| ``listen`` | the connection that waits for the offers of other processes |
| ``direct_libpq`` | sends the statements of every message to libpq, without a cursor |
| ``scan_floor`` | decides where a poll begins, so that it reads few dead rows |
| ``migrate`` | creates tables and brings them up to date |
"""
