"""Rules taken out of the engine one by one, to see that each is missed."""
