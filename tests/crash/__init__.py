"""What a failing disk, and a power cut at any moment, leave of a log."""
