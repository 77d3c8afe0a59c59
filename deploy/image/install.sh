#!/bin/sh
# Installs kipwatch into a Debian 12 for an image, as root, from the folder of the sources: `install.sh feeder` or
# `install.sh application`. The Dockerfile runs it, and so does the test that builds images without Docker.
set -eu

case "${1-}" in
feeder) lock=requirements-feed.lock java= ;;
application) lock=requirements-run.lock java=openjdk-17-jre-headless ;;
*) echo "name what to install: install.sh feeder|application" >&2; exit 2 ;;
esac

export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
# shellcheck disable=SC2086  # no package, or one
apt-get install -qq --yes --no-install-recommends python3 python3-venv ca-certificates $java
rm -rf /var/lib/apt/lists/*

python3 -m venv /opt/kipwatch
/opt/kipwatch/bin/pip install --quiet --no-cache-dir --require-hashes -r "$lock"
/opt/kipwatch/bin/pip install --quiet --no-cache-dir --no-deps --no-build-isolation .
ln -s /opt/kipwatch/bin/kipwatch /usr/local/bin/kipwatch

useradd --uid 10001 --shell /usr/sbin/nologin --create-home --home-dir /var/lib/kipwatch kipwatch
# A volume that is mounted at the checkpoint takes over the folder's owner.
install --directory --owner kipwatch --group kipwatch /var/lib/kipwatch/checkpoint
# So that a container starts without fetching jars, and without compiling on processors like this one. As root: a
# process uses compiled code of root or of its own user alone, and the feeder is root.
XDG_CACHE_HOME=/var/cache/kipwatch kipwatch prepare
# Further jars, such as those of the demo, are fetched by the user: each process compares them with their digests.
mkdir --parents /var/cache/kipwatch/kipwatch/jars
chown --recursive kipwatch:kipwatch /var/cache/kipwatch/kipwatch/jars
