"""SQLite as the back end of a delayed queue: one file, no server.

| module | what it holds |
| --- | --- |
| ``storage`` | the class that joins the others |
| ``messages_sql``, ``ticks_sql``, ``schema_sql`` | the statements: of messages, of schedules, of the tables |
| ``statements`` | the connection, and methods to run a statement |
| ``offer``, ``ticks`` | store messages, and those of schedules |
| ``migrate`` | creates tables and brings them up to date |
"""
