"""Remote exporter: sends items from many processes to few, in acknowledged batches over gRPC streams.

| module | what it does |
| --- | --- |
| ``wire`` | the messages |
| ``routing`` | decides which server gets an item |
| ``peer`` | one server seen from a client: its stream, and the unacknowledged batches |
| ``client`` | the exporter |
| ``received`` | remembers received batches, so that none is handled twice |
| ``server`` | the server |
"""
