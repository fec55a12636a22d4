# Readtrace's service. `docker build .` makes the CPU image, `--build-arg RUNTIME=gpu` the one for NVIDIA cards.

# BASE is the image below both stages. The GPU image runs on the plain one too, because the CUDA libraries then come
# as wheels and the driver from the host. A site that keeps its own CUDA base (version matched to its drivers, layers
# shared on its nodes) names it here; it needs Python 3.11 or later as `python`, and CUDA_PACKAGES="" leaves the wheels out.
ARG BASE=python:3.11-slim
ARG RUNTIME=cpu

FROM ${BASE} AS build
ARG RUNTIME
ARG CUDA_PACKAGES="onnxruntime-gpu[cuda,cudnn]"
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_WARN_SCRIPT_LOCATION=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /build
RUN python -m venv /opt/readtrace
ENV PATH=/opt/readtrace/bin:$PATH
COPY pyproject.toml constraints.txt ./
# The dependencies alone first: their layer stays cached while the service's code changes.
RUN --mount=type=cache,target=/root/.cache/pip \
    python -c "import tomllib; project = tomllib.load(open('pyproject.toml', 'rb'))['project']; print(*project['dependencies'], *project['optional-dependencies']['${RUNTIME}'], sep='\n')" > requirements.txt \
    && if [ "${RUNTIME}" = gpu ]; then echo "${CUDA_PACKAGES}" >> requirements.txt; fi \
    && pip install --constraint constraints.txt --requirement requirements.txt
COPY README.md ./
COPY app app
COPY models models
COPY export export
RUN --mount=type=cache,target=/root/.cache/pip \
    pip install --no-deps . \
    && pip check

FROM ${BASE}
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="readtrace" \
      org.opencontainers.image.description="Document classification with small recurrent networks that show how they read" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=build /opt/readtrace /opt/readtrace
# Tells the loader where the wheels put CUDA and cuDNN; in the CPU image the list is empty.
RUN find /opt/readtrace -path '*/nvidia/*/lib' -type d > /etc/ld.so.conf.d/readtrace-cuda.conf && ldconfig
COPY --chmod=0555 deploy/healthcheck.py /opt/readtrace/healthcheck.py
# Readable whatever the umask of the checkout was; a volume mounted at /bundles replaces the shipped models.
COPY --chmod=0555 bundles /bundles
# ONNX Runtime would otherwise report its use to its maker.
ENV ORT_DISABLE_TELEMETRY=1 \
    PATH=/opt/readtrace/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    READTRACE_BUNDLES=/bundles \
    READTRACE_PORT=8000
WORKDIR /
# A number, so that an orchestrator's "must not run as root" can be checked without the image's user list.
USER 10001:10001
EXPOSE 8000
STOPSIGNAL SIGTERM
# Readiness, not liveness: it classifies a known document through the queue, so a container whose web server still
# answers while its engine does not is unhealthy. The timeout leaves room for the service's own limit of 5 seconds.
HEALTHCHECK --interval=10s --timeout=8s --start-period=120s --retries=3 \
    CMD ["python", "-I", "/opt/readtrace/healthcheck.py"]
ENTRYPOINT ["readtrace"]
CMD ["serve", "--host", "0.0.0.0"]
