"""kafka-dump-log: the lines that Kafka's tool prints, or the same as data."""
