"""What :mod:`drainq._native` holds; the documentation is in the module itself (``help``)."""

__all__ = ["__version__"]

__version__: str
