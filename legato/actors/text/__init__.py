"""Text in and out: vocabularies, chat templates, byte decoding, stop strings."""
