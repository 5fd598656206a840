"""Where the messages live: what a back end promises (``protocol``), and the three that keep it.

| module | what it holds |
| --- | --- |
| ``protocol`` | the promises, and the types that cross them |
| ``open`` | from a URL to a storage |
| ``memory`` | a dictionary and a heap; the model that the others are compared with |
| ``sqlite``, ``sqlite_sql`` | a file; every statement |
| ``postgres``, ``postgres_sql`` | a server; every statement |
| ``postgres_pool``, ``postgres_listen`` | its connections; hearing of other processes' offers |
| ``scan_floor`` | where a poll may begin when dead rows have made it slow |
| ``migrate``, ``table_names`` | numbered steps of the schema; names of tables and indexes |
"""
