"""What does gpuwarden cost, and how soon does it act, on this machine?

`python -m benchmarks` measures the targets of the design and prints one table. Everything runs on loopback, within
limits, and every process that it starts is ended by its number. Walls depend on what else the machine does, so CPU
seconds and ratios of one run are measured where they can be; a row without a target is for information.
"""
