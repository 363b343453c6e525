"""Composition root: settings, ASGI, Celery, REST, pages, push, and the supervisor behind `make up`."""
