"""The recording proxy: a raw ASGI process that never imports Django."""
