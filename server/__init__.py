"""The HTTP and WebSocket server. It knows environments only through :mod:`inferencegym.registry`."""
