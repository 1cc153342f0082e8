"""How the tables of ``kafkalog/formats/schemas`` are made from Kafka's sources."""
