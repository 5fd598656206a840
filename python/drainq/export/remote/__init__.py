"""Items from many processes to few: batches over gRPC streams, each acknowledged.

| module | what it alone does |
| --- | --- |
| ``wire`` | the messages |
| ``routing`` | which server gets an item |
| ``peer`` | one server seen from a client: its stream, and what is under way |
| ``client`` | the exporter |
| ``received`` | what a server remembers, so that nothing is handled again |
| ``server`` | the server |
"""
