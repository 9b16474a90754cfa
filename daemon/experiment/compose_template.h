// The template of the compose file, in which MakeCompose replaces the words between @. Apart from
// the values of an experiment, it equals the docker-compose.yml of the source tree without its
// build sections, because the image has already been built (docker compose build).
// tests/e2e/compose_test.py compares the two.
#pragma once

namespace atolld {

inline constexpr char kComposeTemplate[] = R"yaml(# @TITLE@
# Written by `atoll experiment compose`; the image is made by `docker compose build` in Atoll's
# source tree. docs/experiments.md, "Compose", says how it works.
#
#   docker compose -f @FILE@ up
version: "3.7"

services:
  coordinator:
    image: atoll:local
    command: ["coordinator"]
    init: true
    restart: on-failure
    stop_grace_period: 30s
    volumes:
      - coordinator:/data
      - parties:/parties
      - invitations:/invitations
@MOUNTS@
    networks:
      run:
      view:
        aliases: ["dashboard"]
    ports:
      - "127.0.0.1:${ATOLL_DASHBOARD:-@DASHBOARD@}:7080"
    healthcheck:
      test: ["CMD", "/usr/local/lib/atoll/entrypoint", "health"]
      interval: 5s
      timeout: 5s
      retries: 6
      start_period: 300s
    cap_drop: ["ALL"]
    security_opt: ["no-new-privileges"]

  peer:
    image: atoll:local
    command: ["peer"]
    init: true
    restart: "on-failure:10"
    stop_grace_period: 30s
    depends_on:
      coordinator:
        condition: service_healthy
    scale: @PEERS@
    environment:
      ATOLL_LINES: @LINES@
      ATOLL_HOSTED: @HOSTED@
      ATOLL_SEED: "@SEED@"
    volumes:
      - /data
      - parties:/parties:ro
      - invitations:/invitations
      - orders:/orders:ro
@MOUNTS@
    networks:
      run:
    user: root
    cap_drop: ["ALL"]
    cap_add: ["NET_ADMIN", "SETUID", "SETGID", "SETPCAP", "KILL"]
@DEVICES@
    sysctls:
      net.ipv4.ip_forward: 1
      net.ipv4.ip_early_demux: 0
      net.ipv4.conf.all.accept_local: 1
      net.ipv4.conf.all.rp_filter: 0
      net.ipv4.conf.default.rp_filter: 0

  chaos:
    image: atoll:local
    command: ["chaos"]
    init: true
@CHAOS_PROFILE@
    environment:
      ATOLL_SEED: "@SEED@"
      ATOLL_KILL_EVERY: "@KILL_EVERY@"
      ATOLL_PAUSE_EVERY: "@PAUSE_EVERY@"
      ATOLL_CUT_EVERY: "@CUT_EVERY@"
      ATOLL_DOWN: "@DOWN@"
    volumes:
      - invitations:/invitations:ro
      - orders:/orders
    network_mode: none
    cap_drop: ["ALL"]
    security_opt: ["no-new-privileges"]

  metrics:
    image: atoll-metrics:local
    init: true
    profiles: ["metrics"]
    restart: on-failure
    volumes:
      - metrics:/data
    networks:
      view:
    ports:
      - "127.0.0.1:${ATOLL_PROMETHEUS:-9090}:9090"
    cap_drop: ["ALL"]
    security_opt: ["no-new-privileges"]

networks:
  run:
    internal: true
  view:

volumes:
  coordinator:
  parties:
  invitations:
  orders:
  metrics:
)yaml";

}  // namespace atolld
