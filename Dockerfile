# Training in a container. For NVIDIA's GPUs: docker build --build-arg JAX='jax[cuda13]' -t rebel-jax .
# Runs belong on a volume: docker run -v "$PWD/runs:/runs" rebel-jax --output-dir /runs/1 --requeue
FROM python:3.13-slim
ARG JAX=jax
COPY . /src
RUN pip install --no-cache-dir "$JAX" '/src[plots]' && rm -r /src
WORKDIR /runs
ENTRYPOINT ["rebel-train"]
