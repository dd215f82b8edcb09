#!/bin/sh
# What a superuser has to do once: a role that row-level security binds, and its database.
set -eu
psql -v ON_ERROR_STOP=1 -v password="$LOOKFAR_PASSWORD" -U postgres <<'SQL'
CREATE ROLE lookfar LOGIN PASSWORD :'password';
CREATE DATABASE lookfar OWNER lookfar;
SQL
