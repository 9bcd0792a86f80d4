#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# The two commands on a machine that has nothing: bare.sh WORK_DIR [SCRIPT [OPTION...]] makes a minimal Debian 12 in
# WORK_DIR/base (once; debootstrap, from the mirror that this machine's apt uses), copies it, clones what is committed here into
# the copy, and runs there scripts/demo.sh and scripts/test.sh, or only SCRIPT. Needs root and Debian; no part of ctest.
set -eu

if [ $# -lt 1 ]; then
    echo "usage: bare.sh WORK_DIR [SCRIPT [OPTION...]]" >&2
    exit 2
fi
mkdir -p "$1"
work=$(cd "$1" && pwd)
shift
root=$(cd "$(dirname "$0")/../.." && pwd)
machine=$work/machine

mirror=$(apt-get indextargets --format "\$(REPO_URI)" 'Created-By: Packages' 'Codename: bookworm' | head -n 1)
if [ ! -e "$work/base.done" ]; then
    command -v debootstrap >/dev/null || apt-get install -y -qq --no-install-recommends debootstrap >/dev/null
    rm -rf "$work/base"
    echo "Making a minimal Debian 12 in $work/base"
    debootstrap --variant=minbase bookworm "$work/base" "$mirror" >"$work/debootstrap.log" ||
        { tail -n 5 "$work/debootstrap.log"; exit 1; }
    # apt and name resolution as on this machine
    rm -f "$work/base/etc/apt/sources.list"
    cp /etc/apt/sources.list.d/debian.sources "$work/base/etc/apt/sources.list.d/"
    cp /etc/apt/apt.conf.d/99* "$work/base/etc/apt/apt.conf.d/" 2>/dev/null || true
    cp /etc/hosts /etc/resolv.conf "$work/base/etc/"
    touch "$work/base.done"
fi

leave() {
    umount "$machine/proc" 2>/dev/null || true
}
trap leave EXIT

# run SCRIPT [OPTION...] on a new machine
run() {
    local began status=0 script=/srv/seqmix/$1
    leave
    rm -rf --one-file-system "$machine"
    cp -a "$work/base" "$machine"
    mount -t proc proc "$machine/proc"
    git clone --quiet --no-local "$root" "$machine/srv/seqmix"
    echo "== $* on a bare Debian 12, commit $(git -C "$root" rev-parse --short HEAD)"
    began=$(date +%s)
    shift
    chroot "$machine" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb \
        "$script" "$@" </dev/null || status=$?
    echo "== ${script##*/}: exit status $status after $(($(date +%s) - began)) s"
    return $status
}

if [ $# -gt 0 ]; then
    run "$@"
else
    run scripts/demo.sh
    run scripts/test.sh
fi
