# lookfar with the driver for PostgreSQL, as a user who owns nothing but its home.
#
#     docker build -t lookfar .
#     docker run --rm -v "$PWD/docs:/docs:ro" -v lookfar:/data lookfar search "how to begin" /docs
FROM python:3.13-slim AS built
WORKDIR /build
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN pip wheel --no-cache-dir --wheel-dir /wheels ".[postgres]"

FROM python:3.13-slim
RUN useradd --create-home --uid 10001 lookfar && mkdir /data && chown lookfar /data
RUN --mount=type=bind,from=built,source=/wheels,target=/wheels \
    pip install --no-cache-dir --no-index --find-links /wheels "lookfar[postgres]"
USER lookfar
ENV LOOKFAR_DATA_DIR=/data PYTHONUNBUFFERED=1
VOLUME /data
EXPOSE 8377
ENTRYPOINT ["lookfar"]
CMD ["--help"]
