#!/usr/bin/env bash
# Runs the unmodified RocketMQ clients against TideMQ, and TideMQ's own client against TideMQ and against Apache RocketMQ: all
# suites side by side, as most cases wait most of the time. Needs go, java and mvn. Any number of runs may go on at a time.
#
#   run.sh                     all suites, against tidemq built from this tree; they start, stop and kill their own brokers
#   run.sh java-json …         only the suites named:
#     java-json java-binary    Apache's Java client, with both header types
#     go                       Apache's Go client
#     client                   our own client
#     client-apache            our own client against Apache RocketMQ, which apache/apache.sh starts
#     mqadmin                  every command of Apache's mqadmin; its table is compared with the one in docs/compatibility.md, and
#                              replaces it when TIDEMQ_INTEROP_UPDATE=1
#
# TIDEMQ_INTEROP_ADDR=HOST:PORT names a broker that is running already (its name server's address; for Apache RocketMQ the
# broker's goes into TIDEMQ_INTEROP_BROKER, and messageDelayLevel must be "1s 2s 3s 4s 5s 6s 7s 8s"). Cases that stop the broker
# are skipped there, by name; client-apache is left out. TIDEMQ_INTEROP_CASES limits the suites to cases whose class or function
# matches the regular expression.
#
# Exit code 0: everything passed, and nothing was skipped but in a broker that is not ours. After a failure the logs are printed
# and the folder with the brokers' files is kept.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/tidemq-interop.XXXXXX")
. "$here/lib.sh"
. "$here/apache/apache.sh"
limit=480 # seconds for one suite
cases=${TIDEMQ_INTEROP_CASES:-}
foreign=${TIDEMQ_INTEROP_ADDR:-}
finish() {
  local status=$?
  trap - EXIT
  stop_apache
  kill_leftovers
  if [ $status = 0 ]; then rm -rf "$work"; else echo "run.sh: failed; logs and brokers' files are in $work" >&2; fi
  exit $status
}
trap finish EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

suites=("$@")
if [ $# = 0 ]; then
  suites=(java-json java-binary go client)
  [ -n "$foreign" ] || suites+=(client-apache mqadmin)
fi
wanted() { # whether a suite whose name matches PATTERN is
  local s
  for s in "${suites[@]}"; do [[ $s != $1 ]] || return 0; done
  return 1
}
for s in "${suites[@]}"; do
  case "$s" in
  java-json | java-binary | go | client | client-apache | mqadmin) ;;
  *) echo "run.sh: no suite $s" >&2; exit 2 ;;
  esac
  mkdir -p "$work/$s/tmp"
done
mkdir -p "$work/home"
echo "run.sh: suites ${suites[*]}${cases:+, cases $cases}${foreign:+, against $foreign}; building"

[ -n "$foreign" ] || build_tidemq
if wanted 'java-*' || wanted go; then build_java; fi
if wanted go; then
  (cd "$here/go" && go vet ./... && go test -c -o "$work/interop.test" .)
  export TIDEMQ_INTEROP_JAVA_CP=$java_cp # it has a Java member join its group
fi
if wanted 'client*'; then (cd "$root" && go vet -tags interop ./client && go test -c -tags interop -o "$work/client.test" ./client); fi
if wanted mqadmin; then maven "$here/mqadmin/pom.xml" "$work/mqadmin"; fi
if wanted client-apache; then
  build_apache
  start_apache
fi

java_suite() { # HEADER TYPE
  timeout -k 10 $limit "${java_client[@]}" "-Djava.io.tmpdir=$work/$suite/tmp" "-Drocketmq.serialize.type=$1" -cp "$java_cp" \
    org.junit.platform.console.ConsoleLauncher execute --disable-banner --disable-ansi-colors --details=tree \
    --scan-classpath "$work/java/classes" --fail-if-no-tests ${cases:+--include-classname ".*($cases).*"} \
    --config junit.jupiter.execution.parallel.enabled=true \
    --config junit.jupiter.execution.parallel.mode.default=concurrent \
    --config junit.jupiter.execution.parallel.config.strategy=fixed \
    --config junit.jupiter.execution.parallel.config.fixed.parallelism=12
}
go_suite() { # FOLDER, BINARY, CASES
  cd "$1"
  env "${go_home[@]}" "TMPDIR=$work/$suite/tmp" \
    timeout -k 10 $limit "$2" -test.v -test.timeout "$((limit - 10))s" -test.parallel 12 -test.run "$3"
}
client_suite() { # NAME SERVER'S ADDRESS
  TIDEMQ_INTEROP_ADDR=$1 go_suite "$root/client" "$work/client.test" "${cases:-^TestInterop}"
}
# Runs every command of mqadmin against a broker of its own, and compares the table with the one that is committed.
mqadmin_suite() {
  local status=0 table=$work/mqadmin/files/table.md page=$root/docs/compatibility.md
  start_tidemq mqadmin/tmp
  timeout -k 10 $limit "${java_client[@]}" "-Djava.io.tmpdir=$work/mqadmin/tmp" -cp "$work/mqadmin/classes:$(cat "$work/mqadmin/classpath")" \
    com.github.tidemq.mqadmin.Conformance "$tidemq_addr" "$tidemq_addr" "$work/mqadmin/files" || status=$?
  stop_tidemq || status=1
  [ $status = 0 ] || return $status
  replace_table mqadmin "$table" <"$page" >"$work/mqadmin/page.md"
  if [ "${TIDEMQ_INTEROP_UPDATE:-}" = 1 ]; then
    cat "$work/mqadmin/page.md" >"$page"
  else
    diff -u "$page" "$work/mqadmin/page.md" || { echo "docs/compatibility.md says otherwise: TIDEMQ_INTEROP_UPDATE=1 $0 mqadmin"; return 1; }
  fi
}
# Puts a file's lines between "<!-- NAME: …" and "<!-- end of NAME" of a page.
replace_table() { # NAME, FILE
  awk -v name="$1" -v file="$2" '
    index($0, "<!-- end of " name) == 1 { inside = 0 }
    !inside { print }
    index($0, "<!-- " name ":") == 1 { inside = 1; while ((getline line < file) > 0) print line }'
}
run() {
  local suite=$1 status=0 began=$SECONDS
  case "$suite" in
  java-json) java_suite JSON ;;
  java-binary) java_suite ROCKETMQ ;;
  go) go_suite "$here/go" "$work/interop.test" "${cases:-.}" ;;
  client)
    [ -z "$foreign" ] || { client_suite "$foreign"; return; }
    start_tidemq client/tmp
    client_suite "$tidemq_addr" || status=$?
    stop_tidemq || status=1
    return $status
    ;;
  client-apache) client_suite "$apache_namesrv" ;;
  mqadmin) mqadmin_suite ;;
  esac
}
# What became of a suite, in one line; false when it is not what is wanted.
verdict() { # SUITE, STATUS
  local log=$work/$1.log passed skipped ok=true
  case "$1" in
  java-*)
    passed=$(sed -n 's/^\[ *\([0-9]*\) tests successful .*/\1/p' "$log")
    skipped=$(sed -n 's/^\[ *\([0-9]*\) tests \(skipped\|aborted\) .*/\1/p' "$log" | awk '{ n += $1 } END { print n + 0 }')
    ;;
  mqadmin)
    passed=$(sed -n 's/^\([0-9]*\) tests successful.*/\1/p' "$log") skipped=0
    ;;
  *)
    passed=$(grep -c '^--- PASS' "$log" || true)
    skipped=$(grep -c '^ *--- SKIP' "$log" || true)
    ;;
  esac
  if [ "$2" != 0 ] || [ "${passed:-0}" = 0 ]; then ok=false; fi
  if [ -z "$foreign" ] && [ "${skipped:-0}" != 0 ]; then ok=false; fi
  printf '%-14s %s: %s passed, %s skipped, exit code %s\n' "$1" "$($ok && echo ok || echo FAILED)" "${passed:-0}" "${skipped:-0}" "$2"
  $ok
}

echo "run.sh: built after $SECONDS s; running, at most $limit s"
pids=()
for s in "${suites[@]}"; do
  (trap - EXIT; run "$s") >"$work/$s.log" 2>&1 &
  pids+=($!)
done
failed=() summary=()
for i in "${!suites[@]}"; do
  s=${suites[$i]} status=0
  wait "${pids[$i]}" || status=$?
  echo "=== $s"
  grep -v -e '^=== ' -e '^Test run finished' "$work/$s.log" || true
  line=$(verdict "$s" $status) || failed+=("$s")
  summary+=("$line")
done
for s in ${failed[@]+"${failed[@]}"}; do
  while IFS= read -r log; do
    echo "=== $s: end of $log"
    tail -n 40 "$log"
  done < <(find "$work/$s" $([ "$s" != client-apache ] || echo "$work/apache") -name '*.log' -size +0 | sort)
done
echo "=== summary, after $SECONDS s"
printf '%s\n' "${summary[@]}"
if [ ${#failed[@]} -gt 0 ]; then echo "run.sh: failed: ${failed[*]}" >&2; exit 1; fi
