#!/usr/bin/env bash
# Installs what the tests need besides Python, on Debian and Ubuntu: a Chromium and strace.
# Elsewhere, or without the right to install, it does nothing; tests then say what they miss.
set -euo pipefail

missing=()
command -v chromium >/dev/null || command -v google-chrome >/dev/null || missing+=(chromium)
command -v strace >/dev/null || missing+=(strace)
((${#missing[@]})) || exit 0

become=()
if [[ $(id -u) != 0 ]]; then
    sudo -n true 2>/dev/null || exit 0
    become=(sudo)
fi
command -v apt-get >/dev/null || exit 0
"${become[@]}" apt-get update -qq
"${become[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -qq -y --no-install-recommends "${missing[@]}" >/dev/null
