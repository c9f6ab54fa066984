# Says what is in the way. $1 is the address we come from, $2 the interfaces, $3 the programs, $4
# kernel parameters, $5 congestion controls: lists of words, in which a star is no pattern. Each
# argument after them is a word and the arguments of `ip -j`: what that reports stands behind it.
set -f
PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"
python3 -c 'import sys; print("python", *sys.version_info[:2])' 2>/dev/null || echo python 0 0
echo linux "$(uname -r)"
[ -z "$1" ] || ip -o route get "$1" 2>/dev/null | sed -n 's/.* dev \([^ ]*\).*/route \1/p'
for name in $2; do ip link show dev "$name" >/dev/null 2>&1 || echo interface "$name"; done
for name in $3; do command -v "$name" >/dev/null || echo program "$name"; done
for name in $4; do [ -e "/proc/sys/$(echo "$name" | tr . /)" ] || echo parameter "$name"; done
for name in $5; do
	grep -qw "$name" /proc/sys/net/ipv4/tcp_available_congestion_control 2>/dev/null ||
		modprobe -nq "tcp_$name" 2>/dev/null || echo congestion "$name"
done
shift 5
for asked; do printf '%s %s\n' "${asked%% *}" "$(ip -j ${asked#* } 2>/dev/null | tr -d '\n')"; done
