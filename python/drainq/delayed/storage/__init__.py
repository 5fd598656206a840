"""Storages: the back ends of the delayed queue, for memory, an SQLite file and a PostgreSQL server.

| module | what it holds |
| --- | --- |
| ``base`` | the interface of a back end, and the methods that all back ends share |
| ``records`` | the types of a back end's arguments and results |
| ``open`` | returns the storage of a URL |
| ``sqlite`` | a file, or memory |
| ``postgres`` | a server |
| ``in_flight_limits`` | computes how many more messages may be in flight |
| ``migrate``, ``table_names`` | numbered steps of the schema; names of tables and indexes |
"""
