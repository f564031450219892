# shellcheck shell=bash
# Other Debians in a temporary folder; to be sourced. Whatever happens, nothing is left of them:
# what works in them and what is mounted there has its own namespaces, which end with the script.

folder=$(mktemp -d)
export folder

tidy() {
    local job
    for job in $(jobs -p); do
        kill -KILL "$job" 2>/dev/null || true
    done
    wait 2>/dev/null
    rm -rf --one-file-system "$folder"
}
trap tidy EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

apart() {  # apart COMMAND: to be run in the background, so that a signal is heeded
    exec unshare --mount --pid --fork --kill-child --mount-proc bash -euo pipefail -c '"$@"' bash "$@"
}

make_debian() {  # make_debian SUITE PACKAGES: in $folder/SUITE, and its pip is set as the one here
    debootstrap --variant=minbase --include="$2" "$1" "$folder/$1" >"$folder/$1.log" 2>&1 || {
        tail -n 20 "$folder/$1.log"
        return 1
    }
    cp /etc/resolv.conf /etc/hosts "$folder/$1/etc/"
    cp -r /usr/local/share/ca-certificates "$folder/$1/usr/local/share/"
    python3 -m venv "$folder/$1.venv"
    {
        echo "[global]"
        "$folder/$1.venv/bin/pip" config list | sed -E \
            -e "s/^[^.]*\.([a-z-]+)='(.*)'$/\1 = \2/" \
            -e '/^cert =/! s, (file:|/)[^ ]*,,g' \
            -e '/= *$/d' | sort -u -t= -k1,1  # without folders, which are not in there
    } >"$folder/$1/etc/pip.conf"
}

enter_debian() {  # enter_debian SUITE SCRIPT: as root, with a clone in /opt/sunpleat
    local root="$folder/$1"
    mount -t proc proc "$root/proc"
    mount --rbind /dev "$root/dev"
    chroot "$root" update-ca-certificates >/dev/null
    git clone -q . "$root/opt/sunpleat"
    exec env -i -C "$root" HOME=/root LANG=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin \
        chroot . bash -euo pipefail -c "cd /opt/sunpleat
            $2"
}
export -f make_debian enter_debian
