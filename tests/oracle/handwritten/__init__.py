"""Handwritten scenarios, each of which shows one rule of Kafka's storage engine.

    python -m tests.oracle.handwritten OUT/

The bytes of the batches are added by ``player/run.sh prepare-all OUT/ PREPARED/``.
"""
