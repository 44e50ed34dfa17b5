# Shared by run.sh and capture.sh, which set $here (this folder) and $work (a folder of this run's own for everything that is written).
root=$(cd "$here/../.." && pwd)

# Compiles a project into a folder of this run's own, so that runs side by side do not pull classes from under each other. Off line
# when everything is there already; one run at a time, as two downloads into Maven's local repository can spoil each other.
maven() { # POM, BUILD FOLDER
  local mvn=(timeout 400 mvn -q -B -f "$1" -Dstyle.color=never "-Dinterop.build=$2" compile) lock
  mkdir -p "$2"
  if command -v flock >/dev/null; then
    mkdir -p "$HOME/.m2"
    exec {lock}>"$HOME/.m2/tidemq-interop.lock"
    flock "$lock"
  fi
  "${mvn[@]}" -o >"$2/mvn-offline.log" 2>&1 || "${mvn[@]}"
  [ -z "${lock:-}" ] || exec {lock}>&-
}

# Compiles the Java project; its class path is then in $java_cp.
build_java() {
  maven "$here/java/pom.xml" "$work/java"
  java_cp="$work/java/classes:$(cat "$work/java/classpath")"
}

# A JVM for the client: small, quick to start, with its logs and local offsets below $work.
java_client=(java -Xmx512m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 "-Duser.home=$work/home")

# The Go client keeps the offsets of broadcast consumers below this folder.
go_home=("rocketmq.client.localOffsetStoreDir=$work/home/go-offsets" ROCKETMQ_GO_LOG_LEVEL=fatal)

build_tidemq() {
  TIDEMQ_BIN=$work/tidemq
  (cd "$root" && go build -o "$TIDEMQ_BIN" ./cmd/tidemq)
  export TIDEMQ_BIN
}

# The levels that every suite expects.
levels='1s 2s 3s 4s 5s 6s 7s 8s'

# Starts a tidemq in $work/NAME and waits until it serves; its address is then in $tidemq_addr, its process id in $tidemq_pid.
start_tidemq() { # NAME
  local dir=$work/$1
  mkdir -p "$dir"
  echo "messageDelayLevel=$levels" >"$dir/broker.conf"
  "$TIDEMQ_BIN" serve --data "$dir/data" --listen 127.0.0.1:0 --config "$dir/broker.conf" >"$dir/ready" 2>"$dir/broker.log" &
  tidemq_pid=$!
  until tidemq_addr=$(sed -n 's/^tidemq ready on //p' "$dir/ready") && [ -n "$tidemq_addr" ]; do
    kill -0 "$tidemq_pid" 2>/dev/null || { cat "$dir/broker.log" >&2; return 1; }
    sleep 0.05
  done
}

# SIGTERM; false unless the broker then ends with 0.
stop_tidemq() {
  local pid=$tidemq_pid
  tidemq_pid=
  kill "$pid" 2>/dev/null || true
  wait "$pid" || { echo "the broker ended with $? after SIGTERM" >&2; return 1; }
}

# Ends what this run left behind when it was cut short: processes of a binary in $work, and JVMs with $work in their arguments.
kill_leftovers() {
  local proc pid
  for proc in /proc/[0-9]*; do
    pid=${proc#/proc/}
    [ "$pid" != $$ ] || continue
    case "$(readlink "$proc/exe" 2>/dev/null)" in
    "$work"/*) ;;
    */java) tr '\0' '\n' <"$proc/cmdline" 2>/dev/null | grep -qF -e "=$work/" || continue ;;
    *) continue ;;
    esac
    kill -9 "$pid" 2>/dev/null || true
  done
}
