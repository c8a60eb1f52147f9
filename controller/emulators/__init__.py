"""Where are the worlds that the demo and the tests rent from?

`runpod` answers as Runpod's API, its proxy and the model servers behind it do; `llama` runs a real llama.cpp server
on a tiny model; `serve` puts an emulator on a socket. They are written from the providers' own documents and import
nothing else of this project, so that one misreading cannot agree with itself.
"""
