"""The tiny MiniMax-H3: its weights, its requests, and the recorders around the reference implementations."""
