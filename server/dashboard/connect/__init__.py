"""Connect: how to call the server from elsewhere."""
