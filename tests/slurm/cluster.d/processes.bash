# Daemons by pid file; sourced by ../cluster.
# A pid file holds "PID START", START being when the process started: a number that went to another process since is
# never signalled. A zombie counts as gone.
started() { awk '{sub(/^.*\) /, ""); if ($1 != "Z") print $20}' "/proc/$1/stat" 2>/dev/null || true; }
pid_of() {                                           # pid_of NAME: its process, or failure
    local p s
    [ -e "$run/$1.pid" ] || return 1
    read -r p s < "$run/$1.pid" || return 1
    [ -n "$s" ] && [ "$(started "$p")" = "$s" ] || return 1
    echo "$p"
}
background() {                                       # background NAME COMMAND...
    local name=$1; shift
    if pid_of "$name" >/dev/null; then return; fi
    setsid "$@" </dev/null >>"$log/$name.out" 2>&1 &
    echo "$! $(started $!)" > "$run/$name.pid"
}
stop() {                                             # stop NAME [SECONDS]: TERM, then KILL
    local p i
    if p=$(pid_of "$1"); then
        kill "$p" 2>/dev/null || true
        for ((i = 0; i < ${2:-10} * 20; i++)); do pid_of "$1" >/dev/null || break; sleep 0.05; done
        if pid_of "$1" >/dev/null; then kill -9 "$p" 2>/dev/null || true; sleep 0.2; fi
    fi
    rm -f "$run/$1.pid"
}
until_ok() {                                         # until_ok SECONDS NAME COMMAND...: or die, showing NAME's output
    local end=$((SECONDS + $1)) name=$2; shift 2
    until "$@" >/dev/null 2>&1; do
        { [ $SECONDS -lt $end ] && pid_of "$name" >/dev/null; } ||
            { tail -n 5 "$log/$name.out" >&2; die "$name did not come up; see $log"; }
        sleep 0.1
    done
}
