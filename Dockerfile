# The service in a container. compose.yaml runs it beside PostgreSQL; docs/guides/operations.md explains both.
FROM python:3.11-slim AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY osamd osamd
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.11-slim
COPY constraints.txt /tmp/constraints.txt
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir -c /tmp/constraints.txt "$(ls /wheels/*.whl)[service]" \
    && useradd --create-home osamd \
    && install --directory --owner=osamd /state /cache
USER osamd
ENV OSAMD_CACHE_DIR=/cache
# Compile the learner once, so that the service is ready at once on processors like this one.
RUN python -c "import osamd; learner = osamd.OSAMD(features=2); learner.tell(learner.ask([0.0, 0.0]), 1)"
WORKDIR /state
VOLUME /state
EXPOSE 8000
HEALTHCHECK --start-period=60s CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/readyz')"]
ENTRYPOINT ["osamd"]
CMD ["serve", "--dir", "/state/stream", "--host", "0.0.0.0", "--port", "8000"]
