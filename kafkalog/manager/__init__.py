"""Management of all logs in log directories, as in a broker."""
