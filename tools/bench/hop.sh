# hop.sh LAST PROGRAM COUNT: send COUNT packets from the namespace h0 to h1 and so on to hLAST, which
# drops them; PROGRAM is hop.c.
set -e
exec >/dev/null
mkdir -p /run/netns
last=$1
for i in $(seq 0 $last); do
  ip netns add h$i
  ip -n h$i link set lo up
  ip netns exec h$i sysctl -qw net.ipv4.ip_forward=1
done
for i in $(seq 0 $((last - 1))); do
  next=$((i + 1))
  ip link add out netns h$i type veth peer name in netns h$next
  ip -n h$i address add 10.0.$i.1/24 dev out
  ip -n h$next address add 10.0.$i.2/24 dev in
  ip -n h$i link set out up
  ip -n h$next link set in up
  ip -n h$i route add default via 10.0.$i.2
done
ip -n h$last route add blackhole 10.9.0.1
ip netns exec h0 "$2" send "$3" 10.9.0.1
ip netns exec h$last awk -v sent="$3" '/in:/ && $3 < sent {print "lost", sent - $3; exit 1}' \
  /proc/self/net/dev >&2
