#!/usr/bin/env bash
# Creates the release of a tag on GitHub, with the notes of the changelog and the built files.
#
#     bash scripts/announce.sh v0.2.0 dist
#
# With ANNOUNCE=echo it only shows the command. Needs gh and GH_TOKEN.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

tag=${1:?the tag}
folder=${2:?the folder with the files}

notes=$(mktemp)
trap 'rm -f "$notes"' EXIT
python3 scripts/release.py notes "${tag#v}" >"$notes"
(cd "$folder" && sha256sum --check --quiet SHA256SUMS)

options=(--verify-tag --title "Lookfar ${tag#v}" --notes-file "$notes")
if [[ "$tag" =~ (a|b|rc)[0-9]+$ ]]; then
    options+=(--prerelease)
fi
${ANNOUNCE:-gh} release create "$tag" "${options[@]}" "$folder"/*
