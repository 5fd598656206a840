"""The messages of SkyWalking's metrics export service, built from field names and numbers without generated files.

The service has no package, so a method's path is ``/MetricExportService/export``. Its messages differ between versions
of SkyWalking; these are the published ones up to 9. An exporter finds fields by name, so the generated module of
another version can take their place.

Source: ``metric-exporter.proto`` in SkyWalking.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from drainq.export.optional_packages import extra

EXPORT, SUBSCRIPTION = "/MetricExportService/export", "/MetricExportService/subscription"
INCREMENT, TOTAL = 0, 1

_FIELDS: dict[str, list[tuple[str, int, str]]] = {
    "ExportMetricValue": [
        ("metricName", 1, "string"),
        ("entityName", 2, "string"),
        ("entityId", 3, "string"),
        ("type", 4, "ValueType"),
        ("timeBucket", 5, "int64"),
        ("longValue", 6, "int64"),
        ("doubleValue", 7, "double"),
        ("longValues", 8, "repeated int64"),
    ],
    "SubscriptionMetric": [("metricName", 1, "string"), ("eventType", 2, "EventType")],
    "SubscriptionsResp": [("metrics", 1, "repeated SubscriptionMetric")],
    "SubscriptionReq": [],
    "ExportResponse": [],
}
_ENUMS = {"ValueType": ["LONG", "DOUBLE", "MULTI_LONG"], "EventType": ["INCREMENT", "TOTAL"]}
_TYPES = {"string": 9, "int64": 3, "double": 1}  # FieldDescriptorProto.Type
_ENUM, _MESSAGE = 14, 11


def messages() -> Any:
    """Return the message classes, as attributes of an object.

    Raises:
        ImportError: the extra ``grpc`` is not installed.
    """
    descriptors, pools, factory = extra(
        "grpc", "google.protobuf.descriptor_pb2", "google.protobuf.descriptor_pool", "google.protobuf.message_factory"
    )
    file = descriptors.FileDescriptorProto(name="metric-exporter.proto", syntax="proto3")
    for enum, names in _ENUMS.items():
        values = [descriptors.EnumValueDescriptorProto(name=name, number=n) for n, name in enumerate(names)]
        file.enum_type.add(name=enum, value=values)
    for message, fields in _FIELDS.items():
        described = file.message_type.add(name=message)
        for name, number, kind in fields:
            of = kind.removeprefix("repeated ")
            field = described.field.add(name=name, number=number, label=3 if of != kind else 1)
            if of in _TYPES:
                field.type = _TYPES[of]
            else:
                field.type, field.type_name = (_ENUM if of in _ENUMS else _MESSAGE), f".{of}"
    pool = pools.DescriptorPool()  # a separate pool: another part of the program may know a newer version
    pool.Add(file)
    classes = {name: factory.GetMessageClass(pool.FindMessageTypeByName(name)) for name in _FIELDS}
    return SimpleNamespace(**classes)
