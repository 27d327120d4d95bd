"""Programs to profile, each a module; in the folders what they are made of.

Of gpuledger they import `capture.window` and nothing else; `gpuledger bench` runs them.
"""
