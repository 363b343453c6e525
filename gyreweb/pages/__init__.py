"""Pages for people: server-rendered HTML, each with a JSON twin in the API."""
