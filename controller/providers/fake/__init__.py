"""A provider in plain Python, without HTTP: for tests of what uses the ports, and to show what the ports promise."""
