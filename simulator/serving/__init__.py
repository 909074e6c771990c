"""One LLM inference engine, a second at a time."""
