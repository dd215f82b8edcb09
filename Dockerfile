# Lookfar with git and the driver for PostgreSQL, as a user who owns nothing but /data.
#
#     docker build -t lookfar .
#     docker run --rm -v "$PWD:/docs:ro" -v lookfar:/data lookfar search "how to begin"
#
# Everything that is written goes to /data, and temporary files to /tmp, so that the rest may be
# read-only: docker run --read-only --tmpfs /tmp ...
# scripts/container.py runs the steps of this file without Docker.
FROM python:3.13-slim AS built
WORKDIR /build
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN pip wheel --no-cache-dir --wheel-dir /wheels ".[postgres]"

FROM python:3.13-slim
LABEL org.opencontainers.image.title="Lookfar" \
      org.opencontainers.image.description="A local-first retrieval server for AI agents: one index over documents and code, with exact, verified citations." \
      org.opencontainers.image.licenses="MIT AND Apache-2.0" \
      org.opencontainers.image.source="https://github.com/lookfar/lookfar" \
      io.modelcontextprotocol.server.name="io.github.lookfar/lookfar"
RUN apt-get update && apt-get install --yes --no-install-recommends git && rm -rf /var/lib/apt/lists/*
RUN useradd --uid 10001 --home-dir /data --no-create-home lookfar && mkdir /data /docs && chown lookfar /data
RUN --mount=type=bind,from=built,source=/wheels,target=/wheels \
    pip install --no-cache-dir --no-index --find-links /wheels "lookfar[postgres]"
# A number, so that Kubernetes can see that it is not root.
USER 10001
ENV HOME=/data LOOKFAR_DATA_DIR=/data PYTHONUNBUFFERED=1
WORKDIR /docs
VOLUME /data
EXPOSE 8377
# For lookfar serve; other commands end before the first check, or turn it off, as compose.yaml does.
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "import urllib.request as r; r.build_opener(r.ProxyHandler({})).open('http://127.0.0.1:8377/livez', timeout=4)"]
ENTRYPOINT ["lookfar"]
CMD ["--help"]
