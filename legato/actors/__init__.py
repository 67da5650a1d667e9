"""Who does what, and when: the actors and their supervision."""
