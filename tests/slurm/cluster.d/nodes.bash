# A node: namespaces with slurmd in them; sourced by ../cluster.
node_number() { case $1 in node[1-9]*) echo "${1#node}";; *) die "no such node: '$1'";; esac; }
node_child() { awk '{print $1}' "/proc/$1/task/$1/children" 2>/dev/null || true; }  # of unshare: the node's process 1

node_start() {
    local i=$1 p child= n
    if pid_of "node$i" >/dev/null; then return; fi
    mkdir -p "$spool/node$i"
    ip link del "sl$tag-$i" 2>/dev/null || true
    background "node$i" unshare --net --uts --mount --pid --fork --mount-proc --kill-child=KILL \
        bash "$here/cluster" node-main "$dir" "$i"
    p=$(pid_of "node$i") || die "node$i did not start; see $log/node$i.out"
    for ((n = 0; n < 200; n++)); do                  # until it is in a network of its own
        child=$(node_child "$p")
        [ -z "$child" ] || [ "$(readlink "/proc/$child/ns/net")" = "$(readlink /proc/self/ns/net)" ] || break
        sleep 0.05
    done
    [ -n "$child" ] || die "node$i did not start; see $log/node$i.out"
    ip link add "sl$tag-$i" type veth peer name eth0 netns "$child"
    ip link set "sl$tag-$i" master "$bridge" up
}
node_main() {                                        # runs as process 1 of the node
    local i=$1 n daemon
    hostname "node$i"
    mount --bind "$etc/hosts" /etc/hosts
    [ ! -e /etc/nsswitch.conf ] || mount --bind "$etc/nsswitch.conf" /etc/nsswitch.conf
    mount -t tmpfs "node$i" /dev/shm                 # the one folder that is local to a node
    ip link set lo up
    for ((n = 0; n < 200; n++)); do ip link show eth0 >/dev/null 2>&1 && break; sleep 0.05; done
    ip link set eth0 address "$(printf '02:00:00:00:00:%02x' "$i")"  # the same after each boot: neighbours remember it
    ip addr add "$SUBNET.$((10 + i))/24" dev eth0
    ip link set eth0 up
    ip route add default via "$SUBNET.1" 2>/dev/null || true
    slurmd -D -b -N "node$i" &                       # -b: say that the node was rebooted, its jobs are gone
    daemon=$!
    trap 'kill $daemon 2>/dev/null' TERM
    while kill -0 $daemon 2>/dev/null; do wait $daemon || true; done
}
node_stop() {                                        # process 1 gone, the kernel ends the rest
    local p child
    p=$(pid_of "node$1") || return 0
    child=$(node_child "$p")
    [ -z "$child" ] || kill -9 "$child" 2>/dev/null || true
    stop "node$1" 2
    ip link del "sl$tag-$1" 2>/dev/null || true
}
