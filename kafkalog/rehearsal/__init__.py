"""Loading of a log on a disk of its own, which predicts what a broker does to it."""
