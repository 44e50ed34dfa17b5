#!/usr/bin/env bash
# Runs the unmodified RocketMQ clients against TideMQ: the Java client with both header types and the Go client, side by side,
# as most cases wait most of the time. Needs go, java and mvn.
#
#   run.sh                     against tidemq built from this tree; the suites start, stop and kill their own brokers
#   run.sh java-json …         only the suites named: java-json java-binary go
#
# TIDEMQ_INTEROP_ADDR=HOST:PORT names a broker that is running already (its name server's address; for Apache RocketMQ the
# broker's goes into TIDEMQ_INTEROP_BROKER, and messageDelayLevel must be "1s 2s 3s 4s 5s 6s 7s 8s"). Cases that stop the broker
# are skipped there, by name. TIDEMQ_INTEROP_CASES limits both suites to cases whose class or function matches the regular
# expression. Exit code 0: everything passed, nothing was skipped that should not be.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/tidemq-interop.XXXXXX")
. "$here/lib.sh"
limit=600 # seconds for one suite
finish() {
  status=$?
  # A suite that was cut short leaves its brokers; they are of the binary that only this run has.
  for exe in /proc/[0-9]*/exe; do
    if [ "$(readlink "$exe" 2>/dev/null)" = "$work/tidemq" ]; then
      pid=${exe#/proc/} && kill -9 "${pid%/exe}" 2>/dev/null || true
    fi
  done
  if [ $status = 0 ]; then rm -rf "$work"; else echo "run.sh: failed; logs and brokers' files are in $work" >&2; fi
  exit $status
}
trap finish EXIT

suites=("$@")
[ $# -gt 0 ] || suites=(java-json java-binary go)
mkdir -p "$work/home" "$work/tmp"
[ -n "${TIDEMQ_INTEROP_ADDR:-}" ] || build_tidemq
build_java
(cd "$here/go" && go vet ./... && go test -c -o "$work/interop.test" .)
# The Go suite has a Java member join its group.
export TIDEMQ_INTEROP_JAVA_CP=$java_cp

java_suite() { # HEADER TYPE
  timeout -k 10 $limit "${java_client[@]}" "-Djava.io.tmpdir=$work/tmp" "-Drocketmq.serialize.type=$1" -cp "$java_cp" \
    org.junit.platform.console.ConsoleLauncher execute --disable-banner --disable-ansi-colors --details=tree \
    --scan-classpath "$here/java/target/classes" --fail-if-no-tests ${TIDEMQ_INTEROP_CASES:+--include-classname ".*($TIDEMQ_INTEROP_CASES).*"} \
    --config junit.jupiter.execution.parallel.enabled=true \
    --config junit.jupiter.execution.parallel.mode.default=concurrent \
    --config junit.jupiter.execution.parallel.config.strategy=fixed \
    --config junit.jupiter.execution.parallel.config.fixed.parallelism=12
}
go_suite() {
  (cd "$here/go" && env "${go_home[@]}" "TMPDIR=$work/tmp" \
    timeout -k 10 $limit "$work/interop.test" -test.v -test.timeout "${limit}s" -test.parallel 12 ${TIDEMQ_INTEROP_CASES:+-test.run "$TIDEMQ_INTEROP_CASES"})
}
run() {
  case "$1" in
  java-json) java_suite JSON ;;
  java-binary) java_suite ROCKETMQ ;;
  go) go_suite ;;
  *) echo "run.sh: no suite $1" >&2; return 2 ;;
  esac
}
pids=()
for s in "${suites[@]}"; do
  run "$s" >"$work/$s.log" 2>&1 &
  pids+=($!)
done
failed=()
for i in "${!suites[@]}"; do
  s=${suites[$i]}
  wait "${pids[$i]}" || failed+=("$s")
  echo "=== $s"
  grep -v -e '^=== ' -e '^Test run finished' "$work/$s.log" || true
done
if [ ${#failed[@]} -gt 0 ]; then echo "run.sh: failed: ${failed[*]}" >&2; exit 1; fi
