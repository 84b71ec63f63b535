"""structured_assertions: conditions on input, output and expected output, in a small language of its own."""
