# A cell on GPUs: SGLang engine, Megatron-core trainer, Mooncake transfer engine, and the agent that switches them.
# Build from the root of the checkout: docker build -f docker/cell.Dockerfile -t gyre-cell .
FROM nvidia/cuda:13.0.1-devel-ubuntu24.04

ENV PYTHONUNBUFFERED=1 \
    PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1 \
    DEBIAN_FRONTEND=noninteractive \
    HF_HUB_OFFLINE=1 \
    GYRE_HOME=/var/lib/gyre \
    PATH=/opt/venv/bin:$PATH

RUN apt-get update \
    && apt-get install -y --no-install-recommends \
        libcurl4 libibverbs1 libnuma1 librdmacm1 python3 python3-dev python3-venv \
    && rm -rf /var/lib/apt/lists/* \
    && python3 -m venv /opt/venv \
    && useradd --uid 10001 --create-home gyre \
    && install -d -o gyre -g gyre -m 0700 /var/lib/gyre

# SGLang first: it names the torch build that its kernels were compiled for.
RUN pip install sglang==0.5.23 \
    && pip install megatron-core==0.16.1 mooncake-transfer-engine-cuda13==0.3.13.post1 \
    && pip install "psycopg[binary]==3.3.9" psycopg-pool==3.3.3 zstandard==0.25.0

WORKDIR /opt/gyre
COPY --chown=root:root . .
USER 10001:10001
VOLUME ["/var/lib/gyre"]
CMD ["python", "-m", "trainers.launch.host"]
