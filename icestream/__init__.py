"""icestream: Kafka topics, change logs and files become Apache Iceberg tables, continuously and exactly once."""

__version__ = "0.1.0"

__all__ = ["__version__"]
