#!/bin/sh
# Installs the programs, outside Python, that the tests run for real: a browser and Prometheus.
set -eu
missing=""
command -v chromium >/dev/null || missing="$missing chromium fonts-dejavu-core"
command -v prometheus >/dev/null || missing="$missing prometheus"
[ -z "$missing" ] && exit 0
if command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
    echo "installing$missing"
    apt-get update -qq
    # shellcheck disable=SC2086  # a list of packages
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
else
    echo "the tests need$missing: install them (Debian: apt-get install$missing) and run make test again" >&2
    exit 1
fi
