"""Where the messages live: what a back end does (``base``), and what differs between memory, a file and a server.

| module | what it holds |
| --- | --- |
| ``base`` | what a back end does, and what all of them do in the same way |
| ``records`` | the types that a back end gets and hands out |
| ``open``, ``options`` | from a URL to a storage; what each back end is opened with |
| ``memory`` | an SQLite database without a file |
| ``sqlite`` | a file |
| ``postgres`` | a server |
| ``in_flight_limits`` | how many more messages may be in flight |
| ``migrate``, ``table_names`` | numbered steps of the schema; names of tables and indexes |
"""
