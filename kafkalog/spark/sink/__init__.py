"""Writing of tables to log directories: ``df.write.format("kafkalog")`` and streams."""
