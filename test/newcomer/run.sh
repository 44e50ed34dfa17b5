#!/usr/bin/env bash
# A newcomer's first minutes: clones what is committed into a temporary folder and types the commands of README.md's first chapter
# there, word for word, in order. Ends with 1 when one of them does not do what README.md says.
#
# The commands have the default ports. Where the system allows it they run in a network of their own, so that nothing else is in
# the way; else the ports must be free.
set -euo pipefail

say() { printf '\n$ %s\n' "$1"; }
fail() { echo "newcomer: $*" >&2; exit 1; }

# commands prints the commands of the chapter: indented lines that begin with one, without their comments.
commands() {
	awk '/^## See it in five minutes/ {on = 1} /^### From Java/ {on = 0} on && /^    (make|go|\.\/tidemq) / {sub(/^    /, ""); sub(/ +# .*$/, ""); print}' README.md
}

# wait_for FILE TEXT PID: until FILE has TEXT, PID ends or a minute is over.
wait_for() {
	for _ in $(seq 600); do
		if grep -qF -- "$2" "$1"; then return 0; fi
		kill -0 "$3" 2>/dev/null || break
		sleep 0.1
	done
	cat "$1" >&2
	fail "no \"$2\" came"
}

# inside runs the chapter's ./tidemq commands, in the clone.
inside() {
	ip link set lo up 2>/dev/null || true
	local line
	out=$(mktemp -d) server="" # not local: the trap needs them
	# With what runs in the background: the broker, and a consumer that never got its message.
	trap 'for p in $(jobs -p); do kill "$p" 2>/dev/null || true; done; rm -rf "$out"' EXIT
	while IFS= read -r line; do
		say "$line"
		case "$line" in
		'./tidemq serve')
			bash -c "exec $line" >"$out/serve" 2>"$out/serve.log" </dev/null &
			server=$!
			wait_for "$out/serve" 'tidemq ready on 127.0.0.1:9876' "$server"
			cat "$out/serve"
			;;
		'./tidemq consume '*--count*)
			timeout 60 bash -c "$line" </dev/null | tee "$out/last"
			grep -q 'remind me' "$out/last" || fail "the message did not come"
			;;
		'./tidemq consume '*)
			bash -c "exec $line" >"$out/last" </dev/null &
			wait_for "$out/last" 'remind me' $!
			kill -INT $!
			wait $! || fail "interrupted, it ended with $?"
			cat "$out/last"
			;;
		'./tidemq levels '*)
			timeout 60 bash -c "$line" </dev/null | tee "$out/last"
			grep -qw '10s' "$out/last" || fail "it does not show what waits for 10s"
			;;
		*)
			timeout 60 bash -c "$line" </dev/null
			;;
		esac
	done < <(commands | grep '^\./tidemq ')
	[ -n "$server" ] || fail "README.md starts no broker"
	kill -TERM "$server"
	wait "$server" || fail "the broker ended with $?: $(cat "$out/serve.log")"
}

if [ "${1:-}" = --inside ]; then
	inside
	exit
fi

repo=$(cd "$(dirname "$0")/../.." && pwd)
self=$repo/test/newcomer/run.sh
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
git -C "$repo" diff --quiet HEAD || echo "newcomer: not all of $repo is committed; only what is gets tested"
git clone --quiet --no-hardlinks "$repo" "$tmp/tidemq"
cd "$tmp/tidemq"
unset TIDEMQ_ADDR MAKEFLAGS MAKELEVEL MFLAGS
for want in 'make demo' 'make test' 'go build' './tidemq serve' './tidemq produce' './tidemq levels' './tidemq consume' './tidemq offsets'; do
	commands | grep -qF -- "$want" || fail "README.md's first chapter does not say \"$want …\""
done
while IFS= read -r line; do
	say "$line"
	timeout 900 bash -c "$line" </dev/null
done < <(commands | grep -v '^\./tidemq ')
if unshare --user --map-root-user --net ip link set lo up 2>/dev/null; then
	unshare --user --map-root-user --net bash "$self" --inside
else
	for port in 10911 9876; do
		if (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then fail "port $port is in use, and there is no network of its own to be had"; fi
	done
	bash "$self" --inside
fi
git diff --quiet || fail "the commands changed files of the tree"
echo
echo "newcomer: all of README.md's first chapter works"
