"""Generator of the tables of ``kafkalog/messages/schemas`` from Kafka's sources."""
