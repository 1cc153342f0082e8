"""What a log accepts: the checks and changes that an append goes through."""
