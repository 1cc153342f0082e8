"""Log directories made from others: salvaged, healed and restored."""
