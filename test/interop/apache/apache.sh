# Starts Apache RocketMQ, a name server and a broker of it, on free ports of 127.0.0.1. Sourced after ../lib.sh by scripts that set
# $work; all of its files and logs are in $work/apache.
#
#   build_apache          gets the jars
#   start_apache LINE …   starts both, with further lines of broker.conf; their addresses are then in $apache_namesrv and
#                         $apache_broker
#   stop_apache           stops what start_apache started; nothing if that is not running

apache_pids=()

build_apache() {
  maven "$here/apache/pom.xml" "$work/apache"
  apache_cp=$(cat "$work/apache/classpath")
}

# Small files, as the defaults map gigabytes; a broker that finds the disk nine tenths full refuses to write, which is not what is
# tested.
apache_conf() { # NAME SERVER'S PORT, BROKER'S PORT, further lines
  cat <<C
brokerClusterName=DefaultCluster
brokerName=broker-a
brokerId=0
namesrvAddr=127.0.0.1:$1
listenPort=$2
brokerIP1=127.0.0.1
storePathRootDir=$work/apache/store
mappedFileSizeCommitLog=67108864
diskMaxUsedSpaceRatio=99
messageDelayLevel=$levels
autoCreateTopicEnable=true
defaultTopicQueueNums=8
transactionTimeOut=1000
transactionCheckInterval=1000
C
  [ $# = 2 ] || printf '%s\n' "${@:3}"
}

apache_java() { # LOG, then the JVM's arguments
  local log=$1
  shift
  ROCKETMQ_HOME=$work/apache java -XX:+UseSerialGC "-Duser.home=$work/apache" "-Djava.io.tmpdir=$work/apache" \
    --add-exports=java.base/jdk.internal.ref=ALL-UNNAMED --add-opens=java.base/java.nio=ALL-UNNAMED \
    --add-opens=java.base/sun.nio.ch=ALL-UNNAMED -cp "$apache_cp" "$@" >"$log" 2>&1 </dev/null &
  apache_pids+=($!)
}

# Waits until the process started last says that it serves; false when it ended instead.
apache_ready() { # LOG
  local pid=${apache_pids[-1]} end=$((SECONDS + 180))
  until grep -q 'boot success' "$1"; do
    kill -0 "$pid" 2>/dev/null || return 1
    [ $SECONDS -lt $end ] || { echo "apache.sh: no \"boot success\" in $1 within 180 s" >&2; return 1; }
    sleep 0.1
  done
}

# A port nobody listens on, below those that the kernel gives to clients.
free_port() {
  local p
  while p=$((20000 + RANDOM % 12000)) && (exec 3<>"/dev/tcp/127.0.0.1/$p") 2>/dev/null; do :; done
  echo "$p"
}

start_apache() {
  local try ns broker log=$work/apache
  # Again when somebody else took one of the ports first; the broker takes three, N-2 to N+1.
  for try in 1 2 3 4 5; do
    rm -rf "$work/apache/store"
    ns=$(free_port) broker=$(free_port)
    echo "listenPort=$ns" >"$work/apache/namesrv.conf"
    apache_conf "$ns" "$broker" "$@" >"$work/apache/broker.conf"
    : >"$log/broker.log"
    apache_java "$log/namesrv.log" -Xms64m -Xmx64m org.apache.rocketmq.namesrv.NamesrvStartup -c "$work/apache/namesrv.conf"
    if apache_ready "$log/namesrv.log"; then
      apache_java "$log/broker.log" -Xms256m -Xmx256m -XX:MaxDirectMemorySize=256m -XX:-UseLargePages \
        -Drocketmq.broker.diskSpaceWarningLevelRatio=0.99 -Drocketmq.broker.diskSpaceCleanForciblyRatio=0.99 \
        org.apache.rocketmq.broker.BrokerStartup -c "$work/apache/broker.conf"
      if apache_ready "$log/broker.log"; then
        apache_namesrv=127.0.0.1:$ns apache_broker=127.0.0.1:$broker
        return
      fi
    fi
    stop_apache
    grep -qiE 'failed to bind|address already in use' "$log/namesrv.log" "$log/broker.log" || break
  done
  echo "apache.sh: Apache RocketMQ did not start (try $try):" >&2
  tail -n 40 "$log/namesrv.log" "$log/broker.log" >&2
  return 1
}

stop_apache() {
  local pid
  for pid in ${apache_pids[@]+"${apache_pids[@]}"}; do
    kill -9 "$pid" 2>/dev/null || true # a clean end takes it 15 s, and its files go anyway
    wait "$pid" 2>/dev/null || true
  done
  apache_pids=()
}
