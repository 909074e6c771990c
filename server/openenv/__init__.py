"""The OpenEnv protocol: REST, WebSocket and MCP."""
