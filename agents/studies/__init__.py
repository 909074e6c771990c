"""Programs that answer a question about the environments once; nothing imports them."""
