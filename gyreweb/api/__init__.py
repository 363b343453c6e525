"""REST API v1: launch and watch runs by machine. Errors are RFC 9457 problems; lists page by key."""
