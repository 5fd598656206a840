"""SQLite as the back end of a delayed queue: one file, no server.

| module | what it holds |
| --- | --- |
| ``back_end`` | how a storage is opened |
| ``storage`` | the class that joins the others |
| ``messages_sql``, ``ticks_sql``, ``schema_sql`` | the statements: of messages, of schedules, of the tables |
| ``statements`` | the connection, and how a statement is run on it |
| ``offer``, ``ticks`` | messages are stored; the messages of schedules |
| ``caller`` | work inside a transaction that the caller has open |
| ``migrate`` | the tables are made and brought up to date |
"""
