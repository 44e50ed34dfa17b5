# Shared by run.sh and capture.sh, which set $here (this folder) and $work (a folder for everything that is written).
root=$(cd "$here/../.." && pwd)

# Compiles the Java project; its class path is then in $java_cp. Off line when everything is there already.
build_java() {
  local mvn=(mvn -q -B -f "$here/java/pom.xml" -Dstyle.color=never)
  "${mvn[@]}" -o compile >"$work/mvn-offline.log" 2>&1 || "${mvn[@]}" compile
  java_cp="$here/java/target/classes:$(cat "$here/java/target/classpath")"
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
