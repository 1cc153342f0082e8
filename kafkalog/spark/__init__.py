"""Log directories on Spark: a source, a stream, functions and a job."""
