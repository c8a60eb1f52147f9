"""What goes on in the background?

One file a task, each one pass at a time: it reads the book and the view anew, lets a rule of `core` decide, and writes
or asks the executor. Tasks do not import each other; they meet in the store. How they are run is `supervision`'s
matter.
"""
