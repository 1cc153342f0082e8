"""Producer state: sequences, transactions and their snapshots."""
