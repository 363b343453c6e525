# Control plane of Gyre: web, workers, scheduler, proxy. No torch.
# Build from the root of the checkout: docker build -f docker/control-plane.Dockerfile -t gyre-control-plane .
FROM python:3.11-slim-bookworm

ENV PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1 \
    LITELLM_LOCAL_MODEL_COST_MAP=True \
    GYRE_HOME=/var/lib/gyre

RUN apt-get update \
    && apt-get install -y --no-install-recommends bubblewrap libseccomp2 \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 10001 --create-home gyre \
    && install -d -o gyre -g gyre -m 0700 /var/lib/gyre

WORKDIR /opt/gyre
COPY locks/control-plane.lock locks/
RUN pip install --no-deps -r locks/control-plane.lock

COPY --chown=root:root . .
RUN python -c "from agents.tasksets.bundled import provide_quickstart; provide_quickstart()"
USER 10001:10001
VOLUME ["/var/lib/gyre"]
EXPOSE 8700
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s \
    CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8700/login/', timeout=2)"]
CMD ["python", "-m", "uvicorn", "gyreweb.asgi:application", "--host", "0.0.0.0", "--port", "8700", "--no-access-log"]
