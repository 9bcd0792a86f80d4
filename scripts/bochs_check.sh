#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# bochs_check.sh BUILD [SEQMIX-CHECK ARGUMENTS]: runs the compiled AVX-512 kernels on a CPU that has none of it. Boots a Debian
# kernel on bochs' Skylake-X, with seqmix-check of that build folder in the initial file system, and prints what it says there.
# By hand, not in CI: some minutes. Needs the Debian packages bochs, bochsbios, vgabios, isolinux, syslinux-common,
# genisoimage and cpio; kernel and busybox are downloaded and unpacked, not installed.
set -eu

[ $# -ge 1 ] || { echo "usage: bochs_check.sh BUILD [SEQMIX-CHECK ARGUMENTS]" >&2; exit 2; }
build=$(cd "$1" && pwd)
shift
[ $# -gt 0 ] || set -- --quick --rung cpu-avx512 --filter '*:f32:gauss:*'
work=$build/bochs
mkdir -p "$work/packages"
cd "$work"
rm -rf root iso boot.iso serial.txt
mkdir -p root/bin root/proc root/dev iso

if [ ! -e kernel ]; then
    image=$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/.*Depends: \(linux-image-[0-9].*\)/\1/p')
    (cd packages && apt-get download "$image" busybox-static)
    for package in packages/*.deb; do
        dpkg -x "$package" unpacked
    done
    cp unpacked/boot/vmlinuz-* kernel
fi

# The program with its libraries, and a script in place of init.
cp unpacked/bin/busybox "$build/seqmix-check" root/bin/
for library in $(ldd "$build/seqmix-check" | grep -o '/[^ ]*'); do
    mkdir -p "root$(dirname "$library")"
    cp -L "$library" "root$library"
done
cat >root/init <<INIT
#!/bin/busybox sh
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t devtmpfs dev /dev
exec >/dev/ttyS0 2>&1
/bin/busybox grep -m1 'model name' /proc/cpuinfo
/bin/busybox grep -m1 -o 'avx512.*' /proc/cpuinfo
/bin/seqmix-check$(printf " '%s'" "$@")
echo "seqmix-check ended with \$?"
/bin/busybox sleep 3 # until the serial line has sent all of it
/bin/busybox poweroff -f
INIT
chmod +x root/init
(cd root && find . | cpio -o -H newc --quiet | gzip -1) >iso/initrd

# Bochs gives the size of the compact XSAVE area wrongly, for which Linux would give up AVX: noxsaves, no XSAVEC.
cp kernel iso/vmlinuz
cp /usr/lib/ISOLINUX/isolinux.bin /usr/lib/syslinux/modules/bios/ldlinux.c32 iso/
cat >iso/isolinux.cfg <<'ISOLINUX'
default seqmix
label seqmix
 kernel vmlinuz
 append initrd=initrd console=ttyS0 quiet panic=-1 mitigations=off tsc=reliable noxsaves clearcpuid=321
ISOLINUX
genisoimage -quiet -o boot.iso -b isolinux.bin -c boot.cat -no-emul-boot -boot-load-size 4 -boot-info-table iso
cat >bochsrc <<'BOCHS'
display_library: rfb, options="timeout=0"
romimage: file=/usr/share/bochs/BIOS-bochs-latest
vgaromimage: file=/usr/share/vgabios/vgabios.bin
megs: 512
cpu: model=corei7_skylake_x, count=1, ips=50000000
ata0-master: type=cdrom, path=boot.iso, status=inserted
boot: cdrom
com1: enabled=1, mode=file, dev=serial.txt
log: bochs.log
panic: action=fatal
BOCHS
echo c >commands

bochs -q -f bochsrc -rc commands >console.log 2>&1 || true # it ends with 1 when the machine is switched off
tr -d '\r' <serial.txt
grep -q '^seqmix-check ended with 0' serial.txt
