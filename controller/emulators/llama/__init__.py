"""How does a real model server come to run behind an emulated pod, in a few megabytes?

`tiny_gguf` writes a model whose output is readable words; running this package serves a model file with xllamacpp,
which is llama.cpp's own HTTP server in a wheel.
"""
