"""What keeps strangers from reading, freezing or starving the server."""
