"""OpenAI's wire formats as data: bodies in, events out, no I/O.

Reading a body is a pure function; shaping an answer is an object that turns deltas into
bytes. Sockets, engines and clocks live above.
"""
