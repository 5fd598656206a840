"""Where the messages live: what a back end promises (``protocol``), and one folder for each of the three that keep it.

| module | what it holds |
| --- | --- |
| ``protocol``, ``operator_protocol`` | what a back end promises to producers and consumers, and to operators |
| ``records`` | the types that a back end hands out |
| ``open``, ``options`` | from a URL to a storage; what each back end is opened with |
| ``memory`` | a dictionary and a heap; the others are compared with it |
| ``sqlite`` | a file |
| ``postgres`` | a server |
| ``statements`` | what SQLite and PostgreSQL share, and which of their files holds what |
| ``in_flight_limits`` | how many more messages may be in flight |
| ``migrate``, ``table_names`` | numbered steps of the schema; names of tables and indexes |
"""
