"""Prediction of what a broker does to its log directories when it starts."""
