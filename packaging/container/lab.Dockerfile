# The lab for clusters. The image has the program with the simulator and the namespace backend, and Snakemake, which the
# Kubernetes executor runs inside the image.
#   buildah build -t mpdccp-lab -f packaging/container/lab.Dockerfile .
#   podman run mpdccp-lab mpdccp lab list
# The namespace backend also needs: --cap-add NET_ADMIN --cap-add SYS_ADMIN --device /dev/net/tun
FROM rust:1.95-slim-bookworm AS build
WORKDIR /src
COPY . .
RUN cargo build --release --locked -p mpdccp

FROM python:3.12-slim-bookworm
RUN apt-get update && apt-get install -y --no-install-recommends iproute2 && rm -rf /var/lib/apt/lists/* \
    && pip install --no-cache-dir 'snakemake>=9,<10' snakemake-executor-plugin-kubernetes snakemake-storage-plugin-s3
COPY --from=build /src/target/release/mpdccp /usr/local/bin/mpdccp
CMD ["mpdccp", "lab", "list"]
