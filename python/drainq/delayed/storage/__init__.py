"""Where the messages live: what a back end promises (``protocol``), and the three that keep it.

| module | what it holds |
| --- | --- |
| ``protocol``, ``operator`` | the promises, and the types that cross them |
| ``open`` | from a URL to a storage |
| ``memory``, ``memory_ticks``, ``memory_queue`` | a dictionary and a heap; the others are compared with it |
| ``statements`` | what SQLite and PostgreSQL share, and which of their files holds what |
| ``sqlite``, ``sqlite_...`` | a file |
| ``postgres``, ``postgres_...`` | a server |
| ``postgres_pool``, ``postgres_listen`` | its connections; the announcements of other processes' offers |
| ``scan_floor`` | where a poll may begin when dead rows have made it slow |
| ``migrate``, ``table_names`` | numbered steps of the schema; names of tables and indexes |
"""
