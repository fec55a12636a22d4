#!/bin/sh
# Installs the programs, outside Python, that the tests run for real: a browser and Prometheus; with the
# argument `image` also what builds and runs the container image.
set -eu
missing=""
need() { # need PROGRAM PACKAGE…
    program=$1
    shift
    command -v "$program" >/dev/null || missing="$missing $*"
}
need chromium chromium fonts-dejavu-core
need prometheus prometheus
if [ "${1:-}" = image ]; then
    need podman podman runc netavark aardvark-dns iptables catatonit
    need buildah buildah
    need debootstrap debootstrap
fi
[ -z "$missing" ] && exit 0
if command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
    echo "installing$missing"
    apt-get update -qq
    # shellcheck disable=SC2086  # a list of packages
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
else
    echo "the tests need$missing: install them (Debian: apt-get install$missing) and run this again" >&2
    exit 1
fi
