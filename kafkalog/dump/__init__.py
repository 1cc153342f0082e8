"""What kafka-dump-log prints, line for line, on both streams."""
