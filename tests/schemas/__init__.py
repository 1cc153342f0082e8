"""How the tables of ``kafkalog/messages/schemas`` are made from Kafka's sources."""
