"""Django settings. Every deployment difference is an environment variable; `docs/configuration.md` lists them."""

import secrets
from datetime import timedelta
from urllib.parse import unquote, urlsplit

from agents.room import DEFAULT_MIN_FREE_MB, MIN_FREE_VARIABLE
from gyreweb import env, homefolder, reach

BASE_DIR = env.REPO_ROOT
GYRE_HOME = homefolder.prepared(env.home())
DEBUG = env.debug()

HOST = env.text("GYRE_HOST", "127.0.0.1")
WEB_PORT = env.web_port()
PROXY_PORT = env.proxy_port()
env.integer(MIN_FREE_VARIABLE, DEFAULT_MIN_FREE_MB, lowest=1)  # only checked: agents.room reads it in every process
PROXY_SOCKET = GYRE_HOME / "run" / "proxy.sock"


def _secret_key() -> str:
    """`GYRE_SECRET_KEY`, or a key made once and kept in GYRE_HOME."""
    if given := env.text("GYRE_SECRET_KEY"):
        return given
    path = GYRE_HOME / "secret_key"
    if not path.exists():
        path.touch(mode=0o600, exist_ok=True)
        path.write_text(secrets.token_urlsafe(50))
    return path.read_text().strip()


SECRET_KEY = _secret_key()
ALLOWED_HOSTS = [h for h in env.text("GYRE_ALLOWED_HOSTS", f"localhost,127.0.0.1,[::1],{HOST}").split(",") if h]
CSRF_TRUSTED_ORIGINS = [o for o in env.text("GYRE_TRUSTED_ORIGINS").split(",") if o]

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.postgres",
    "channels",
    "rest_framework",
    "django_filters",
    "drf_spectacular",
    "django_htmx",
    "template_partials",
    "csp",
    "axes",
    "agents",
    "trainers",
    "scheduler",
    "gyreweb.webhooks",
    "gyreweb",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "gyreweb.nul.refuse_nul",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "axes.middleware.AxesMiddleware",
]
AUTHENTICATION_BACKENDS = ["axes.backends.AxesStandaloneBackend", "django.contrib.auth.backends.ModelBackend"]

#: The module that composes the settings of a whole run (agents.whole_config).
RUN_CONFIG = "scheduler.config"
ROOT_URLCONF = "gyreweb.urls"
ASGI_APPLICATION = "gyreweb.asgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]


def _database() -> dict[str, object]:
    """From `DATABASE_URL`. The embedded server sets that variable itself (gyreweb.embedded)."""
    # For processes with many threads that touch the database briefly.
    size = env.db_pool_size()
    pool = {"pool": {"min_size": -(-size // 2), "max_size": size, "timeout": 30}} if size else {}
    url = urlsplit(env.text("DATABASE_URL", "postgresql://postgres@127.0.0.1:5432/gyre"))
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(url.path.lstrip("/")) or "gyre",
        "USER": unquote(url.username or ""),
        "PASSWORD": unquote(url.password or ""),
        "HOST": unquote(url.hostname or ""),
        "PORT": url.port or 5432,
        "CONN_MAX_AGE": 0,
        # Threads of a pool repeat what fails and replace broken connections (agents.executions.leases.persistently).
        "CONN_HEALTH_CHECKS": not size,
        "OPTIONS": {"connect_timeout": 5, **pool},
    }


DATABASES = {"default": _database()}
REDIS_URL = env.text("REDIS_URL", "redis://127.0.0.1:6379/0")
CHANNEL_LAYERS = {
    "default": {"BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer", "CONFIG": {"hosts": [REDIS_URL]}}
}

USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en-us"
STATIC_URL = "/static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
STATIC_ROOT = GYRE_HOME / "staticfiles"
STATIC_ROOT.mkdir(parents=True, exist_ok=True)
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = DEBUG
LOGIN_URL = "/login/"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "/login/"

# Safe by default. Plain http on loopback needs GYRE_HTTPS=0, which `make up` sets for its own address.
HTTPS = env.https()
BEHIND_PROXY = env.behind_proxy()
if not HTTPS and (problem := reach.problem_with_plain_http(HOST, HTTPS, BEHIND_PROXY)):
    raise env.BadEnvironment(problem)
SECURE_SSL_REDIRECT = HTTPS
SESSION_COOKIE_SECURE = HTTPS
CSRF_COOKIE_SECURE = HTTPS
SECURE_HSTS_SECONDS = 31_536_000 if HTTPS else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = HTTPS
SECURE_HSTS_PRELOAD = HTTPS
SECURE_CONTENT_TYPE_NOSNIFF = True
X_FRAME_OPTIONS = "DENY"
if BEHIND_PROXY:
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": ["'self'"],
        "script-src": ["'self'"],
        "style-src": ["'self'"],
        "img-src": ["'self'", "data:"],
        "connect-src": ["'self'"],
        "object-src": ["'none'"],
        "base-uri": ["'none'"],
        "form-action": ["'self'"],
        "frame-ancestors": ["'none'"],
    }
}

# Guessing passwords: a user name is closed for a while to the address that failed so often, also in the admin.
AXES_FAILURE_LIMIT = 10
AXES_COOLOFF_TIME = timedelta(minutes=5)
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]
AXES_RESET_ON_SUCCESS = True
AXES_DISABLE_ACCESS_LOG = True
AXES_VERBOSE = False
AXES_CLIENT_IP_CALLABLE = "gyreweb.pages.views.sign_in.client_address"
AXES_LOCKOUT_CALLABLE = "gyreweb.pages.views.sign_in.locked_out"

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "gyreweb.api.auth.ApiTokenAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["gyreweb.api.auth.HasScope", "gyreweb.api.query.KnownQuery"],
    "URL_FORMAT_OVERRIDE": None,
    "DEFAULT_SCHEMA_CLASS": "gyreweb.api.schema.ScopedSchema",
    "EXCEPTION_HANDLER": "gyreweb.api.problems.exception_handler",
    "DEFAULT_PARSER_CLASSES": [
        "gyreweb.api.parsers.JSONBodyParser",
        "rest_framework.parsers.FormParser",
        "rest_framework.parsers.MultiPartParser",
    ],
    "DEFAULT_RENDERER_CLASSES": ["gyreweb.api.rendering.StoredNumbersRenderer"],
    "TEST_REQUEST_DEFAULT_FORMAT": "json",
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Gyre API",
    "DESCRIPTION": "Launch and watch elastic reinforcement-learning runs.",
    "VERSION": "1",
    "SERVE_INCLUDE_SCHEMA": False,
}

CELERY_BROKER_URL = REDIS_URL
CELERY_TASK_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = False
CELERY_TASK_DEFAULT_QUEUE = "control"
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
# Work is found by database lease, so a message may be lost or doubled; a long timeout only saves noise.
# A send to a broker that is away fails at once: whoever sends has other work, and the wake is sent again later.
CELERY_BROKER_TRANSPORT_OPTIONS = {
    "visibility_timeout": 86_400,
    "unacked_restore_limit": 100,
    "max_retries": 0,
    "interval_start": 0,
    "interval_step": 0,
    "interval_max": 0,
}
CELERY_TASK_ROUTES = {
    "agents.tasks.run_execution": {"queue": "executions"},
    "agents.tasks.evaluate_execution": {"queue": "evaluation"},
    "scheduler.tasks.launch_cells": {"queue": "cells"},
}

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(name)s %(message)s"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["stderr"], "level": env.log_level()},
    # A request that is refused (401, 404, 422 …) has told its client why: only server errors are logged.
    "loggers": {"django.request": {"level": "ERROR"}, "axes": {"level": "WARNING"}},
}
