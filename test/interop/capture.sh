#!/usr/bin/env bash
# Renews testdata/remoting from the real clients: Java (both header types) and Go, through the recording proxy in capture/.
#
#   capture.sh        against a tidemq built from this tree and started here; writes what the clients send
#
# Against another broker that is already running (Apache RocketMQ: name server first, broker last; both must be the addresses
# that its routes name); writes both sides:
#
#   TIDEMQ_CAPTURE_UPSTREAMS="HOST:PORT HOST:PORT" TIDEMQ_CAPTURE_BROKER=rocketmq-5.5.0 capture.sh
#
# TIDEMQ_CAPTURE_OUT names another directory to write to. Needs go, java and mvn.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/tidemq-capture.XXXXXX")
. "$here/lib.sh"
out=${TIDEMQ_CAPTURE_OUT:-$root/testdata/remoting}
broker_pid=
finish() {
  status=$?
  if [ -n "$broker_pid" ]; then
    kill "$broker_pid" 2>/dev/null || true
    wait "$broker_pid" || { echo "capture.sh: the broker ended with $?" >&2; status=1; }
  fi
  if [ $status = 0 ]; then rm -rf "$work"; else echo "capture.sh: failed; logs are in $work" >&2; fi
  exit $status
}
trap finish EXIT

build_java
(cd "$root" && go build -o "$work/capture" ./test/interop/capture)
(cd "$here/go" && go build -o "$work/scenario" ./scenario)

if [ -n "${TIDEMQ_CAPTURE_UPSTREAMS:-}" ]; then
  read -ra upstreams <<<"$TIDEMQ_CAPTURE_UPSTREAMS"
  broker=${TIDEMQ_CAPTURE_BROKER:?names the broker and its version, e.g. rocketmq-5.5.0}
else
  build_tidemq
  echo "messageDelayLevel=1s 2s 3s 4s 5s 6s 7s 8s" >"$work/broker.conf"
  "$TIDEMQ_BIN" serve --data "$work/data" --listen 127.0.0.1:0 --config "$work/broker.conf" >"$work/ready" 2>"$work/broker.log" &
  broker_pid=$!
  until upstreams=($(sed -n 's/^tidemq ready on //p' "$work/ready")) && [ ${#upstreams[@]} -gt 0 ]; do
    kill -0 "$broker_pid" || { cat "$work/broker.log" >&2; exit 1; }
    sleep 0.05
  done
  broker=tidemq
  only=-client-only
fi
options=(-broker "$broker" -out "$out" ${only:+$only})
for u in "${upstreams[@]}"; do options+=(-upstream "$u"); done

java_capture() { # PREFIX, HEADER TYPE
  local run=("${java_client[@]}" "-Drocketmq.serialize.type=$2" -cp "$java_cp")
  local class=com.github.tidemq.interop.Capture
  # Twice in one recording: code 10 is what this client sends with "smart" sends off.
  "$work/capture" "${options[@]}" -client java-5.5.0 -prefix "$1" -- bash -c '
    set -e
    "$@"
    exec "${@:1:$#-1}" -Dorg.apache.rocketmq.client.sendSmartMsg=false "${@: -1}" plain-send' capture "${run[@]}" "$class"
}
java_capture java-json JSON
java_capture java-binary ROCKETMQ
env "${go_home[@]}" "$work/capture" "${options[@]}" -client go-2.1.2 -prefix go -- "$work/scenario"
