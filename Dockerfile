# CPU only, no compiler and no apt step: every dependency is a wheel.
FROM python:3.11-slim AS build
WORKDIR /build
COPY requirements.txt ./
RUN python -m venv /opt/venv
RUN /opt/venv/bin/python -m pip install --no-cache-dir --disable-pip-version-check -r requirements.txt

FROM python:3.11-slim
LABEL org.opencontainers.image.title="InferenceGym" org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/venv /opt/venv
WORKDIR /app
# Folder by folder, so that the same image results where .dockerignore is not sent along (`openenv push`).
COPY inferencegym ./inferencegym
COPY simulator ./simulator
COPY env ./env
COPY grader ./grader
COPY agents ./agents
COPY server ./server
COPY openenv.yaml README.md ./
# A numeric user needs no account in the image; libraries that write caches find a home they may write to.
ENV PATH=/opt/venv/bin:$PATH HOME=/tmp PYTHONUNBUFFERED=1 PORT=7860
# Clients come through a proxy in a private network (a Space, a load balancer), which names them.
ENV INFERENCEGYM_FORWARDED_ALLOW_IPS=127.0.0.1,10.0.0.0/8,172.16.0.0/12,192.168.0.0/16
# The user may not write here, so the bytecode is made now.
RUN python -m compileall -q .
USER 1000:1000
EXPOSE 7860
HEALTHCHECK --interval=30s --timeout=5s --start-period=20s --retries=3 \
  CMD ["python", "-c", "from os import environ as e; from urllib.request import urlopen; urlopen('http://127.0.0.1:' + e.get('INFERENCEGYM_PORT', e['PORT']) + '/health', timeout=4)"]
CMD ["python", "-m", "server.app"]
