"""Apache Kafka's storage layer: log directories as columns, no broker, no JVM."""

__version__ = "0.1.0"
