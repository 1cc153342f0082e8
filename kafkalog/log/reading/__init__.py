"""Reading of a log's directory that a broker, or nobody, is writing to."""
